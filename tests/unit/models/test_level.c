/* Levels of hand-made programs: how many edges from the training nodes a value's rows still count. */
#include "models/program.h"

#include <criterion/criterion.h>

static struct program program;

static void init(void)
{
    program_init(&(struct program_input){.n_feature = 3, .n_class = 2}, &program);
}

static void release(void)
{
    program_release(&program);
}

TestSuite(level, .init = init, .fini = release);

static int linear(int in, int64_t f_out)
{
    return program_linear(&program, in, program_param(&program, "w", f_out, program.value[in].width, 1.0), -1);
}

static int32_t level(int value)
{
    return program.value[value].level;
}

Test(level, each_aggregate_counts_its_sources_one_edge_farther)
{
    int x = linear(0, 4), y = program_aggregate(&program, x, AGGREGATE_KIND_GCN), h = linear(y, 4);
    int z = program_aggregate(&program, h, AGGREGATE_KIND_MEAN), out = linear(z, 2);
    program_levels(&program);
    cr_expect(level(out) == 0 && level(z) == 0 && level(h) == 1 && level(y) == 1 && level(x) == 2 && level(0) == 2);
    cr_expect_eq(program_n_level(&program), 3);
}

Test(level, a_value_that_is_read_twice_counts_as_far_as_it_is_read)
{
    int x = linear(0, 4), y = program_aggregate(&program, x, AGGREGATE_KIND_SUM);
    program_add(&program, 1.0F, y, 1.0F, x);
    program_levels(&program);
    cr_expect(level(y) == 0 && level(x) == 1);
}

Test(level, queries_of_an_attention_count_as_far_as_its_output)
{
    int values = linear(0, 4), keys = linear(0, 2), queries = linear(0, 2);
    struct op op = {.aggregate = AGGREGATE_KIND_GAT, .in = {values, keys, queries}, .param = {-1, -1}, .n_head = 2};
    program_attention(&program, &op);
    program_levels(&program);
    cr_expect(level(values) == 1 && level(keys) == 1 && level(queries) == 0);
}

Test(level, batch_norm_needs_all_rows_below_it_and_none_more_above)
{
    int x = linear(0, 4), weight = program_param(&program, "a", 0, 4, 0.0), bias = program_param(&program, "b", 0, 4, 0.0);
    int mean = program_param(&program, "c", 0, 4, 0.0), variance = program_param(&program, "d", 0, 4, 0.0);
    int y = program_batch_norm(&program, x, weight, bias, mean, variance), h = linear(y, 2);
    int out = program_aggregate(&program, h, AGGREGATE_KIND_GCN);
    program_levels(&program);
    cr_expect(level(out) == 0 && level(h) == 1 && level(y) == PROGRAM_LEVEL_ALL && level(x) == PROGRAM_LEVEL_ALL);
    cr_expect_eq(program_n_level(&program), 2);
}

Test(level, sparse_features_and_what_is_done_once_have_all_rows)
{
    int once = program_aggregate(&program, 0, AGGREGATE_KIND_GCN);
    linear(once, 2);
    program_levels(&program);
    cr_expect(level(once) == PROGRAM_LEVEL_ALL && level(0) == PROGRAM_LEVEL_ALL);
    cr_expect_eq(program_n_level(&program), 1);
    program_release(&program);
    program_init(&(struct program_input){.n_feature = 3, .n_class = 2, .is_sparse = true}, &program);
    int x = linear(0, 4);
    program_aggregate(&program, x, AGGREGATE_KIND_GCN);
    program_levels(&program);
    cr_expect_eq(level(x), PROGRAM_LEVEL_ALL);
    cr_expect_eq(program_n_level(&program), 2, "what the aggregate takes of them");
}

/* Level 0: 2 rows with 5 edges into them; level 1: 4 rows, 6 edges; in all 9 rows, 12 edges. */
Test(level, work_is_rows_times_columns_in_and_out_and_edges_times_columns_forth_and_back)
{
    int x = linear(0, 4);
    program_aggregate(&program, x, AGGREGATE_KIND_SUM);
    program_levels(&program);
    const int64_t rows[] = {2, 4, 9}, edges[] = {5, 6, 12};
    cr_expect_eq(program_work(&program, 2, rows, edges), 2 * (4 * (3 + 4)) + 2 * (2 * 4 + 5 * 4));
    cr_expect_eq(program_work(&program, 0, rows + 2, edges + 2), 2 * (9 * (3 + 4)) + 2 * (9 * 4 + 12 * 4));
}
