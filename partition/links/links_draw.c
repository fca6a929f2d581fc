/* Held-out edges and negatives that are drawn. Each draw is keyed by task.seed and the number of a pair, so results
 * are the same for any number of threads. */
#include "partition/files/dataset_store.h"
#include "partition/links/links_build.h"
#include "partition/rows/permutation.h"
#include "partition/rows/row_pairs.h"
#include "protocol/base/random.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define TRIES_MOST ((uint32_t)1 << 16) /* for a pair without an edge */

static struct random_key key_of(const struct job *job, int draw)
{
    return (struct random_key){.seed = (uint64_t)job->task.seed, .op = (uint16_t)draw, .stream = RANDOM_STREAM_LINKS};
}

/* Is entry i of row v that of its pair of nodes? Of several, with other types or in both directions, the first entry
 * from the smaller node is. Where relations count, nodes have a pair for each. */
static bool is_pair(const struct dataset *dataset, uint32_t v, int64_t i)
{
    uint32_t from = dataset->indices[i];
    int relation = links_entry_relation(dataset, i);
    bool is_inverse = relation >= 0 && dataset->edge_type[i] != relation;
    if (from == v || is_inverse || (from > v && dataset->facts.symmetric)) {
        return false;
    }
    return (dataset->edge_type == NULL || links_edge_find(dataset, v, from, relation) == i) &&
           (from < v || links_edge_find(dataset, from, v, relation) < 0);
}

/* first[v]: pairs of the rows before v; n_node + 1. */
static void pairs_count(const struct dataset *dataset, int64_t *first)
{
#pragma omp parallel for schedule(dynamic, 1024) if (dataset->n_edge > ROWS_PARALLEL_LEAST)
    for (int64_t v = 0; v < dataset->n_node; v++) {
        for (int64_t i = dataset->indptr[v]; i < dataset->indptr[v + 1]; i++) {
            first[v + 1] += is_pair(dataset, (uint32_t)v, i);
        }
    }
    for (int64_t v = 0; v < dataset->n_node; v++) {
        first[v + 1] += first[v];
    }
}

/* Pairs in a random order: the first ones are validation edges, the next ones test edges. */
static void pairs_deal(const struct job *job, const int64_t *first, const int64_t n[LINKS_SPLIT_N],
                       struct dataset *out)
{
    const struct permutation order = permutation_make(key_of(job, LINKS_DRAW_HELD), first[out->n_node]);
#pragma omp parallel for schedule(dynamic, 1024) if (out->n_edge > ROWS_PARALLEL_LEAST)
    for (int64_t v = 0; v < out->n_node; v++) {
        int64_t pair = first[v];
        for (int64_t i = out->indptr[v]; pair < first[v + 1] && i < out->indptr[v + 1]; i++) {
            if (!is_pair(out, (uint32_t)v, i)) {
                continue;
            }
            int64_t place = permutation_at(&order, pair++);
            int split = place < n[LINKS_SPLIT_VALID] ? LINKS_SPLIT_VALID : LINKS_SPLIT_TEST;
            place -= split == LINKS_SPLIT_TEST ? n[LINKS_SPLIT_VALID] : 0;
            if (place < n[split]) {
                const struct links_pairs *positive = &out->links.held[split].positive;
                positive->end[2 * place] = out->indices[i];
                positive->end[2 * place + 1] = (uint32_t)v;
                if (positive->relation != NULL) {
                    positive->relation[place] = out->edge_type[i];
                }
            }
        }
    }
}

static enum status pairs_acquire(const struct dataset *dataset, int64_t n, struct links_pairs *out)
{
    out->n = n;
    enum status status = dataset_store_block(dataset->store, MEMORY_OTHER, 2 * (size_t)n, sizeof *out->end,
                                             &out->end);
    if (status != STATUS_OK || dataset->links.n_relation == 0) {
        return status;
    }
    return dataset_store_block(dataset->store, MEMORY_OTHER, (size_t)n, sizeof *out->relation, &out->relation);
}

