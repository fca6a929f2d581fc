/* Operations that move from edges to nodes: what a text gives before and after. */
#include "models/vertex/move.h"
#include "tests/support/vertex_case.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static void expect_moved(const char *sum, const char *expected)
{
    char text[1024], *printed = NULL;
    size_t n = 0;
    struct vertex_tree tree;
    struct vertex_trace before, after;
    const struct vertex_args args = {0};
    const struct vertex_facts facts = vertex_case_facts();
    snprintf(text, sizeof text, "def layer(v, out):\n    return %s\n", sum);
    cr_assert_eq(vertex_tree_parse(text, strlen(text), "case.gnn", &tree), STATUS_OK, "%s", status_reason());
    cr_assert_eq(vertex_trace_build(&tree, &args, &facts, &before), STATUS_OK, "%s", status_reason());
    vertex_move(&before, true, false, &after);
    FILE *file = open_memstream(&printed, &n);
    vertex_trace_print(&after, file);
    fclose(file);
    cr_expect_str_eq(printed, expected, "%s\n%s", sum, printed);
    free(printed);
    vertex_trace_release(&before);
    vertex_trace_release(&after);
    vertex_tree_release(&tree);
}

Test(move, what_depends_on_a_source_is_computed_at_nodes)
{
    expect_moved("max(relu(e.src.x) for e in v.in_edges)",
                 "%0 = input node 32\n%1 = source edge 32 %0\n%2 = relu node 32 %0\n%3 = source edge 32 %2\n"
                 "%4 = max node 32 %3\nreturn %4\n");
    expect_moved("max((e.src.x @ param('w', 32, 8)).heads(2).flat() for e in v.in_edges)",
                 "%0 = input node 32\n%1 = source edge 32 %0\n%2 = parameter weight 32x8 \"w\"\n"
                 "%3 = product node 8 %0 %2\n%4 = source edge 8 %3\n%5 = heads node 2x4 %3\n%6 = source edge 2x4 %5\n"
                 "%7 = flat node 8 %5\n%8 = source edge 8 %7\n%9 = max node 8 %8\nreturn %9\n");
}

Test(move, what_depends_on_both_ends_or_on_the_edge_stays)
{
    expect_moved("max(gelu(e.src.x + e.dst.x) for e in v.in_edges)",
                 "%0 = input node 32\n%1 = source edge 32 %0\n%2 = target edge 32 %0\n%3 = add edge 32 %1 %2\n"
                 "%4 = gelu edge 32 %3\n%5 = max node 32 %4\nreturn %5\n");
    expect_moved("sum(e.weight * e.src.x for e in v.in_edges)",
                 "%0 = edge_weight edge 1\n%1 = input node 32\n%2 = source edge 32 %1\n%3 = multiply edge 32 %0 %2\n"
                 "%4 = sum node 32 %3\nreturn %4\n");
    expect_moved("max(dropout(e.src.x, 0.5) for e in v.in_edges)",
                 "%0 = input node 32\n%1 = source edge 32 %0\n%2 = dropout edge 32 %1 0.5\n%3 = max node 32 %2\n"
                 "return %3\n");
}

Test(move, sums_and_means_are_taken_of_terms_and_without_factors)
{
    expect_moved("mean(2 * (e.weight * e.src.x) for e in v.in_edges)",
                 "%0 = edge_weight edge 1\n%1 = input node 32\n%2 = source edge 32 %1\n"
                 "%3 = multiply edge 32 %0 %2\n%4 = number weight 1 2\n%5 = multiply edge 32 %4 %3\n"
                 "%6 = mean node 32 %3\n%7 = multiply node 32 %4 %6\nreturn %7\n");
    expect_moved("sum(relu(e.src.x) / 4 for e in v.in_edges)",
                 "%0 = input node 32\n%1 = source edge 32 %0\n%2 = relu node 32 %0\n%3 = source edge 32 %2\n"
                 "%4 = number weight 1 4\n%5 = divide edge 32 %3 %4\n%6 = sum node 32 %3\n%7 = divide node 32 %6 %4\n"
                 "return %7\n");
    expect_moved("sum(e.weight * e.src.x - relu(e.src.x) for e in v.in_edges)",
                 "%0 = edge_weight edge 1\n%1 = input node 32\n%2 = source edge 32 %1\n%3 = multiply edge 32 %0 %2\n"
                 "%4 = relu node 32 %1\n%5 = source edge 32 %4\n%6 = subtract edge 32 %3 %5\n%7 = sum node 32 %3\n"
                 "%8 = sum node 32 %5\n%9 = subtract node 32 %7 %8\nreturn %9\n");
}

Test(move, sums_that_need_each_edge_anyway_stay_together)
{
    expect_moved("sum(relu(e.dst.x + e.src.x) + silu(e.dst.x + e.src.x) for e in v.in_edges)",
                 "%0 = input node 32\n%1 = target edge 32 %0\n%2 = source edge 32 %0\n%3 = add edge 32 %1 %2\n"
                 "%4 = relu edge 32 %3\n%5 = silu edge 32 %3\n%6 = add edge 32 %4 %5\n%7 = sum node 32 %6\n"
                 "return %7\n");
}

