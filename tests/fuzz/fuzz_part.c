/* Any bytes as an encoded part: refused, or every index in it can be used.
 *
 * The first byte selects: the rest as it is, or changes (two bytes of offset, eight of value) to a valid part: directed, typed,
 * weighted, with features of edges, with embeddings, ordered by hop, with features of halo rows, of links, or none of these. Checksums are not verified, since hardly
 * any input would pass them.
 */
#include "partition/methods/reach.h"
#include "partition/part/part_format.h"
#include "protocol/base/log.h"
#include "tests/support/graphs/part_encode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_GOOD 11
#define N_NODE 32

static void *good[N_GOOD];
static size_t n_good[N_GOOD];

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* Even nodes have column 0, odd nodes a column each. */
static void embed(struct dataset *dataset)
{
    static int64_t indptr[N_NODE + 1];
    static uint32_t indices[N_NODE];
    static float data[N_NODE];
    static const struct embedded_run run = {1, 1 + N_NODE / 2};
    ASSERT(dataset->n_node == N_NODE);
    for (uint32_t v = 0; v < N_NODE; v++) {
        indptr[v + 1] = v + 1;
        indices[v] = v % 2 == 0 ? 0 : 1 + v / 2;
        data[v] = 1.0f;
    }
    dataset->features.f32 = NULL; /* the store owns and releases it */
    dataset->features.indptr = indptr;
    dataset->features.indices = indices;
    dataset->features.data = data;
    dataset->facts.n_feature = run.end;
    dataset->facts.features_typed = true;
    dataset->features.embedded = (struct embedded){1, &run};
}

/* Give a generator's edges weights of 1. */
static void weigh(struct dataset *dataset)
{
    static float ones[4096];
    ASSERT(dataset->n_edge <= (int64_t)(sizeof ones / sizeof *ones));
    for (int64_t e = 0; e < dataset->n_edge; e++) {
        ones[e] = 1.0f;
    }
    dataset->facts.weighted = true;
    dataset->edge_weight = dataset->strength = ones;
}

/* Give a generator's edges features: its number, alone. */
static void feature(struct dataset *dataset)
{
    static uint32_t row[4096];
    static float features[4096];
    ASSERT(dataset->n_edge <= (int64_t)(sizeof row / sizeof *row));
    for (int64_t e = 0; e < dataset->n_edge; e++) {
        row[e] = (uint32_t)e;
        features[e] = (float)e;
    }
    dataset->facts.symmetric = false;
    dataset->facts.n_edge_feature = 1;
    dataset->edges.n_row = dataset->n_edge;
    dataset->edges.row = row;
    dataset->edges.features = features;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    for (int i = 0; i < N_GOOD; i++) {
        struct job job;
        struct dataset dataset;
        struct partition partition;
        job_defaults(&job);
        job.dataset.generator = i == 0 ? JOB_GENERATOR_KARATE : JOB_GENERATOR_RMAT;
        job.dataset.nodes = N_NODE;
        job.dataset.features = 2;
        job.dataset.undirected = (i >= 2 && i < 5) || i == 9 ? JOB_SWITCH_YES : JOB_SWITCH_NO;
        job.task.kind = i >= 8 ? JOB_TASK_LINK : JOB_TASK_NODE;
        strcpy(job.task.decoder, i == 10 ? "distmult" : "dot");
        job.model.kind = (i >= 2 && i < 5) || i == 10 ? JOB_KIND_RGCN : JOB_KIND_SAGE;
        job.partition.parts = 3;
        job.partition.method = JOB_METHOD_BLOCK;
        snprintf(job.partition.cache, sizeof job.partition.cache, "off");
        ASSERT(dataset_load(&job, &dataset) == STATUS_OK);
        if (i == 3) {
            embed(&dataset);
        }
        if (i == 5) {
            weigh(&dataset);
        }
        if (i == 7) {
            feature(&dataset);
        }
        ASSERT(partition_build(&dataset, &job, &partition) == STATUS_OK);
        partition.stores = i == 6;
        if (i == 4) {
            struct reach reach;
            ASSERT(reach_build(&dataset, 2, &reach) == STATUS_OK);
            ASSERT(reach_order(&reach, &partition) == STATUS_OK);
        }
        ASSERT(part_encode(&dataset, &partition, 1, &good[i], &n_good[i]) == STATUS_OK);
        partition_release(&partition);
        dataset_release(&dataset);
    }
    return 0;
}

