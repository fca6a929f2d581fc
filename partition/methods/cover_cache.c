#include "partition/methods/cover_cache.h"

#include "partition/methods/partition_cache.h"
#include "protocol/base/log.h"
#include "protocol/files/file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <xxhash.h>

#define CACHE_MAGIC "TRNDCOV"

/* Before the counts: each direction's rows by list, and its sums by part; little-endian. */
struct cache_header {
    char magic[8];
    uint32_t version, n_rank;
    int32_t n_part, n_hop;
    uint32_t mirrors, padding;
    char key[32];
    struct part_cover_rows rows;
    /* XXH3-64 of what follows, piece after piece, each seeded by the one before, the first by rows */
    uint64_t checksum;
};

/* The header and the counts, as they are in a file. Returns their number. */
static int pieces_of(struct cache_header *header, const struct part_dedup *shared, struct iovec out[5])
{
    int n = 0, n_direction = shared->mirrors ? 1 : PART_DIRECTION_N;
    size_t n_sum = (size_t)shared->n_part * ((size_t)shared->n_hop + 1),
           n_list = n_sum * shared->n_rank * PART_DEDUP_N_SIDE;
    out[n++] = (struct iovec){.iov_base = header, .iov_len = sizeof *header};
    for (int d = 0; d < n_direction; d++) {
        out[n++] = (struct iovec){.iov_base = shared->n_row[d], .iov_len = n_list * sizeof *shared->n_row[d]};
        out[n++] = (struct iovec){.iov_base = shared->sums[d], .iov_len = n_sum * sizeof *shared->sums[d]};
    }
    return n;
}

static uint64_t checksum_of(const struct part_cover_rows *rows, const struct iovec *piece, int n_piece)
{
    uint64_t sum = XXH3_64bits(rows, sizeof *rows);
    for (int i = 1; i < n_piece; i++) {
        sum = XXH3_64bits_withSeed(piece[i].iov_base, piece[i].iov_len, sum);
    }
    return sum;
}

/* The path of these counts; false: no cache. */
static bool cache_find(const struct part_cover_input *in, const struct job *job, struct partition_cache *out)
{
    const struct partition *p = in->partition;
    if (!partition_cache_folder(in->dataset, job, out->folder)) {
        return false;
    }
    char graph[33], text[256];
    dataset_fingerprint(in->dataset, false, graph);
    uint64_t order = XXH3_64bits(p->order, (size_t)p->n_node * sizeof *p->order);
    uint64_t parts = XXH3_64bits_withSeed(p->part_begin, ((size_t)p->n_part + 1) * sizeof *p->part_begin, order);
    uint64_t ranks = XXH3_64bits_withSeed(in->rank_of_part, (size_t)p->n_part * sizeof *in->rank_of_part, parts);
    uint64_t hops = p->n_hop > 0 ? XXH3_64bits_withSeed(p->hop, (size_t)p->n_node, (XXH64_hash_t)p->n_hop) : 0;
    int n = snprintf(text, sizeof text, "%d %s %d %d %u %016llx %016llx %016llx %016llx %x %x", COVER_CACHE_VERSION,
                     graph, (int)in->dataset->facts.symmetric, (int)p->n_part, in->n_rank, (unsigned long long)order,
                     (unsigned long long)parts, (unsigned long long)ranks, (unsigned long long)hops,
                     in->hops[PART_DIRECTION_IN], in->hops[PART_DIRECTION_OUT]);
    partition_cache_name(text, (size_t)n, ".covers", out);
    return out->folder[0] != '\0';
}

/* The fault of the file, or NULL. */
static const char *read_file(int file, const char *key, struct part_dedup *shared, struct part_cover_rows *rows_out)
{
    struct cache_header header;
    struct iovec piece[5];
    struct stat found;
    size_t n_bytes = 0;
    int n_piece = pieces_of(&header, shared, piece);
    for (int i = 0; i < n_piece; i++) {
        n_bytes += piece[i].iov_len;
    }
    if (fstat(file, &found) != 0 || (size_t)found.st_size != n_bytes) {
        return "another size than these parts'";
    }
    for (int i = 0; i < n_piece; i++) {
        if (file_read(file, piece[i].iov_base, piece[i].iov_len) != 0) {
            return "bytes that cannot be read";
        }
    }
    if (memcmp(header.magic, CACHE_MAGIC, sizeof header.magic) != 0 || header.version != COVER_CACHE_VERSION ||
        header.n_rank != shared->n_rank || header.n_part != shared->n_part || header.n_hop != shared->n_hop ||
        header.mirrors != shared->mirrors || memcmp(header.key, key, sizeof header.key) != 0) {
        return "another header than these parts'";
    }
    *rows_out = header.rows;
    return header.checksum != checksum_of(&header.rows, piece, n_piece) ? "bytes that do not fit their checksum"
                                                                        : NULL;
}

/* Load saved counts. *out is then as part_dedup_cover makes it; else it is unchanged. */
static bool load(const struct partition_cache *cache, const struct part_cover_input *in, struct part_dedup *out,
                 struct part_cover_rows *rows_out)
{
    int file = partition_cache_open(cache, "covers");
    if (file < 0) {
        return false;
    }
    const struct partition *partition = in->partition;
    bool mirrors = part_dedup_mirrors(in->dataset->facts.symmetric, true, partition->n_hop);
    enum status status = part_dedup_acquire(partition->n_part, in->n_rank, partition->n_hop, mirrors, out);
    if (status == STATUS_OK) {
        status = part_sums_acquire(out);
    }
    out->covers = true;
    const char *wrong = status == STATUS_OK ? read_file(file, cache->key, out, rows_out)
                                            : "more counts than there is memory for";
    close(file);
    if (wrong != NULL) {
        log_warn("the cached covers '%s' have %s: covering the graph again", cache->path, wrong);
        part_dedup_release(out);
    }
    return wrong == NULL;
}

static void save(const struct partition_cache *cache, const struct part_dedup *shared,
                 const struct part_cover_rows *rows)
{
    struct cache_header header = {.magic = CACHE_MAGIC,
                                  .version = COVER_CACHE_VERSION,
                                  .n_rank = shared->n_rank,
                                  .n_part = shared->n_part,
                                  .n_hop = shared->n_hop,
                                  .mirrors = shared->mirrors,
                                  .rows = *rows};
    struct iovec piece[5];
    int n_piece = pieces_of(&header, shared, piece);
    memcpy(header.key, cache->key, sizeof header.key);
    header.checksum = checksum_of(rows, piece, n_piece);
    partition_cache_write(cache, piece, n_piece, "covers");
}

enum status cover_cache_count(const struct part_cover_input *in, const struct job *job, struct part_dedup *out,
                              struct part_cover_rows *rows_out)
{
    struct partition_cache cache;
    bool keeps = cache_find(in, job, &cache);
    if (keeps && load(&cache, in, out, rows_out)) {
        return STATUS_OK;
    }
    enum status status = part_dedup_cover(in, out, rows_out);
    if (status == STATUS_OK && keeps) {
        save(&cache, out, rows_out);
    }
    return status;
}
