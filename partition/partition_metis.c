/* METIS's k-way partitioner behind our signature: the only file that sees METIS.
 *
 * It traps signals while it runs, so only programs that may die run it (the coordinator, trainer-partition). Sums of
 * weights must fit its 32 bits, and it may leave parts empty: both are seen to here.
 * source  Karypis & Kumar, "Multilevel k-way partitioning scheme for irregular graphs", JPDC 48 (1998)
 */
#include "partition/partition_method.h"
#include "partition/undirected.h"
#include "protocol/memory.h"

#include <fcntl.h>
#include <metis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(idx_t) == sizeof(int32_t), "undirected_build makes METIS's indices 32 bits wide");

static int constraint_count(int balance)
{
    return balance == JOB_BALANCE_BOTH ? 2 : 1;
}

/* Weights of every node, one per constraint, scaled down where their sum would pass 2^31 - 1. */
static void weigh(const struct dataset *dataset, int balance, int32_t *weight)
{
    int n_constraint = constraint_count(balance);
    int shift = 0;
    while (((dataset->n_edge + dataset->n_node) >> shift) + dataset->n_node > INT32_MAX) {
        shift++;
    }
    for (int64_t v = 0; v < dataset->n_node; v++) {
        int64_t by_edges = (partition_weight(dataset, JOB_BALANCE_EDGES, v) >> shift) + (shift > 0);
        weight[v * n_constraint] = balance == JOB_BALANCE_EDGES ? (int32_t)by_edges : 1;
        if (n_constraint == 2) {
            weight[v * 2 + 1] = (int32_t)by_edges;
        }
    }
}

/* METIS prints remarks to stdout, which belongs to results: nothing comes out while it runs. Its return code and the
 * repair below say all that matters. Returns what stdout_restore needs; -1 when there is nothing to restore. */
static int stdout_silence(void)
{
    fflush(stdout);
    int saved = dup(STDOUT_FILENO);
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (saved >= 0 && nowhere >= 0) {
        dup2(nowhere, STDOUT_FILENO);
    }
    if (nowhere >= 0) {
        close(nowhere);
    }
    return saved;
}

static void stdout_restore(int saved)
{
    fflush(stdout);
    if (saved >= 0) {
        dup2(saved, STDOUT_FILENO);
        close(saved);
    }
}

static enum status call_metis(struct undirected *graph, const struct job *job, int objective, int32_t n_part,
                              int32_t *weight, int32_t *owner)
{
    idx_t options[METIS_NOPTIONS];
    METIS_SetDefaultOptions(options);
    options[METIS_OPTION_NUMBERING] = 0;
    options[METIS_OPTION_SEED] = (idx_t)job->partition.seed;
    options[METIS_OPTION_OBJTYPE] = objective == JOB_OBJECTIVE_VOLUME ? METIS_OBJTYPE_VOL : METIS_OBJTYPE_CUT;
    idx_t n_node = (idx_t)graph->n_node;
    idx_t n_constraint = constraint_count(job->partition.balance);
    idx_t parts = n_part, value = 0;
    int saved = stdout_silence();
    int code = METIS_PartGraphKway(&n_node, &n_constraint, graph->indptr, graph->indices, weight, NULL, NULL, &parts,
                                   NULL, NULL, options, &value, owner);
    stdout_restore(saved);
    if (code == METIS_ERROR_MEMORY) {
        return status_fail(STATUS_NOMEM, "METIS has not enough memory for %lld nodes and %lld edge entries",
                           (long long)graph->n_node, (long long)graph->n_entry);
    }
    if (code != METIS_OK) {
        return status_fail(STATUS_BUG, "METIS gave up on %lld nodes and %lld edge entries with code %d",
                           (long long)graph->n_node, (long long)graph->n_entry, code);
    }
    return STATUS_OK;
}

