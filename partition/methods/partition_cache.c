#include "partition/methods/partition_cache.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/files/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define CACHE_MAGIC "TRNDCUT"

/* Before part_begin (n_part + 1 × int64) and order (n_node × uint32); little-endian. */
struct cache_header {
    char magic[8];
    uint32_t version;
    int32_t n_part;
    int64_t n_node;
    char key[32];
    uint64_t checksum; /* XXH3-64 of part_begin, seeded by that of order */
};

static uint64_t checksum_of(const struct partition *p)
{
    uint64_t order = XXH3_64bits(p->order, (size_t)p->n_node * sizeof *p->order);
    return XXH3_64bits_withSeed(p->part_begin, ((size_t)p->n_part + 1) * sizeof *p->part_begin, order);
}

bool partition_cache_folder(const struct dataset *dataset, const struct job *job, char out[PATH_MAX])
{
    const char *asked = job->partition.cache;
    if (asked[0] == '\0' || strcmp(asked, "off") == 0) {
        return false;
    }
    if (strcmp(asked, "auto") != 0) {
        return snprintf(out, PATH_MAX, "%s", asked) < PATH_MAX;
    }
    if (dataset->n_edge < PARTITION_CACHE_EDGES_LEAST) {
        return false;
    }
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache != NULL && cache[0] == '/') {
        return snprintf(out, PATH_MAX, "%s/trainerd", cache) < PATH_MAX;
    }
    return home != NULL && home[0] == '/' && snprintf(out, PATH_MAX, "%s/.cache/trainerd", home) < PATH_MAX;
}

void partition_cache_find(const struct dataset *dataset, const struct job *job, int32_t n_part, const int32_t *owner,
                          struct partition_cache *out)
{
    *out = (struct partition_cache){0};
    if (!partition_cache_folder(dataset, job, out->folder)) {
        out->folder[0] = '\0';
        return;
    }
    char graph[33], text[256];
    dataset_fingerprint(dataset, false, graph);
    uint64_t owners = owner == NULL ? 0 : XXH3_64bits(owner, (size_t)dataset->n_node * sizeof *owner);
    int n = snprintf(text, sizeof text, "%d %s %d %d %d %d %d %lld %016llx", PARTITION_CACHE_VERSION, graph,
                     (int)dataset->facts.symmetric, n_part, job->partition.method, job->partition.objective,
                     job->partition.balance, (long long)job->partition.seed, (unsigned long long)owners);
    partition_cache_name(text, (size_t)n, ".partition", out);
}

void partition_cache_name(const char *text, size_t n, const char *suffix, struct partition_cache *cache)
{
    XXH128_hash_t key = XXH3_128bits(text, n);
    snprintf(cache->key, sizeof cache->key, "%016llx%016llx", (unsigned long long)key.high64,
             (unsigned long long)key.low64);
    if (snprintf(cache->path, sizeof cache->path, "%s/%s%s", cache->folder, cache->key, suffix) >= PATH_MAX) {
        cache->folder[0] = '\0';
    }
}

int partition_cache_open(const struct partition_cache *cache, const char *what)
{
    int file = open(cache->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0 && errno != ENOENT && errno != ENOTDIR) {
        log_warn("cannot read the cached %s '%s': %s", what, cache->path, strerror(errno));
    }
    return file;
}

/* part_begin ascends from 0 to n_node, and order names every node once. Returns the fault, or NULL. seen: n_node
 * zeros */
static const char *check(const struct partition *p, uint8_t *seen)
{
    if (p->part_begin[0] != 0 || p->part_begin[p->n_part] != p->n_node) {
        return "parts that do not cover the nodes";
    }
    for (int32_t part = 0; part < p->n_part; part++) {
        if (p->part_begin[part + 1] <= p->part_begin[part]) {
            return "an empty part";
        }
    }
    for (int64_t i = 0; i < p->n_node; i++) {
        if (p->order[i] >= p->n_node || seen[p->order[i]]++ != 0) {
            return "a node that is out of range or in two places";
        }
    }
    return NULL;
}

static const char *read_file(const struct partition_cache *cache, int file, struct partition *p)
{
    struct cache_header header;
    struct stat found;
    size_t n_begin = ((size_t)p->n_part + 1) * sizeof *p->part_begin, n_order = (size_t)p->n_node * sizeof *p->order;
    if (fstat(file, &found) != 0 || (size_t)found.st_size != sizeof header + n_begin + n_order) {
        return "another size than this partition's";
    }
    if (file_read(file, &header, sizeof header) != 0 || memcmp(header.magic, CACHE_MAGIC, sizeof header.magic) != 0 ||
        header.version != PARTITION_CACHE_VERSION || header.n_part != p->n_part || header.n_node != p->n_node ||
        memcmp(header.key, cache->key, sizeof header.key) != 0) {
        return "another header than this partition's";
    }
    if (file_read(file, p->part_begin, n_begin) != 0 || file_read(file, p->order, n_order) != 0 ||
        header.checksum != checksum_of(p)) {
        return "bytes that do not fit their checksum";
    }
    uint8_t *seen;
    if (memory_acquire(MEMORY_OTHER, (size_t)p->n_node, sizeof *seen, &seen) != STATUS_OK) {
        return "more nodes than there is memory to check";
    }
    const char *wrong = check(p, seen);
    memory_release(MEMORY_OTHER, seen, (size_t)p->n_node, sizeof *seen);
    return wrong;
}

bool partition_cache_load(const struct partition_cache *cache, struct partition *partition)
{
    if (cache->folder[0] == '\0') {
        return false;
    }
    int file = partition_cache_open(cache, "partition");
    if (file < 0) {
        return false;
    }
    const char *wrong = read_file(cache, file, partition);
    close(file);
    if (wrong != NULL) {
        log_warn("the cached partition '%s' has %s: cutting the graph again", cache->path, wrong);
        memset(partition->part_begin, 0, ((size_t)partition->n_part + 1) * sizeof *partition->part_begin);
        return false;
    }
    for (int32_t part = 0; part < partition->n_part; part++) {
        for (int64_t i = partition->part_begin[part]; i < partition->part_begin[part + 1]; i++) {
            partition->owner[partition->order[i]] = part;
        }
    }
    return true;
}

void partition_cache_write(const struct partition_cache *cache, const struct iovec *piece, int n_piece,
                           const char *what)
{
    int lock = -1;
    enum status status = file_folder_make(cache->folder, NULL);
    if (status == STATUS_OK) {
        lock = open(cache->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        /* Another job may write the same file at this moment: leave it to that job. */
        if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
            status = file_replace(cache->path, piece, n_piece);
        }
    }
    if (lock >= 0) {
        close(lock);
    }
    if (status != STATUS_OK) {
        log_warn("cannot keep the %s for another time: %s", what, status_reason());
    }
}

void partition_cache_save(const struct partition_cache *cache, const struct partition *partition)
{
    if (cache->folder[0] == '\0') {
        return;
    }
    struct cache_header header = {.magic = CACHE_MAGIC,
                                  .version = PARTITION_CACHE_VERSION,
                                  .n_part = partition->n_part,
                                  .n_node = partition->n_node,
                                  .checksum = checksum_of(partition)};
    memcpy(header.key, cache->key, sizeof header.key);
    struct iovec piece[] = {
        {.iov_base = &header, .iov_len = sizeof header},
        {.iov_base = partition->part_begin,
         .iov_len = ((size_t)partition->n_part + 1) * sizeof *partition->part_begin},
        {.iov_base = partition->order, .iov_len = (size_t)partition->n_node * sizeof *partition->order}};
    partition_cache_write(cache, piece, 3, "partition");
}
