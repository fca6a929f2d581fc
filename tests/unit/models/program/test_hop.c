/* Hops of hand-made programs: how many edges from the training nodes a value's rows still count. */
#include "models/program/program.h"

#include <criterion/criterion.h>

static struct program program;

static void init(void)
{
    program_init(&(struct program_input){.facts = {.n_feature = 3, .n_class = 2}}, &program);
}

static void release(void)
{
    program_release(&program);
}

TestSuite(hop, .init = init, .fini = release);

static int linear(int in, int64_t f_out)
{
    return program_linear(&program, in, program_param(&program, "w", f_out, program.value[in].width, 1.0), -1);
}

static int32_t hop(int value)
{
    return program.value[value].hop;
}

Test(hop, each_aggregate_counts_its_sources_one_edge_farther)
{
    int x = linear(0, 4), y = program_aggregate(&program, x, AGGREGATE_KIND_GCN), h = linear(y, 4);
    int z = program_aggregate(&program, h, AGGREGATE_KIND_MEAN), out = linear(z, 2);
    program_hops(&program);
    cr_expect(hop(out) == 0 && hop(z) == 0 && hop(h) == 1 && hop(y) == 1 && hop(x) == 2 && hop(0) == 2);
    cr_expect_eq(program_n_hop(&program), 3);
}

Test(hop, a_value_that_is_read_twice_counts_as_far_as_it_is_read)
{
    int x = linear(0, 4), y = program_aggregate(&program, x, AGGREGATE_KIND_SUM);
    program_add(&program, 1.0F, y, 1.0F, x);
    program_hops(&program);
    cr_expect(hop(y) == 0 && hop(x) == 1);
}

Test(hop, queries_of_an_attention_count_as_far_as_its_output)
{
    int values = linear(0, 4), keys = linear(0, 2), queries = linear(0, 2);
    struct op op = {.aggregate = AGGREGATE_KIND_GAT, .in = {values, keys, queries}, .param = {-1, -1}, .n_head = 2};
    program_attention(&program, &op);
    program_hops(&program);
    cr_expect(hop(values) == 1 && hop(keys) == 1 && hop(queries) == 0);
}

Test(hop, batch_norm_needs_all_rows_below_it_and_none_more_above)
{
    int x = linear(0, 4), weight = program_param(&program, "a", 0, 4, 0.0),
        bias = program_param(&program, "b", 0, 4, 0.0);
    int mean = program_param(&program, "c", 0, 4, 0.0), variance = program_param(&program, "d", 0, 4, 0.0);
    int y = program_batch_norm(&program, x, weight, bias, mean, variance), h = linear(y, 2);
    int out = program_aggregate(&program, h, AGGREGATE_KIND_GCN);
    program_hops(&program);
    cr_expect(hop(out) == 0 && hop(h) == 1 && hop(y) == PROGRAM_HOP_ALL && hop(x) == PROGRAM_HOP_ALL);
    cr_expect_eq(program_n_hop(&program), 2);
}

Test(hop, sparse_features_and_what_is_done_once_have_all_rows)
{
    int once = program_aggregate(&program, 0, AGGREGATE_KIND_GCN);
    linear(once, 2);
    program_hops(&program);
    cr_expect(hop(once) == PROGRAM_HOP_ALL && hop(0) == PROGRAM_HOP_ALL);
    cr_expect_eq(program_n_hop(&program), 1);
    program_release(&program);
    program_init(&(struct program_input){.facts = {.n_feature = 3, .n_class = 2}, .is_sparse = true}, &program);
    int x = linear(0, 4);
    program_aggregate(&program, x, AGGREGATE_KIND_GCN);
    program_hops(&program);
    cr_expect_eq(hop(x), PROGRAM_HOP_ALL);
    cr_expect_eq(program_n_hop(&program), 2, "what the aggregate takes of them");
}

/* Level 0: 2 rows with 5 edges into them; hop 1: 4 rows, 6 edges; in all 9 rows, 12 edges. */
Test(hop, work_is_rows_times_columns_in_and_out_and_edges_times_columns_forth_and_back)
{
    int x = linear(0, 4);
    program_aggregate(&program, x, AGGREGATE_KIND_SUM);
    program_hops(&program);
    const int64_t rows[] = {2, 4, 9}, edges[] = {5, 6, 12};
    cr_expect_eq(program_work(&program, 2, rows, edges), 2 * (4 * (3 + 4)) + 2 * (2 * 4 + 5 * 4));
    cr_expect_eq(program_work(&program, 0, rows + 2, edges + 2), 2 * (9 * (3 + 4)) + 2 * (9 * 4 + 12 * 4));
}
