/* Blocks remapped in their arrays, taken out of the part, or in a copy. */
#include "worker/rows/part_remap.h"

#include "tests/support/graphs/cut_graph.h"

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
        opened[p] = cut_part(&dataset, &partition, p);
        parts[p] = &opened[p];
    }
    setup = (struct part_device_setup){
        .program = &program, .rank_of_part = rank_of_part, .parts = parts, .in_place = true};
}

static void end(void)
{
    for (int32_t p = 0; p < N_PART; p++) {
        cut_part_close(&opened[p]);
    }
    partition_release(&partition);
    tiny_release(&dataset);
}

TestSuite(part_remap, .init = begin, .fini = end);

/* Part 0's blocks of in-edges as they came, and remapped: columns of part 2 are its own rows. */
static void expect_columns(const struct part *came, const struct part_remap *remap)
{
    const struct part_pairs *pairs = &came->halo.pairs[PART_DIRECTION_IN];
    for (int32_t k = 0; k < pairs->n_pair; k++) {
        const struct part_block from = part_block_at(came, PART_DIRECTION_IN, k),
                                to = part_remap_block(parts[0], PART_DIRECTION_IN, k, remap);
        int32_t q = pairs->pair[k].part;
        for (int64_t e = 0; e < from.n_edge; e++) {
            if (q == 2) {
                cr_assert_eq(parts[q]->node[to.cols[e]], from.node[from.cols[e]], "part 2's own row");
            } else {
                cr_assert_eq(to.cols[e], from.cols[e], "part %d", q);
            }
        }
        cr_expect_eq(to.n_edge, from.n_edge);
        cr_expect_eq(to.indptr[to.n_row], from.n_edge);
        cr_expect(to.weights[0] == from.weights[0]);
    }
}

static void expect_taken(const struct part_arrays *from, bool covers)
{
    cr_expect_null(from->cols, "read by nobody as payload rows");
    cr_expect_eq(from->indptr == NULL, covers);
    cr_expect_eq(from->weights == NULL, covers);
    cr_expect_not_null(from->rows);
}

Test(part_remap, columns_of_a_part_of_the_same_rank_are_its_own_rows_in_arrays_that_the_part_has_no_more)
{
    for (int covers = 0; covers < 2; covers++) {
        struct part_remap remap = {0};
        struct part came = opened[0];
        opened[0] = cut_part(&dataset, &partition, 0);
        setup.covers = covers != 0;
        cr_assert_eq(part_remap_open(&setup, parts[0], PART_DIRECTION_IN, &remap), STATUS_OK);
        cr_expect_null(remap.made.host, "nothing is copied");
        expect_taken(&parts[0]->arrays[PART_DIRECTION_IN], covers != 0);
        cr_expect_eq(parts[0]->arrays[PART_DIRECTION_OUT].cols == NULL, parts[0]->facts.symmetric);
        expect_columns(&came, &remap);
        part_remap_close(&setup, &remap);
        cut_part_close(&opened[0]);
        opened[0] = came;
    }
}

Test(part_remap, of_a_part_that_passes_read_as_it_came_too_blocks_are_copied)
{
    const struct part_pairs *pairs = &parts[0]->halo.pairs[PART_DIRECTION_IN];
    struct part came = cut_part(&dataset, &partition, 0);
    struct value stored = {.hop = PROGRAM_HOP_HALO};
    program.value = &stored;
    program.n_value = 1;
    for (int covers = 0; covers < 2; covers++) {
        struct part_remap remap = {0};
        setup.covers = covers != 0;
        cr_assert_eq(part_remap_open(&setup, parts[0], PART_DIRECTION_IN, &remap), STATUS_OK);
        cr_expect_eq(remap.made.n_bytes, part_remap_bytes(pairs, covers != 0, true));
        cr_expect_eq(remap.edges.indptr != NULL, covers != 0);
        expect_columns(&came, &remap);
        part_remap_close(&setup, &remap);
    }
    cr_expect_arr_eq(parts[0]->bytes, came.bytes, (size_t)came.n_bytes, "the part is as it was");
    cut_part_close(&came);
}

Test(part_remap, blocks_that_no_pass_reads_otherwise_stay_the_parts)
{
    struct part_remap remap = {0};
    setup.in_place = false;
    cr_assert_eq(part_remap_open(&setup, parts[0], PART_DIRECTION_IN, &remap), STATUS_OK);
    cr_expect_null(remap.edges.cols);
    setup.dedups = true;
    cr_assert_eq(part_remap_open(&setup, parts[0], PART_DIRECTION_IN, &remap), STATUS_OK);
    cr_expect_not_null(remap.edges.cols, "rows of part 1 are shared");
}
