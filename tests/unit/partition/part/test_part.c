/* Parts against the graph they were cut from, and against what was planned of them. That no edge or feature is lost or
 * moved is asked by gradient/: a trainer's parts give the gradients of the whole graph. */
#include "partition/part/part.h"
#include "protocol/base/memory.h"
#include "protocol/job/job.h"
#include "tests/support/graphs/cut_graph.h"

#include <criterion/criterion.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static void every_payload_row_used(struct cut *cut)
{
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        for (int p = 0; p < cut->partition.n_part; p++) {
            for (int j = 0; j < cut->partition.n_part; j++) {
                const struct part_block block = part_block(&cut->part[p], (enum part_direction)d, j), *b = &block;
                uint8_t *used = calloc((size_t)b->n_col + 1, 1);
                for (int64_t i = 0; i < b->n_edge; i++) {
                    used[b->cols[i]] = 1;
                }
                for (int64_t c = 0; c < b->n_col && p != j; c++) {
                    cr_assert(used[c], "row %lld travels from part %d to %d for nothing", (long long)c, j, p);
                }
                free(used);
            }
        }
    }
}

Test(part, no_row_travels_that_nobody_reads)
{
    cut_every(every_payload_row_used);
}

static void nodes_and_rows(struct cut *cut)
{
    const struct dataset *d = &cut->dataset;
    int *n_seen = calloc((size_t)d->n_node, sizeof *n_seen);
    float row[8];
    for (int p = 0; p < cut->partition.n_part; p++) {
        const struct part *part = &cut->part[p];
        cr_assert_eq(part->part, p);
        cr_assert_eq(part->n_node, d->n_node);
        cr_assert_eq(part->facts.symmetric, d->facts.symmetric);
        cr_assert_eq(part->facts.loops, d->facts.loops);
        cr_assert_eq(memcmp(part->labels.n_split, d->labels.n_split, sizeof d->labels.n_split), 0);
        for (int64_t r = 0; r < part->n_own; r++) {
            uint32_t v = part->node[r];
            n_seen[v]++;
            cr_assert_eq(cut->partition.owner[v], p);
            cr_assert_eq(part->degree[r], d->indptr[v + 1] - d->indptr[v]);
            cr_assert_eq(part->labels.split[r], d->labels.split[v]);
            cr_assert(part->facts.multi_label || part->labels.classes[r] == d->labels.classes[v]);
            cr_assert(!part->facts.multi_label ||
                      memcmp(part->labels.rows + r * d->facts.n_class, d->labels.rows + v * d->facts.n_class,
                             (size_t)d->facts.n_class * sizeof(float)) == 0);
            for (int c = 0; c < d->facts.n_feature; c++) {
                row[c] = part->features.rows != NULL ? part->features.rows[r * d->facts.n_feature + c] : 0.0f;
            }
            for (int64_t i = 0;
                 part->features.indptr != NULL && i < part->features.indptr[r + 1] - part->features.indptr[r]; i++) {
                int64_t at = part->features.indptr[r] + i;
                row[part->features.indices[at]] = part->features.data[at];
            }
            for (int c = 0; c < d->facts.n_feature; c++) {
                bool stored = d->features.indptr == NULL || ((int64_t)v * d->facts.n_feature + c) % 2 == 0;
                cr_assert_eq(row[c], stored ? (float)v + (float)c / 4.0f : 0.0f);
            }
        }
    }
    for (int64_t v = 0; v < d->n_node; v++) {
        cr_assert_eq(n_seen[v], 1);
    }
    free(n_seen);
}

Test(part, every_node_has_one_owner_with_its_labels_split_and_features_as_float32)
{
    cut_every(nodes_and_rows);
}

/* The same pairs, entry for entry, whether counted in the graph or read from a part's bytes; none of them empty. */
static void pairs_agree(const struct part_pairs *a, const struct part_pairs *b, int n_hop)
{
    cr_assert(a->n_pair == b->n_pair && a->own == b->own);
    for (int32_t k = 0; k <= a->n_pair; k++) {
        cr_assert(a->pair[k].row == b->pair[k].row && a->pair[k].edge == b->pair[k].edge &&
                  a->pair[k].col == b->pair[k].col);
        cr_assert(k == a->n_pair || a->pair[k].part == b->pair[k].part);
        cr_assert(k == a->n_pair || k == a->own || part_pair_edges(a, k) > 0);
    }
    for (int32_t i = 0; i < a->n_pair * n_hop; i++) {
        cr_assert(a->n_row_hop[i] == b->n_row_hop[i] && a->n_col_hop[i] == b->n_col_hop[i]);
    }
}

