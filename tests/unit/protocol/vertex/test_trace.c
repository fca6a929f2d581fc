/* The operations of a text: inlined, unrolled, folded, each once. */
#include "tests/support/vertex_case.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static void expect_trace(const char *text, const char *args, const char *expected)
{
    const struct vertex_args with = vertex_case_args(args);
    char *printed = NULL;
    enum status status = vertex_case_trace(text, strlen(text), &with, vertex_case_facts(), &printed);
    cr_assert_eq(status, STATUS_OK, "%s", status_reason());
    cr_expect_str_eq(printed, expected, "%s", printed);
    free(printed);
}

Test(vertex_trace, operations_have_places_and_shapes)
{
    expect_trace("self_loops = True\n"
                 "\n"
                 "def layer(v, out):\n"
                 "    v.z = linear(\"lin\", v.x, out, bias=False, init=glorot)\n"
                 "    return sum(e.norm * e.src.z for e in v.in_edges) + param(\"bias\", out, init=zeros)\n",
                 "",
                 "%0 = input node 32\n"
                 "%1 = parameter weight 64x32 \"lin.weight\"\n"
                 "%2 = linear node 64 %0 %1\n"
                 "%3 = edge_norm edge 1\n"
                 "%4 = source edge 64 %2\n"
                 "%5 = multiply edge 64 %3 %4\n"
                 "%6 = sum node 64 %5\n"
                 "%7 = parameter weight 64 \"bias\"\n"
                 "%8 = add node 64 %6 %7\n"
                 "return %8\n");
}

Test(vertex_trace, an_operation_comes_once_and_a_dropout_each_time)
{
    expect_trace("def layer(v, out):\n    return relu(v.x) + relu(v.x)\n", "",
                 "%0 = input node 32\n%1 = relu node 32 %0\n%2 = add node 32 %1 %1\nreturn %2\n");
    expect_trace("def layer(v, out):\n    return dropout(v.x, 0.5) + dropout(v.x, 0.5)\n", "",
                 "%0 = input node 32\n%1 = dropout node 32 %0 0.5\n%2 = dropout node 32 %0 0.5\n"
                 "%3 = add node 32 %1 %2\nreturn %3\n");
}

Test(vertex_trace, statics_are_folded_as_python_does)
{
    expect_trace("half = 1 / 2\n"
                 "def layer(v, out, n=3, name='b', flag=True):\n"
                 "    y = 0\n"
                 "    for i in range(1, n):\n"
                 "        y = y + (2 ** i - -1) * v.x if i != 1 or not flag else y + half * v.x\n"
                 "    if name == 'a':\n"
                 "        y = relu(y)\n"
                 "    elif n > 2 and flag:\n"
                 "        y = y * 1\n"
                 "    else:\n"
                 "        y = exp(y)\n"
                 "    return y\n",
                 "",
                 "%0 = input node 32\n%1 = number weight 1 0.5\n%2 = multiply node 32 %1 %0\n%3 = number weight 1 5\n"
                 "%4 = multiply node 32 %3 %0\n%5 = add node 32 %2 %4\nreturn %5\n");
}

Test(vertex_trace, arguments_of_the_job_come_before_defaults)
{
    const char *text = "def layer(v, out, heads=1, index=9, last=True):\n"
                       "    return v.x.heads(heads + index).mean_heads() if not last else v.x\n";
    expect_trace(text, "heads=4",
                 "%0 = input node 32\n%1 = heads node 4x8 %0\n%2 = mean_heads node 8 %1\nreturn %2\n");
}

Test(vertex_trace, values_of_nodes_are_those_of_the_moment)
{
    expect_trace("def layer(v, out):\n"
                 "    v.z = v.x\n"
                 "    y = sum(e.src.z for e in v.in_edges)\n"
                 "    v.z = relu(y)\n"
                 "    return sum(e.src.z for e in v.in_edges)\n",
                 "",
                 "%0 = input node 32\n%1 = source edge 32 %0\n%2 = sum node 32 %1\n%3 = relu node 32 %2\n"
                 "%4 = source edge 32 %3\n%5 = sum node 32 %4\nreturn %5\n");
}

Test(vertex_trace, a_weight_of_heads_meets_rows_of_heads)
{
    expect_trace("def layer(v, out):\n"
                 "    z = v.x.heads(4)\n"
                 "    return concat((z * param('w', 1, 4, 8)).flat(), dot(z, param('a', 4, 8)).flat()[:, 1:3])\n",
                 "",
                 "%0 = input node 32\n%1 = heads node 4x8 %0\n%2 = parameter weight 1x4x8 \"w\"\n"
                 "%3 = multiply node 4x8 %1 %2\n%4 = flat node 32 %3\n%5 = parameter weight 4x8 \"a\"\n"
                 "%6 = dot node 4x1 %1 %5\n%7 = flat node 4 %6\n%8 = columns node 2 %7 1 3\n"
                 "%9 = concat node 34 %4 %8\nreturn %9\n");
}

Test(vertex_trace, lines_go_on_within_brackets_and_comments_count_nowhere)
{
    expect_trace("# a\r\n\r\ndef layer(v, out): # b\r\n    # c\r\n  # d\r\n    return relu(\r\n  v.x # e\r\n# "
                 "f\r\n)\r\n    # g",
                 "", "%0 = input node 32\n%1 = relu node 32 %0\nreturn %1\n");
}

Test(vertex_trace, settings_are_bools_by_name)
{
    struct vertex_tree tree;
    bool value = false;
    const char *text = "self_loops = 1 < 2\nslope = 3\ndef layer(v, out):\n    return v.x\n";
    cr_assert_eq(vertex_tree_parse(text, strlen(text), "case.gnn", &tree), STATUS_OK);
    cr_expect_eq(vertex_setting(&tree, "self_loops", false, &value), STATUS_OK);
    cr_expect(value);
    cr_expect_eq(vertex_setting(&tree, "edge_weights", false, &value), STATUS_OK);
    cr_expect(!value);
    cr_expect_eq(vertex_setting(&tree, "slope", false, &value), STATUS_CONFIG);
    vertex_tree_release(&tree);
}
