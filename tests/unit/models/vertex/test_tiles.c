/* Tile programs of texts: what forward computes, and the adjoints that are made of it. */
#include "models/program/program.h"
#include "protocol/job/job.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct job job;

static struct program program_of(const char *text)
{
    const struct program_input input = {.facts = {.n_feature = 4, .n_class = 4}};
    struct program program;
    job_defaults(&job);
    job.model.kind = JOB_KIND_PROGRAM;
    job.model.layers = 1;
    strcpy(job.program.text, text);
    cr_assert_eq(job_program_check(&job, "case.gnn", true), STATUS_OK, "%s", status_reason());
    cr_assert_eq(program_build(&job, &input, &program), STATUS_OK, "%s", status_reason());
    return program;
}

/* The tiles of the text's last op. */
static void expect_tiles(const char *text, int n, const char *expected)
{
    struct program program = program_of(text);
    char *printed = NULL;
    size_t n_bytes = 0;
    FILE *file = open_memstream(&printed, &n_bytes);
    for (int k = program.n_tile - n; k < program.n_tile; k++) {
        fprintf(file, "%d\n", k - (program.n_tile - n));
        tile_print(&program.tile[k], file);
    }
    fclose(file);
    cr_expect_str_eq(printed, expected, "%s\n%s", text, printed);
    free(printed);
    program_release(&program);
}

Test(tiles, a_gate_has_adjoints_for_both_ends)
{
    expect_tiles("def layer(v, out):\n    v.h = linear('h', v.x, out)\n"
                 "    return sum(sigmoid(e.dst.h + e.src.h) * e.src.h for e in v.in_edges)\n",
                 3,
                 "0\n"
                 "r0 = add 1x4 in2[0] in0[0]\n"
                 "r16 = sigmoid 1x4 r0\n"
                 "out[0] = sum r16 x4 in0[0] x4\n"
                 "1\n"
                 "r0 = add 1x4 in2[0] in0[0]\n"
                 "r16 = sigmoid 1x4 r0\n"
                 "r0 = multiply 1x4 grad[0] in0[0]\n"
                 "r32 = sigmoid_back 1x4 r0 r16\n"
                 "grad_in2[0] = sum r32 x4\n"
                 "2\n"
                 "r0 = add 1x4 in2[0] in0[0]\n"
                 "r16 = sigmoid 1x4 r0\n"
                 "r0 = multiply 1x4 grad[0] in0[0]\n"
                 "r32 = multiply 1x4 grad[0] r16\n"
                 "r48 = sigmoid_back 1x4 r0 r16\n"
                 "r0 = add 1x4 r32 r48\n"
                 "grad_in0[0] = sum r0 x4\n");
}

Test(tiles, rows_have_one_adjoint_for_inputs_and_weights)
{
    expect_tiles("def layer(v, out):\n    v.h = linear('h', v.x, out)\n    return v.h * v.h * param('w', out)\n", 2,
                 "0\n"
                 "r0 = multiply 1x4 in0[0] in0[0]\n"
                 "out[0] = sum r0 x4 w0[0] x4\n"
                 "1\n"
                 "r0 = multiply 1x4 in0[0] in0[0]\n"
                 "r16 = multiply 1x4 grad[0] w0[0]\n"
                 "r32 = multiply 1x4 grad[0] r0\n"
                 "r0 = multiply 1x4 r16 in0[0]\n"
                 "r48 = multiply 1x4 r16 in0[0]\n"
                 "r16 = add 1x4 r0 r48\n"
                 "grad_w0[0] = sum r32 x4\n"
                 "grad_in0[0] = sum r16 x4\n");
}

/* Columns of the aggregates of edges, in their order. P: abs(e.src.h * e.dst.k), a common message. */
static void expect_aggregates(const char *lines, const char *expected)
{
    char text[1024] = "def layer(v, out):\n    v.h = linear('h', v.x, out)\n    v.k = linear('k', v.x, out)\n",
         found[128] = "";
    for (const char *c = lines; *c != 0; c++) {
        const char one[] = {*c, 0};
        strcat(text, *c == 'P' ? "abs(e.src.h * e.dst.k) for e in v.in_edges" : one);
    }
    struct program program = program_of(text);
    for (int o = 0; o < program.n_op; o++) {
        const struct op *op = &program.op[o];
        if (op->kind == OP_KIND_AGGREGATE && op->aggregate >= AGGREGATE_KIND_EDGES) {
            sprintf(strchr(found, 0), "%d ", (int)program.value[op->out].width);
        }
    }
    cr_expect_str_eq(found, expected, "%s", text);
    program_release(&program);
}

Test(tiles, reductions_that_read_a_common_row_are_one_aggregate)
{
    expect_aggregates("    return mean(P) + max(P) * min(P)\n", "12 ");
    expect_aggregates("    return sum(P) + max(e.src.h * e.dst.k for e in v.in_edges)\n", "8 "); /* e.src.h */
    expect_aggregates("    return sum(P) + max(e.src.k * e.dst.h for e in v.in_edges)\n", "4 4 ");
    expect_aggregates("    return sum(P) + mean(P) + max(P)\n", "8 4 "); /* not scaled alike */
    expect_aggregates("    v.m = mean(P)\n    return v.m + max(abs(e.src.h - e.dst.m) for e in v.in_edges)\n",
                      "4 4 ");
    expect_aggregates(
        "    v.m = mean(P)\n    v.n = max(abs(e.src.h - e.dst.m) for e in v.in_edges)\n    return v.n + min(P)\n",
        "8 4 ");
    expect_aggregates(
        "    return var(P) + var(abs(e.src.h - e.dst.k) for e in v.in_edges)\n", /* two means, and two behind them */
        "8 8 ");
    expect_aggregates("    return sum(softmax(e.src.h * e.dst.k) * e.src.h for e in v.in_edges) + sum(P)\n", "4 4 ");
}
