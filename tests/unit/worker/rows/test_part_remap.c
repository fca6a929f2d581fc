/* Blocks remapped in a copy: columns of a part of the same rank are its own rows, and the part stays as it was. */
#include "worker/rows/part_remap.h"

#include "tests/support/graphs/part_encode.h"
#include "tests/support/graphs/tiny_graph.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { N_PART = 3 };

static struct dataset dataset;
static struct partition partition;
static struct part opened[N_PART], *parts[N_PART];
static struct program program;
static struct part_device_setup setup;

/* Parts 0 and 2 are of rank 0, part 1 of rank 1. */
static const uint32_t rank_of_part[N_PART] = {0, 1, 0};

static void begin(void)
{
    static const char text[] =
        "[dataset]\ngenerator = \"karate\"\n[partition]\nparts = 3\nmethod = \"random\"\n[model]\nkind = \"sage\"\n";
    static struct job job;
    cr_assert_eq(job_load_text(text, sizeof text - 1, "test", NULL, 0, &job), STATUS_OK, "%s", status_reason());
    dataset = tiny_build(&(struct tiny_graph){.n_node = 30, .n_draw = 200, .weighted = true, .seed = 5});
    cr_assert_eq(partition_build(&dataset, &job, &partition), STATUS_OK);
    for (int32_t p = 0; p < N_PART; p++) {
        void *bytes;
        size_t n_bytes;
        cr_assert_eq(part_encode(&dataset, &partition, p, &bytes, &n_bytes), STATUS_OK);
        cr_assert_eq(part_open(bytes, n_bytes, &opened[p]), STATUS_OK, "%s", status_reason());
        parts[p] = &opened[p];
    }
    setup = (struct part_device_setup){
        .program = &program, .rank_of_part = rank_of_part, .parts = parts, .in_place = true};
}

TestSuite(part_remap, .init = begin);

static void expect_columns(const struct part_remap *remap, const uint32_t *before)
{
    const struct part *part = parts[0];
    const struct part_pairs *pairs = &part->halo.pairs[PART_DIRECTION_IN];
    for (int32_t k = 0; k < pairs->n_pair; k++) {
        const struct part_block from = part_block_at(part, PART_DIRECTION_IN, k),
                                to = part_remap_block(part, PART_DIRECTION_IN, k, remap);
        int32_t q = pairs->pair[k].part;
        for (int64_t e = 0; e < from.n_edge; e++) {
            cr_assert_eq(from.cols[e], before[pairs->pair[k].edge + e], "the part is const");
            if (q == 2) {
                cr_assert_eq(parts[q]->node[to.cols[e]], from.node[from.cols[e]], "part 2's own row");
            } else {
                cr_assert_eq(to.cols[e], from.cols[e], "part %d", q);
            }
        }
        cr_expect_eq(to.indptr[to.n_row], from.n_edge);
        cr_expect(to.weights[0] == from.weights[0]);
    }
}

Test(part_remap, columns_of_a_part_of_the_same_rank_are_its_own_rows_and_the_part_is_as_it_was)
{
    const struct part_pairs *pairs = &parts[0]->halo.pairs[PART_DIRECTION_IN];
    size_t n_edge = (size_t)pairs->pair[pairs->n_pair].edge;
    uint32_t *before = memory_alloc(n_edge, sizeof *before);
    memcpy(before, parts[0]->arrays[PART_DIRECTION_IN].cols, n_edge * sizeof *before);
    for (int covers = 0; covers < 2; covers++) {
        struct part_remap remap = {0};
        setup.covers = covers != 0;
        cr_assert_eq(part_remap_open(&setup, parts[0], PART_DIRECTION_IN, &remap), STATUS_OK);
        cr_expect_eq(remap.made.n_bytes, part_remap_bytes(pairs, covers != 0, true));
        cr_expect_eq(remap.indptr != NULL, covers != 0);
        expect_columns(&remap, before);
        part_remap_close(&setup, &remap);
    }
    free(before);
}

Test(part_remap, blocks_that_no_pass_reads_otherwise_have_no_copy)
{
    struct part_remap remap = {0};
    setup.in_place = false;
    cr_assert_eq(part_remap_open(&setup, parts[0], PART_DIRECTION_IN, &remap), STATUS_OK);
    cr_expect_null(remap.cols);
    setup.shares = true;
    cr_assert_eq(part_remap_open(&setup, parts[0], PART_DIRECTION_IN, &remap), STATUS_OK);
    cr_expect_not_null(remap.cols, "rows of part 1 are shared");
    part_remap_close(&setup, &remap);
}