/* Give every empty part the node with the fewest neighbours out of the part that then has most nodes. */
static void repair(const struct undirected *graph, int32_t n_part, int32_t *owner)
{
    int64_t *n_own = memory_alloc((size_t)n_part, sizeof *n_own);
    for (int64_t v = 0; v < graph->n_node; v++) {
        n_own[owner[v]]++;
    }
    for (int32_t empty = 0; empty < n_part; empty++) {
        if (n_own[empty] > 0) {
            continue;
        }
        int32_t donor = 0;
        for (int32_t p = 1; p < n_part; p++) {
            donor = n_own[p] > n_own[donor] ? p : donor;
        }
        int64_t node = -1, least = INT64_MAX;
        for (int64_t v = 0; v < graph->n_node; v++) {
            int64_t degree = graph->indptr[v + 1] - graph->indptr[v];
            if (owner[v] == donor && degree < least) {
                least = degree;
                node = v;
            }
        }
        owner[node] = empty;
        n_own[donor]--;
        n_own[empty]++;
    }
    free(n_own);
}

/* Rows that travel: distinct (node, other part of a neighbour) pairs. seen: n_part */
static int64_t volume(const struct undirected *graph, const int32_t *owner, int64_t *seen)
{
    int64_t n = 0;
    for (int64_t v = 0; v < graph->n_node; v++) {
        for (int32_t i = graph->indptr[v]; i < graph->indptr[v + 1]; i++) {
            int32_t part = owner[graph->indices[i]];
            if (part != owner[v] && seen[part] != v + 1) {
                seen[part] = v + 1;
                n++;
            }
        }
    }
    return n;
}

/* METIS coarsens along heavy edges whatever is asked for; where a graph has clear communities its cut finds them and
 * its volume does not. So a volume is asked for both ways (the cut takes a fraction of the time) and the smaller one
 * kept. */
static enum status improve(struct undirected *graph, const struct job *job, int32_t n_part, int32_t *weight,
                           int32_t *owner)
{
    size_t n = (size_t)graph->n_node;
    int32_t *other;
    enum status status = memory_acquire(MEMORY_OTHER, n, sizeof *other, &other);
    if (status != STATUS_OK) {
        return status;
    }
    status = call_metis(graph, job, JOB_OBJECTIVE_CUT, n_part, weight, other);
    if (status == STATUS_OK) {
        repair(graph, n_part, other);
        int64_t *seen = memory_alloc((size_t)n_part, sizeof *seen);
        int64_t before = volume(graph, owner, seen);
        memset(seen, 0, (size_t)n_part * sizeof *seen);
        if (volume(graph, other, seen) < before) {
            memcpy(owner, other, n * sizeof *owner);
        }
        free(seen);
    }
    memory_release(MEMORY_OTHER, other, n, sizeof *other);
    return status;
}

enum status partition_metis(const struct dataset *dataset, const struct job *job, int32_t n_part, int32_t *owner)
{
    if (dataset->n_edge == 0) {
        return partition_block(dataset, job, n_part, owner);
    }
    struct undirected graph;
    enum status status = undirected_build(dataset, INT32_MAX, &graph);
    if (status != STATUS_OK) {
        return status;
    }
    int32_t *weight;
    size_t n_weight = (size_t)dataset->n_node * (size_t)constraint_count(job->partition.balance);
    status = memory_acquire(MEMORY_OTHER, n_weight, sizeof *weight, &weight);
    if (status == STATUS_OK) {
        weigh(dataset, job->partition.balance, weight);
        status = call_metis(&graph, job, job->partition.objective, n_part, weight, owner);
        if (status == STATUS_OK) {
            repair(&graph, n_part, owner);
        }
        if (status == STATUS_OK && job->partition.objective == JOB_OBJECTIVE_VOLUME) {
            status = improve(&graph, job, n_part, weight, owner);
        }
        memory_release(MEMORY_OTHER, weight, n_weight, sizeof *weight);
    }
    undirected_release(&graph);
    return status;
}