Test(move, what_all_edges_of_a_node_have_in_common_leaves_their_reduction)
{
    expect_moved("sum(relu(e.dst.x + e.src.x) * 2 + e.dst.x for e in v.in_edges)",
                 "%0 = input node 32\n%1 = target edge 32 %0\n%2 = source edge 32 %0\n%3 = add edge 32 %1 %2\n"
                 "%4 = relu edge 32 %3\n%5 = number weight 1 2\n%6 = multiply edge 32 %4 %5\n"
                 "%7 = add edge 32 %6 %1\n%8 = sum node 32 %4\n%9 = multiply node 32 %8 %5\n"
                 "%10 = degree node 1\n%11 = multiply node 32 %0 %10\n%12 = add node 32 %9 %11\nreturn %12\n");
    expect_moved("max(relu(e.src.x - e.dst.x) for e in v.in_edges)",
                 "%0 = input node 32\n%1 = source edge 32 %0\n%2 = target edge 32 %0\n%3 = subtract edge 32 %1 %2\n"
                 "%4 = relu edge 32 %3\n%5 = max node 32 %1\n%6 = subtract node 32 %5 %0\n%7 = relu node 32 %6\n"
                 "%8 = degree node 1\n%9 = gate node 32 %7 %8\nreturn %9\n");
    expect_moved("min(2 * relu(e.src.x) for e in v.in_edges)",
                 "%0 = input node 32\n%1 = source edge 32 %0\n%2 = relu node 32 %0\n%3 = source edge 32 %2\n"
                 "%4 = number weight 1 2\n%5 = multiply edge 32 %4 %3\n%6 = min node 32 %3\n"
                 "%7 = multiply node 32 %4 %6\nreturn %7\n");
}

Test(move, linear_maps_of_both_ends_are_split)
{
    expect_moved("sum(relu(linear('l', concat(e.dst.x, e.src.x - e.dst.x), 8)) for e in v.in_edges)",
                 "%0 = input node 32\n%1 = target edge 32 %0\n%2 = source edge 32 %0\n%3 = subtract edge 32 %2 %1\n"
                 "%4 = concat edge 64 %1 %3\n%5 = parameter weight 8x64 \"l.weight\"\n"
                 "%6 = parameter weight 8 \"l.bias\"\n%7 = linear node 8 %0 %5 %6\n%8 = target edge 8 %7\n"
                 "%9 = linear node 8 %0 %5 32\n%10 = source edge 8 %9\n%11 = target edge 8 %9\n"
                 "%12 = subtract edge 8 %10 %11\n%13 = add edge 8 %8 %12\n%14 = relu edge 8 %13\n"
                 "%15 = sum node 8 %14\nreturn %15\n");
    expect_moved("max(gelu(linear('l', e.weight * e.src.x - e.dst.x, 8)) for e in v.in_edges)",
                 "%0 = edge_weight edge 1\n%1 = input node 32\n%2 = source edge 32 %1\n%3 = multiply edge 32 %0 %2\n"
                 "%4 = target edge 32 %1\n%5 = subtract edge 32 %3 %4\n%6 = parameter weight 8x32 \"l.weight\"\n"
                 "%7 = parameter weight 8 \"l.bias\"\n%8 = linear edge 8 %3 %6\n%9 = linear node 8 %1 %6\n"
                 "%10 = target edge 8 %9\n%11 = subtract edge 8 %8 %10\n%12 = add edge 8 %11 %7\n"
                 "%13 = gelu edge 8 %12\n%14 = max node 8 %13\nreturn %14\n");
}

/* Each of 900 maps has 40 parts: they are split while there is room, and then stay whole. */
Test(move, many_maps_of_many_parts_have_room)
{
    static const char text[] =
        "def layer(v, out):\n    return sum(f(e) for e in v.in_edges)\n\ndef f(e):\n"
        "    c = concat(e.src.x * e.weight, e.dst.x)\n"
        "    for i in range(40):\n        c = concat(c, e.src.x)\n"
        "    y = linear('first', c, 1)\n"
        "    for i in range(900):\n        y = y + linear(names('l', i), c, 1)\n    return y\n";
    struct vertex_tree tree;
    struct vertex_trace before, after;
    const struct vertex_args args = {0};
    const struct vertex_facts facts = vertex_case_facts();
    cr_assert_eq(vertex_tree_parse(text, strlen(text), "case.gnn", &tree), STATUS_OK, "%s", status_reason());
    cr_assert_eq(vertex_trace_build(&tree, &args, &facts, &before), STATUS_OK, "%s", status_reason());
    vertex_move(&before, true, false, &after);
    cr_expect_gt(after.n_op, 8 * before.n_op);
    cr_expect_eq(after.op[after.out].place, VERTEX_PLACE_NODE);
    vertex_trace_release(&before);
    vertex_trace_release(&after);
    vertex_tree_release(&tree);
}

Test(move, terms_that_double_at_each_step_are_taken_once)
{
    char text[4096] = "sum(f(e) for e in v.in_edges)\n\ndef f(e):\n    x = e.weight * e.src.x\n";
    for (int i = 0; i < 60; i++) {
        strcat(text, "    x = x + x\n");
    }
    strcat(text, "    return x\n");
    struct vertex_tree tree;
    struct vertex_trace before, after;
    const struct vertex_args args = {0};
    const struct vertex_facts facts = vertex_case_facts();
    char whole[8192];
    snprintf(whole, sizeof whole, "def layer(v, out):\n    return %s", text);
    cr_assert_eq(vertex_tree_parse(whole, strlen(whole), "case.gnn", &tree), STATUS_OK, "%s", status_reason());
    cr_assert_eq(vertex_trace_build(&tree, &args, &facts, &before), STATUS_OK, "%s", status_reason());
    vertex_move(&before, true, false, &after);
    cr_expect_lt(after.n_op, 3 * before.n_op);
    vertex_trace_release(&before);
    vertex_trace_release(&after);
    vertex_tree_release(&tree);
}
