/* Squared error of one aggregate whose boundary rows are a sample, on average over samples and over rows of independent elements of variance 1:
 * with chances by edges (exchange.sampling_weights) against chances alike, as many rows travelling. And what finding the chances costs.
 */
#include "tests/bench/bench.h"
#include "worker/route/sample_weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS_MOST = 16 };

static struct job job;
static struct dataset dataset;
static struct partition partition;
static struct part parts[PARTS_MOST];

static void check(enum status status)
{
    if (status != STATUS_OK) {
        fprintf(stderr, "%s\n", status_reason());
        exit(status_exit_code(status));
    }
}

static void graph_open(const char *data, int n_part)
{
    char text[512];
    snprintf(text, sizeof text, "[dataset]\n%s\nfeatures = 1\n[partition]\nparts = %d\ncache = \"off\"\n", data,
             n_part);
    check(job_load_text(text, strlen(text), "bench", NULL, 0, &job));
    check(dataset_load(&job, &dataset));
    check(partition_build(&dataset, &job, &partition));
    for (int32_t p = 0; p < n_part; p++) {
        void *bytes;
        size_t n_bytes;
        check(part_encode(&dataset, &partition, p, &bytes, &n_bytes));
        check(part_open(bytes, n_bytes, &parts[p]));
    }
}

static void graph_close(int n_part)
{
    for (int32_t p = 0; p < n_part; p++) {
        memory_release(MEMORY_OTHER, (void *)(uintptr_t)parts[p].bytes, (size_t)parts[p].n_bytes, 1);
        part_release(&parts[p]);
    }
    partition_release(&partition);
    dataset_release(&dataset);
}

struct error {
    double alike, edges; /* summed over all pairs */
    int64_t n_row;
    double spent_s; /* on the chances */
};

/* Σ_u Σ_v a_vu² (1 / p_u - 1) of the rows that a part takes of its pair k */
static void pair_add(const struct part_device_setup *setup, const struct part *part, int32_t k, double p,
                     struct error *out)
{
    int64_t n = part_pair_cols(&part->halo.pairs[PART_DIRECTION_IN], k);
    double *weight = memory_alloc((size_t)n, sizeof *weight);
    uint32_t *threshold = memory_alloc((size_t)n, sizeof *threshold);
    double begin_s = clock_s();
    sample_row_weights(setup, part, PART_DIRECTION_IN, k, weight);
    sample_thresholds(n, p, weight, threshold);
    out->spent_s += clock_s() - begin_s;
    out->n_row += n;
    for (int64_t u = 0; u < n; u++) {
        out->alike += weight[u] * weight[u] * (1.0 / p - 1.0);
        out->edges += weight[u] * weight[u] * (4294967296.0 / threshold[u] - 1.0);
    }
    free(threshold);
    free(weight);
}

static void error_print(const char *graph, enum aggregate_kind kind, int n_part, double p)
{
    const struct aggregate_def *def = aggregate_defs[kind];
    const struct part_device_setup setup = {.scaled = def->scale != NULL ? def : NULL};
    struct error error = {0};
    char figure[128];
    for (int32_t i = 0; i < n_part; i++) {
        const struct part_pairs *pairs = &parts[i].halo.pairs[PART_DIRECTION_IN];
        for (int32_t k = 0; k < pairs->n_pair; k++) {
            if (k != pairs->own) {
                pair_add(&setup, &parts[i], k, p, &error);
            }
        }
    }
    snprintf(figure, sizeof figure, "%s, %s, %d parts, p = %g: squared error", graph, def->name, n_part, p);
    bench_line(figure, error.edges / error.alike, "", 1.0, error.alike / error.edges, 0.0);
    if (kind == AGGREGATE_KIND_GCN && p < 0.2) {
        snprintf(figure, sizeof figure, "%s, %s, %d parts: chances, for each row", graph, def->name, n_part);
        bench_line(figure, 1e6 * error.spent_s / (double)error.n_row, "us", 0.0, 0.0, 0.0);
    }
}

int main(void)
{
    static const char *const graphs[][2] = {
        {"rmat", "generator = \"rmat\"\nnodes = 131072\ndegree = 32"},
        {"sbm", "generator = \"sbm\"\nnodes = 100000\ndegree = 30\nclasses = 8"},
    };
    static const enum aggregate_kind kinds[] = {AGGREGATE_KIND_SUM, AGGREGATE_KIND_MEAN, AGGREGATE_KIND_GCN};
    bench_header();
    for (size_t g = 0; g < sizeof graphs / sizeof *graphs; g++) {
        graph_open(graphs[g][1], 8);
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            error_print(graphs[g][0], kinds[k], 8, 0.1);
            error_print(graphs[g][0], kinds[k], 8, 0.5);
        }
        graph_close(8);
    }
    return 0;
}