static void sizes_agree(struct cut *cut)
{
    int n_part = cut->partition.n_part;
    struct part_sizes *sizes;
    cr_assert_eq(part_sizes_build(&cut->dataset, &cut->partition, &sizes), STATUS_OK);
    for (int p = 0; p < n_part; p++) {
        const struct part *part = &cut->part[p];
        int64_t n_edge = 0;
        cr_assert_eq(sizes[p].n_own, part->n_own);
        cr_assert_eq(sizes[p].n_bytes, cut->part[p].n_bytes);
        cr_assert_eq(sizes[p].n_feature_value, part->features.indptr != NULL ? part->features.indptr[part->n_own]
                                                                             : part->n_own * part->facts.n_feature);
        cr_assert_eq(sizes[p].n_embedded, part->features.n_embedded);
        cr_assert_eq(sizes[p].n_edge_row, part->edges.n_row);
        cr_assert_eq(sizes[p].n_halo, part->n_halo);
        if (part->features.indptr != NULL) {
            cr_assert_eq(sizes[p].n_halo_value, part->features.n_halo_value);
        }
        for (int j = 0; j < n_part; j++) {
            n_edge += part_block(part, PART_DIRECTION_IN, j).n_edge;
        }
        cr_assert_eq(sizes[p].n_edge, n_edge);
        for (int d = 0; d < PART_DIRECTION_N; d++) {
            pairs_agree(&sizes[p].halo.pairs[d], &part->halo.pairs[d], part->n_hop);
        }
    }
    part_sizes_release(sizes, n_part);
}

Test(part, the_sizes_planned_are_the_sizes_encoded)
{
    cut_every(sizes_agree);
}

static void hops_agree(struct cut *cut)
{
    int n_part = cut->partition.n_part, n_hop = cut->partition.n_hop;
    struct part_sizes *sizes;
    cr_assert_eq(part_sizes_build(&cut->dataset, &cut->partition, &sizes), STATUS_OK);
    for (int p = 0; p < n_part; p++) {
        const struct part *part = &cut->part[p];
        cr_assert_eq(part->n_hop, n_hop);
        for (int l = 0; l < n_hop; l++) {
            cr_assert_eq(part_halo_own(&sizes[p].halo, l), part_rows_own(part, l));
            for (enum part_direction d = PART_DIRECTION_IN; d < PART_DIRECTION_N; d++) {
                const struct part_rows received = part_halo_received(&part->halo, d, l);
                cr_assert_eq(sizes[p].halo.n_edge_hop[d][l], part_edges(part, d, l));
                for (int j = 0; j < n_part; j++) {
                    const struct part_rows sent = part_halo_sent(&cut->part[j].halo, d, l);
                    cr_assert_eq(part_rows_with(&received, j), part_rows_with(&sent, p));
                }
            }
        }
        for (int64_t r = 0; r < part->n_own && n_hop > 0; r++) {
            for (int l = 0; l < n_hop; l++) {
                cr_assert_eq(r < part_rows_own(part, l), cut->partition.hop[part->node[r]] <= l);
            }
        }
    }
    part_sizes_release(sizes, n_part);
}

Test(part, both_ends_count_the_same_rows_on_every_hop)
{
    cut_every(hops_agree);
}

Test(part, the_sizes_of_parts_with_rows_that_have_a_column_of_their_own_are_those_encoded)
{
    const struct tiny_graph graph = {
        .n_node = 37, .n_draw = 120, .features = TINY_FEATURES_TYPED, .n_relation = 3, .seed = 4};
    for (int n_part = 1; n_part < 9; n_part += 3) {
        struct cut cut;
        cut_open(&graph, n_part, JOB_METHOD_RANDOM, 2, &cut);
        sizes_agree(&cut);
        cut_close(&cut);
    }
}

