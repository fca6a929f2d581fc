#include "worker/spill/spill.h"

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "worker/spill/spill_file.h"
#include "worker/trace/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NONE (-1)
#define NO_WAIT_S 2e-6 /* looking whether there is anything to wait for takes less */

/* One chunk: in memory or not, as it will be once all orders given are carried out. */
struct chunk {
    int32_t older, newer; /* in the list of those in memory that are not pinned */
    int32_t n_hold;
    bool is_in, is_listed;
    bool is_changed;         /* not yet as in the file */
    bool is_ahead;           /* brought in for a spill_pin to come */
    bool is_wanted, is_read; /* while ranges are looked at: not in; its bytes are read from the file */
    uint64_t ticket;         /* of the order that brings it in */
};

/* Addresses of one spill_take. */
struct region {
    char *at;
    int64_t n_bytes, offset; /* as asked for; in the file */
    int32_t first, n_chunk;
};

struct spill {
    struct spill_file *file;
    int64_t limit, n_in; /* bytes in memory */
    int64_t n_moved;     /* bytes */
    struct region *region;
    int n_region;
    struct chunk *chunk;
    int32_t n_chunk, oldest, newest;
    struct trace *trace; /* NULL: none */
};

enum status spill_open(const char *dir, struct spill **out)
{
    struct spill_file *file;
    enum status status = spill_file_open(dir, &file);
    if (status != STATUS_OK) {
        return status;
    }
    *out = memory_alloc(1, sizeof **out);
    **out = (struct spill){.file = file, .limit = INT64_MAX, .oldest = NONE, .newest = NONE};
    return STATUS_OK;
}

void spill_close(struct spill *s)
{
    if (s == NULL) {
        return;
    }
    spill_file_close(s->file);
    memory_count(MEMORY_SPILL, -memory_now(MEMORY_SPILL));
    for (int i = 0; i < s->n_region; i++) {
        munmap(s->region[i].at, (size_t)(s->region[i].n_chunk * SPILL_CHUNK));
    }
    free(s->region);
    free(s->chunk);
    free(s);
}

void spill_limit(struct spill *s, int64_t n_bytes)
{
    s->limit = n_bytes;
}

void spill_trace(struct spill *s, struct trace *trace)
{
    if (s != NULL) {
        s->trace = trace;
    }
}

int64_t spill_moved(const struct spill *s)
{
    return s != NULL ? s->n_moved : 0;
}

int64_t spill_pinned_bytes(int64_t n_bytes)
{
    return n_bytes > 0 ? (n_bytes + 2 * SPILL_CHUNK - 2) / SPILL_CHUNK * SPILL_CHUNK : 0;
}