/* Use every index as its readers do; the address sanitizer reports reads out of bounds. */
static void walk(const struct part *p)
{
    int64_t degree_most = p->n_node * (p->facts.n_relation > 1 ? p->facts.n_relation : 1);
    int32_t n_type = 2 * (p->facts.n_relation_given > 0 ? p->facts.n_relation_given : 1);
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        for (int32_t j = 0; j < p->n_part; j++) {
            const struct part_block block = part_block(p, (enum part_direction)d, j), *b = &block;
            const struct part_send send = part_send(p, (enum part_direction)d, j);
            for (int64_t r = 0; r < b->n_row; r++) {
                ASSERT(p->node[b->rows != NULL ? b->rows[r] : r] < p->n_node);
                for (int64_t i = b->indptr[r]; i < b->indptr[r + 1]; i++) {
                    ASSERT(b->types == NULL || (b->types[i] < p->facts.n_relation && b->weights[i] == b->weights[i]));
                    ASSERT(p->edges.features == NULL ||
                           (double)p->edges.features[b->edge_rows[i] * p->facts.n_edge_feature] < 1e39);
                    ASSERT(!p->facts.weighted || (b->weights[i] >= 0.0f && b->strength[b->cols[i]] >= 0.0f));
                    ASSERT(b->degree[b->cols[i]] <= degree_most && b->node[b->cols[i]] < p->n_node);
                }
            }
            for (int64_t r = 0; r < send.n_row; r++) {
                ASSERT(p->degree[send.rows[r]] <= degree_most);
            }
        }
    }
    for (int32_t hop = 0; hop < p->n_hop; hop++) {
        const struct part_rows received = part_halo_received(&p->halo, PART_DIRECTION_OUT, hop);
        const struct part_rows sent = part_halo_sent(&p->halo, PART_DIRECTION_OUT, hop);
        for (int32_t q = 0; q < p->n_part; q++) {
            ASSERT(part_rows_with(&received, q) <= part_block(p, PART_DIRECTION_OUT, q).n_col);
            ASSERT(part_rows_with(&sent, q) <= part_send(p, PART_DIRECTION_OUT, q).n_row);
        }
    }
    for (int64_t r = 0; r < p->n_own + p->n_halo; r++) {
        ASSERT(p->node[r] < p->n_node && (r >= p->n_own || p->labels.split[r] < DATASET_SPLIT_N));
        ASSERT(p->facts.multi_label || r >= p->n_own ||
               (p->labels.classes[r] >= -1 && p->labels.classes[r] < p->facts.n_class));
        int64_t n_value = p->features.indptr != NULL ? p->features.indptr[r + 1] - p->features.indptr[r] : 0;
        for (int64_t i = 0; i < n_value; i++) {
            ASSERT(embedded_column(&p->features.embedded, p->features.indices[p->features.indptr[r] + i]) <
                   p->facts.n_feature);
        }
    }
    for (int64_t r = 0; p->links.n > 0 && r < p->n_own; r++) {
        for (int64_t i = p->links.indptr[r]; i < p->links.indptr[r + 1]; i++) {
            ASSERT(p->links.places[i] < p->n_node && p->links.rows[p->part] == p->n_own);
            ASSERT(p->links.types == NULL || p->links.types[i] < n_type);
        }
    }
    for (int64_t k = 0; k < p->features.n_embedded; k++) {
        ASSERT(p->features.embedded_rows[k] < p->n_own && p->features.embedded_columns[k] < p->facts.n_feature);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n == 0) {
        return 0;
    }
    int which = bytes[0] % (N_GOOD + 1);
    size_t size = which < N_GOOD ? n_good[which] : n - 1;
    char *buffer = aligned_alloc(PART_ALIGN, (size + PART_ALIGN) / PART_ALIGN * PART_ALIGN);
    ASSERT(buffer != NULL);
    memcpy(buffer, which < N_GOOD ? good[which] : bytes + 1, size);
    size_t n_change = which < N_GOOD ? (n - 1) / 10 : 0;
    for (size_t i = 0; i < n_change; i++) {
        size_t at = 1 + 10 * i;
        size_t offset = (size_t)(bytes[at] | bytes[at + 1] << 8) % (size / 4) * 4;
        memcpy(buffer + offset, bytes + at + 2, size - offset < 8 ? size - offset : 8);
    }
    struct part part;
    if (part_check(buffer, size, false, &part) == STATUS_OK) {
        walk(&part);
        part_release(&part);
    }
    free(buffer);
    return 0;
}
