/* Tile programs of texts: what forward computes, and the adjoints that are made of it. */
#include "models/program/program.h"
#include "protocol/job/job.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct job job;

/* The tiles of the text's last op. */
static void expect_tiles(const char *text, int n, const char *expected)
{
    const struct program_input input = {.n_feature = 4, .n_class = 4};
    struct program program;
    char *printed = NULL;
    size_t n_bytes = 0;
    job_defaults(&job);
    job.model.kind = JOB_KIND_PROGRAM;
    job.model.layers = 1;
    strcpy(job.program.text, text);
    cr_assert_eq(job_program_check(&job, "case.gnn"), STATUS_OK, "%s", status_reason());
    cr_assert_eq(program_build(&job, &input, &program), STATUS_OK, "%s", status_reason());
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