enum status spill_take(struct spill *s, int64_t n_bytes, void *out)
{
    int64_t n_chunk = n_bytes / SPILL_CHUNK + (n_bytes % SPILL_CHUNK > 0), n = n_chunk * SPILL_CHUNK;
    if (n_bytes < 0 || n_chunk > INT32_MAX - s->n_chunk) {
        return status_fail(STATUS_NOMEM, "cannot spill %lld bytes: more than this program can address",
                           (long long)n_bytes);
    }
    int64_t offset;
    enum status status = spill_file_grow(s->file, n, &offset);
    if (status != STATUS_OK) {
        return status;
    }
    char *at = mmap(NULL, (size_t)(n > 0 ? n : SPILL_CHUNK), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    if (at == MAP_FAILED) {
        return status_fail(STATUS_NOMEM, "cannot reserve %lld bytes of addresses to spill: %s", (long long)n,
                           strerror(errno));
    }
    /* Huge pages would keep more in memory than is held. */
    madvise(at, (size_t)n, MADV_NOHUGEPAGE);
    struct chunk *chunk = memory_alloc((size_t)(s->n_chunk + n_chunk), sizeof *chunk);
    if (s->n_chunk > 0) {
        memcpy(chunk, s->chunk, (size_t)s->n_chunk * sizeof *chunk);
    }
    free(s->chunk);
    s->chunk = chunk;
    s->region = memory_list_grow(s->region, s->n_region, sizeof *s->region);
    s->region[s->n_region++] = (struct region){
        .at = at, .n_bytes = n_bytes, .offset = offset, .first = s->n_chunk, .n_chunk = (int32_t)n_chunk};
    s->n_chunk += (int32_t)n_chunk;
    *(void **)out = at;
    return STATUS_OK;
}

/* --- the chunks of a range --- */

struct span {
    const struct region *region;
    int32_t first, end;             /* chunks that the range touches, … */
    int32_t whole_first, whole_end; /* … and those that lie in it whole */
};

static struct span span_of(const struct spill *s, const struct spill_range *range)
{
    const char *at = range->at;
    int n_region = at != NULL && range->n_bytes > 0 ? s->n_region : 0;
    for (int i = 0; i < n_region; i++) {
        const struct region *region = &s->region[i];
        if (at < region->at || at >= region->at + region->n_bytes) {
            continue;
        }
        int64_t first = at - region->at, end = first + range->n_bytes;
        ASSERT(end <= region->n_bytes);
        return (struct span){.region = region,
                             .first = region->first + (int32_t)(first / SPILL_CHUNK),
                             .end = region->first + (int32_t)((end + SPILL_CHUNK - 1) / SPILL_CHUNK),
                             .whole_first = region->first + (int32_t)((first + SPILL_CHUNK - 1) / SPILL_CHUNK),
                             .whole_end = end == region->n_bytes ? region->first + region->n_chunk
                                                                 : region->first + (int32_t)(end / SPILL_CHUNK)};
    }
    return (struct span){.first = 0, .end = 0};
}

int64_t spill_touched(const struct spill *s, const struct spill_range *range, int n_range)
{
    int64_t n_bytes = 0;
    for (int i = 0; i < n_range; i++) {
        struct span span = span_of(s, &range[i]);
        n_bytes += (span.end - span.first) * SPILL_CHUNK;
    }
    return n_bytes;
}

static bool is_whole(const struct span *span, int32_t c)
{
    return c >= span->whole_first && c < span->whole_end;
}

static void unlist(struct spill *s, int32_t c)
{
    struct chunk *chunk = &s->chunk[c];
    *(chunk->older == NONE ? &s->oldest : &s->chunk[chunk->older].newer) = chunk->newer;
    *(chunk->newer == NONE ? &s->newest : &s->chunk[chunk->newer].older) = chunk->older;
    chunk->is_listed = false;
}

/* As the newest of all, or as the oldest. */
static void list_add(struct spill *s, int32_t c, bool newest)
{
    struct chunk *chunk = &s->chunk[c];
    chunk->older = newest ? s->newest : NONE;
    chunk->newer = newest ? NONE : s->oldest;
    *(chunk->older == NONE ? &s->oldest : &s->chunk[chunk->older].newer) = c;
    *(chunk->newer == NONE ? &s->newest : &s->chunk[chunk->newer].older) = c;
    chunk->is_listed = true;
}

/* --- in and out --- */

static uint64_t order(struct spill *s, enum spill_order kind, const struct region *region, int32_t c)
{
    int64_t at = (c - region->first) * SPILL_CHUNK;
    s->n_moved += kind == SPILL_ORDER_FRESH || kind == SPILL_ORDER_DROP ? 0 : SPILL_CHUNK;
    return spill_file_order(s->file, kind, region->at + at, region->offset + at, (size_t)SPILL_CHUNK);
}

static const struct region *region_of(const struct spill *s, int32_t c)
{
    const struct region *region = s->region;
    while (c >= region->first + region->n_chunk) {
        region++;
    }
    return region;
}

static void give_up(struct spill *s, int32_t c)
{
    struct chunk *chunk = &s->chunk[c];
    unlist(s, c);
    order(s, chunk->is_changed ? SPILL_ORDER_WRITE : SPILL_ORDER_DROP, region_of(s, c), c);
    chunk->is_in = chunk->is_changed = chunk->is_ahead = false;
    s->n_in -= SPILL_CHUNK;
}

/* Give up the oldest until n_bytes more fit; with `spares` nothing that was itself brought in ahead. */
static void make_room(struct spill *s, int64_t n_bytes, bool spares)
{
    while (s->oldest != NONE && s->n_in > s->limit - n_bytes && !(spares && s->chunk[s->oldest].is_ahead)) {
        give_up(s, s->oldest);
    }
}

/* Write what will be given up next, so that this will not wait for the file. */
static void clean(struct spill *s, int64_t n_bytes)
{
    for (int32_t c = s->oldest; c != NONE && n_bytes > 0; c = s->chunk[c].newer, n_bytes -= SPILL_CHUNK) {
        if (s->chunk[c].is_changed) {
            order(s, SPILL_ORDER_CLEAN, region_of(s, c), c);
            s->chunk[c].is_changed = false;
        }
    }
}

static void bring_in(struct spill *s, const struct region *region, int32_t c)
{
    struct chunk *chunk = &s->chunk[c];
    chunk->ticket = order(s, chunk->is_read ? SPILL_ORDER_READ : SPILL_ORDER_FRESH, region, c);
    chunk->is_in = true;
    s->n_in += SPILL_CHUNK;
}

/* Mark the chunks that are not in, and whether their bytes are needed; how many bytes they are. */
static int64_t want(struct spill *s, const struct spill_range *range, int n_range)
{
    int64_t n_bytes = 0;
    for (int i = 0; i < n_range; i++) {
        struct span span = span_of(s, &range[i]);
        for (int32_t c = span.first; c < span.end; c++) {
            struct chunk *chunk = &s->chunk[c];
            if (chunk->is_in) {
                continue;
            }
            n_bytes += chunk->is_wanted ? 0 : SPILL_CHUNK;
            chunk->is_read = (chunk->is_wanted && chunk->is_read) || range[i].access != SPILL_WRITE ||
                             !is_whole(&span, c);
            chunk->is_wanted = true;
        }
    }
    return n_bytes;
}

static void hold(struct spill *s, const struct spill_range *range, int n_range)
{
    for (int i = 0; i < n_range; i++) {
        struct span span = span_of(s, &range[i]);
        for (int32_t c = span.first; c < span.end; c++) {
            s->chunk[c].n_hold++;
            s->chunk[c].is_ahead = false;
            if (s->chunk[c].is_listed) {
                unlist(s, c);
            }
        }
    }
}

static enum status ticket_wait(struct spill *s, uint64_t ticket)
{
    if (s->trace == NULL || ticket == 0) {
        return spill_file_wait(s->file, ticket);
    }
    double begin_s = clock_s();
    enum status status = spill_file_wait(s->file, ticket);
    if (clock_s() - begin_s > NO_WAIT_S) {
        trace_add(s->trace, TRACE_KIND_SPILL, begin_s, -1);
    }
    return status;
}

enum status spill_pin(struct spill *s, const struct spill_range *range, int n_range)
{
    if (s == NULL) {
        return STATUS_OK;
    }
    hold(s, range, n_range);
    make_room(s, want(s, range, n_range), false);
    uint64_t ticket = 0;
    for (int i = 0; i < n_range; i++) {
        struct span span = span_of(s, &range[i]);
        for (int32_t c = span.first; c < span.end; c++) {
            struct chunk *chunk = &s->chunk[c];
            if (!chunk->is_in) {
                bring_in(s, span.region, c);
            }
            chunk->is_wanted = false;
            chunk->is_changed = chunk->is_changed || range[i].access != SPILL_READ;
            ticket = chunk->ticket > ticket ? chunk->ticket : ticket;
        }
    }
    return ticket_wait(s, ticket);
}

void spill_unpin(struct spill *s, const struct spill_range *range, int n_range)
{
    n_range = s != NULL ? n_range : 0;
    for (int i = 0; i < n_range; i++) {
        struct span span = span_of(s, &range[i]);
        for (int32_t c = span.first; c < span.end; c++) {
            if (--s->chunk[c].n_hold == 0) {
                list_add(s, c, true);
            }
        }
    }
}

/* From the end, so that neighbours will be given up one after another, upwards. */
static void leave(struct spill *s, int32_t first, int32_t end)
{
    for (int32_t c = end - 1; c >= first; c--) {
        if (s->chunk[c].is_listed) {
            unlist(s, c);
            list_add(s, c, false);
        }
    }
}

void spill_leave(struct spill *s, const struct spill_range *range, int n_range)
{
    n_range = s != NULL ? n_range : 0;
    for (int i = 0; i < n_range; i++) {
        struct span span = span_of(s, &range[i]);
        leave(s, span.first, span.end);
    }
}

void spill_discard(struct spill *s, const void *at, int64_t n_bytes)
{
    const struct spill_range range = {.at = at, .n_bytes = n_bytes};
    struct span span = s != NULL ? span_of(s, &range) : (struct span){0};
    for (int32_t c = span.whole_first; c < span.whole_end; c++) {
        s->chunk[c].is_changed = false;
    }
    leave(s, span.whole_first, span.whole_end);
}

/* Chunks that are in memory and not pinned become the last to be evicted. */
static void keep_ahead(struct spill *s, const struct spill_range *range, int n_range)
{
    for (int i = 0; i < n_range; i++) {
        struct span span = span_of(s, &range[i]);
        for (int32_t c = span.first; c < span.end; c++) {
            if (s->chunk[c].is_listed) {
                unlist(s, c);
                list_add(s, c, true);
                s->chunk[c].is_ahead = true;
            }
        }
    }
}

void spill_prefetch(struct spill *s, const struct spill_range *range, int n_range)
{
    if (s == NULL) {
        return;
    }
    keep_ahead(s, range, n_range);
    int64_t n_bytes = want(s, range, n_range);
    make_room(s, n_bytes, true);
    for (int i = 0; i < n_range; i++) {
        struct span span = span_of(s, &range[i]);
        for (int32_t c = span.first; c < span.end; c++) {
            struct chunk *chunk = &s->chunk[c];
            if (chunk->is_wanted && s->n_in <= s->limit - SPILL_CHUNK) {
                bring_in(s, span.region, c);
                list_add(s, c, true);
                chunk->is_ahead = true;
            }
            chunk->is_wanted = false;
        }
    }
    clean(s, s->n_in + n_bytes - s->limit);
}
