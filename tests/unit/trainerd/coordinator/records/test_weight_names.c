/* [model.names] applied to a model's tensors. */
#include "tests/support/process/expect.h"
#include "trainerd/coordinator/records/weight_names.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct program program;

static void begin(void)
{
    program_init(&(struct program_input){.facts = {.n_feature = 7, .n_class = 2}}, &program);
    program_param(&program, "convs.0.lin.weight", 4, 7, 1.0);
    program_param(&program, "convs.0.bias", 0, 4, 1.0);
    program_param(&program, "convs.10.lin.weight", 2, 4, 1.0);
    program_param(&program, "norms.0.weight", 0, 4, 1.0);
}

static void end(void)
{
    program_release(&program);
}

TestSuite(weight_names, .init = begin, .fini = end);

#define NAMES(...)                                                                                                   \
    &(struct job_names)                                                                                              \
    {                                                                                                                \
        .n = sizeof((struct job_name[]){__VA_ARGS__}) / sizeof(struct job_name), .of = { __VA_ARGS__ }               \
    }

static void expect_names(const struct job_names *names, const char *const want[4])
{
    struct weight_name *found;
    expect_done(weight_names_find(&program, names, &found));
    for (int i = 0; i < 4; i++) {
        cr_expect_str_eq(found[i].text, want[i]);
        cr_expect_not(found[i].transposed);
    }
    free(found);
}

Test(weight_names, without_rows_are_the_tensors_own)
{
    expect_names(&(struct job_names){.n = 0}, (const char *const[]){"convs.0.lin.weight", "convs.0.bias",
                                                                    "convs.10.lin.weight", "norms.0.weight"});
}

Test(weight_names, a_row_renames_a_module_a_tensor_or_every_layers)
{
    expect_names(NAMES({"convs.0", "conv1"}, {"convs.10", "7"}),
                 (const char *const[]){"conv1.lin.weight", "conv1.bias", "7.lin.weight", "norms.0.weight"});
    expect_names(NAMES({"convs.*", "layers.*.conv"}, {"norms.*.weight", "layers.*.scale"}),
                 (const char *const[]){"layers.0.conv.lin.weight", "layers.0.conv.bias", "layers.10.conv.lin.weight",
                                       "layers.0.scale"});
    expect_names(NAMES({"convs.0", ""}),
                 (const char *const[]){"lin.weight", "bias", "convs.10.lin.weight", "norms.0.weight"});
    expect_names(NAMES({"*", "model.*"}), (const char *const[]){"model.convs.0.lin.weight", "model.convs.0.bias",
                                                                "model.convs.10.lin.weight", "model.norms.0.weight"});
}

Test(weight_names, of_several_rows_the_longest_counts_then_the_one_without_a_star)
{
    expect_names(NAMES({"convs.*.lin", "lins.*"}, {"convs.0", "first"}, {"convs.*", "gnn*"}),
                 (const char *const[]){"lins.0.weight", "first.bias", "lins.10.weight", "norms.0.weight"});
    expect_names(NAMES({"convs.0", "first"}, {"convs.*", "gnn*"}),
                 (const char *const[]){"first.lin.weight", "first.bias", "gnn10.lin.weight", "norms.0.weight"});
}

Test(weight_names, a_whole_matrix_may_be_transposed)
{
    struct weight_name *found;
    expect_done(weight_names_find(&program, NAMES({"convs.*.lin.weight", "convs.*.weight.T"}), &found));
    cr_assert(found[0].transposed && found[2].transposed && !found[1].transposed);
    cr_assert_str_eq(found[0].text, "convs.0.weight");
    free(found);
    expect_names(NAMES({"convs.0", "module.T"}), (const char *const[]){"module.T.lin.weight", "module.T.bias",
                                                                       "convs.10.lin.weight", "norms.0.weight"});
    expect_fails(weight_names_find(&program, NAMES({"convs.0.bias", "b.T"}), &found), STATUS_CONFIG,
                 "\"convs.0.bias\" = \"b.T\" transposes tensor 'convs.0.bias', which has 1 dimensions: expected 2");
}

Test(weight_names, each_row_that_fits_nothing_is_named_with_the_nearest_name)
{
    struct weight_name *found;
    expect_fails(weight_names_find(&program, NAMES({"conv.0", "a"}, {"convs.1.lin.weigth", "b"}), &found),
                 STATUS_CONFIG, "the model has no tensor 'conv.0'; did you mean 'convs.0'?");
    expect_reason("the model has no tensor 'convs.1.lin.weigth'; did you mean 'convs.0.lin.weight'?");
    cr_assert_null(found);
    expect_fails(weight_names_find(&program, NAMES({"convs.0.lin.weight.x", "a"}), &found), STATUS_CONFIG,
                 "no tensor 'convs.0.lin.weight.x'");
    expect_fails(weight_names_find(&program, NAMES({"embedding", "a"}), &found), STATUS_CONFIG,
                 "no tensor 'embedding'");
}

Test(weight_names, two_tensors_of_one_name_are_refused)
{
    struct weight_name *found;
    expect_fails(weight_names_find(&program, NAMES({"convs.0.lin", "a"}, {"convs.10.lin", "a"}), &found),
                 STATUS_CONFIG, "both 'convs.0.lin.weight' and 'convs.10.lin.weight' would be 'a.weight'");
}