/* Ascending, as a coordinator asks for them, and descending, where each run of gathered out-edges begins anew. */
static void encoder_agrees(struct cut *cut)
{
    struct part_encoder *encoder;
    int n_part = cut->partition.n_part;
    cr_assert_eq(part_encoder_open(&cut->dataset, &cut->partition, &encoder), STATUS_OK);
    for (int i = 0; i < 2 * n_part; i++) {
        int p = i < n_part ? i : 2 * n_part - 1 - i;
        void *bytes;
        size_t n_bytes;
        cr_assert_eq(part_encoder_encode(encoder, p, &bytes, &n_bytes), STATUS_OK);
        cr_assert_eq((int64_t)n_bytes, cut->part[p].n_bytes);
        cr_assert_eq(memcmp(bytes, cut->part[p].bytes, n_bytes), 0);
        memory_release(MEMORY_OTHER, bytes, n_bytes, 1);
    }
    part_encoder_close(encoder);
}

Test(part, an_encoder_gives_each_part_the_bytes_that_it_has_alone_in_any_order)
{
    cut_every(encoder_agrees);
}

Test(part, long_rows_come_out_ascending)
{
    /* part_open checks the order; rows of some 350 columns take the radix sort. */
    struct tiny_graph graph = {.n_node = 700, .n_draw = 400000, .symmetric = true, .seed = 9};
    struct cut cut;
    cut_open(&graph, 2, JOB_METHOD_RANDOM, 0, &cut);
    cr_assert_gt(part_block(&cut.part[0], PART_DIRECTION_IN, 0).n_edge / cut.part[0].n_own, 100);
    cut_close(&cut);
}

Test(part, encoding_gives_back_all_memory_but_the_bytes)
{
    struct tiny_graph graph = {.n_node = 60, .n_draw = 400, .seed = 3};
    struct cut cut;
    int64_t before = memory_now(MEMORY_N);
    cut_open(&graph, 3, JOB_METHOD_BLOCK, 0, &cut);
    cut_close(&cut);
    cr_assert_eq(memory_now(MEMORY_N), before);
}

static const char SEVERAL[] = "[dataset]\ngenerator = \"rmat\"\nnodes = 16384\ndegree = 30\nfeatures = 3\n"
                              "[partition]\nparts = 3\nmethod = \"block\"\ncache = \"off\"\n";

/* A graph whose parts are large enough for several threads, as it is and as if it were not symmetric. */
Test(part, bytes_sizes_and_figures_are_those_of_one_thread)
{
    struct job job;
    cr_assert_eq(job_load_text(SEVERAL, strlen(SEVERAL), "test", NULL, 0, &job), STATUS_OK, "%s", status_reason());
    struct dataset dataset;
    struct partition partition;
    cr_assert_eq(dataset_load(&job, &dataset), STATUS_OK);
    cr_assert_eq(partition_build(&dataset, &job, &partition), STATUS_OK);
    for (int symmetric = 0; symmetric < 2; symmetric++) {
        dataset.facts.symmetric = symmetric == 1;
        uint64_t hash[2] = {0};
        for (int i = 0; i < 2; i++) {
            struct part_encoder *encoder;
            struct part_sizes *sizes;
            struct partition_quality quality;
            omp_set_num_threads(i == 0 ? 1 : 5);
            cr_assert_eq(part_encoder_open(&dataset, &partition, &encoder), STATUS_OK);
            cr_assert_eq(part_sizes_build(&dataset, &partition, &sizes), STATUS_OK);
            cr_assert_eq(partition_measure(&dataset, &partition, &quality), STATUS_OK);
            hash[i] = XXH3_64bits(&quality, sizeof quality);
            for (int p = 0; p < partition.n_part; p++) {
                void *bytes;
                size_t n_bytes;
                cr_assert_eq(part_encoder_encode(encoder, p, &bytes, &n_bytes), STATUS_OK);
                cr_assert_eq(sizes[p].n_bytes, (int64_t)n_bytes);
                hash[i] = XXH3_64bits_withSeed(bytes, n_bytes, hash[i]);
                memory_release(MEMORY_OTHER, bytes, n_bytes, 1);
            }
            part_sizes_release(sizes, partition.n_part);
            part_encoder_close(encoder);
        }
        cr_assert_eq(hash[0], hash[1]);
    }
    partition_release(&partition);
    dataset_release(&dataset);
}