enum status links_draw_edges(const struct job *job, const bool given[LINKS_SPLIT_N], struct dataset *out)
{
    const double share[] = {job->task.valid_share, job->task.test_share};
    int64_t *first, n[LINKS_SPLIT_N] = {0};
    bool any = false;
    for (int s = 0; s < LINKS_SPLIT_N; s++) {
        any = any || (!given[s] && share[s] > 0.0);
    }
    size_t n_first = (size_t)out->n_node + 1;
    enum status status = any ? memory_acquire(MEMORY_OTHER, n_first, sizeof *first, &first) : STATUS_OK;
    if (!any || status != STATUS_OK) {
        return status;
    }
    pairs_count(out, first);
    for (int s = 0; s < LINKS_SPLIT_N && status == STATUS_OK; s++) {
        if (!given[s]) {
            n[s] = (int64_t)floor(share[s] * (double)first[out->n_node]);
            status = pairs_acquire(out, n[s], &out->links.held[s].positive);
        }
    }
    if (status == STATUS_OK) {
        pairs_deal(job, first, n, out);
    }
    memory_release(MEMORY_OTHER, first, n_first, sizeof *first);
    return status;
}

/* A pair of different nodes that no edge of the relation joins; false: none of TRIES_MOST is one. */
static bool negative_draw(const struct dataset *dataset, const struct links_rows *held, const struct random_key *key,
                          int64_t number, const struct links_held *of)
{
    uint32_t *end = of->negative.end + 2 * number;
    int relation = links_relation(&of->positive, number);
    uint64_t n = (uint64_t)dataset->n_node;
    for (uint32_t try = 0; try < TRIES_MOST; try++) {
        uint32_t counter[4], philox_key[2], draw[4];
        random_counter(key, (uint64_t)number, try, counter, philox_key);
        random_philox(counter, philox_key, draw);
        uint64_t a = ((uint64_t)draw[0] << 32 | draw[1]) % n, b = ((uint64_t)draw[2] << 32 | draw[3]) % (n - 1);
        end[0] = (uint32_t)a;
        end[1] = (uint32_t)(b + (b >= a));
        if (!links_are_joined(dataset, held, end[0], end[1], relation)) {
            return true;
        }
    }
    return false;
}

enum status links_draw_negatives(const struct job *job, const struct links_rows *held, struct dataset *out)
{
    for (int s = 0; s < LINKS_SPLIT_N; s++) {
        struct links_held *of = &out->links.held[s];
        if (of->negative.end != NULL || of->tail != NULL || of->positive.n == 0) {
            continue;
        }
        if (job->task.candidates == JOB_CANDIDATES_ALL) {
            of->among_all = true;
            continue;
        }
        enum status status = pairs_acquire(out, of->positive.n, &of->negative);
        if (status != STATUS_OK) {
            return status;
        }
        if (of->positive.relation != NULL) {
            memcpy(of->negative.relation, of->positive.relation,
                   (size_t)of->positive.n * sizeof *of->positive.relation);
        }
        const struct random_key key = key_of(job, s);
        bool all = true;
#pragma omp parallel for schedule(dynamic, 1024) reduction(&& : all) if (of->negative.n > ROWS_PARALLEL_LEAST)
        for (int64_t i = 0; i < of->negative.n; i++) {
            all = all && negative_draw(out, held, &key, i, of);
        }
        if (!all) {
            return status_fail(STATUS_DATA,
                               "dataset '%s': in %" PRIu32
                               " draws no pair of nodes without an edge was found to rank the %s edges among, "
                               "expected a graph with fewer edges, or %s_%s.npy",
                               out->name, TRIES_MOST, links_split_name((enum links_split)s),
                               links_split_file((enum links_split)s),
                               out->links.n_relation > 0 ? "tails_negative" : "edges_negative");
        }
    }
    return STATUS_OK;
}
