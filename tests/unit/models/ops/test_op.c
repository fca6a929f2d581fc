#include "models/program/op.h"

#include <criterion/criterion.h>
#include <math.h>

static struct program program;

static void begin(void)
{
    program_init(&(struct program_input){.facts = {.n_feature = 4, .n_class = 4}}, &program);
    program_param(&program, "weight", 4, 4, 1.0);
    program_param(&program, "vector", 0, 4, 1.0);
    program_param(&program, "eps", 0, 1, 0.0);
    program_param(&program, "running_mean", 0, 4, 0.0);
    program_param(&program, "running_var", 0, 4, 0.0);
}

static void end(void)
{
    program_release(&program);
}

TestSuite(op_table, .init = begin, .fini = end);

static const struct op *last(void)
{
    return &program.op[program.n_op - 1];
}

static bool reads_in(int k)
{
    return (op_backward_reads(&program, last()) & (OP_ROLES(IN_0) << k)) != 0;
}

static void saves(bool in, bool out)
{
    cr_assert_eq(reads_in(0), in, "%s", op_defs[last()->kind]->name);
    cr_assert_eq((op_backward_reads(&program, last()) & OP_ROLES(OUT)) != 0, out, "%s", op_defs[last()->kind]->name);
}

Test(op_table, every_op_and_aggregate_has_a_name_and_its_functions)
{
    for (int k = 0; k < OP_KIND_N; k++) {
        cr_assert_not_null(op_defs[k]->name);
        cr_assert(op_defs[k]->title != NULL || k == OP_KIND_AGGREGATE, "%s", op_defs[k]->name);
        cr_assert_eq(op_defs[k]->forward != NULL, k != OP_KIND_AGGREGATE);
        cr_assert_eq(op_defs[k]->backward != NULL, k != OP_KIND_AGGREGATE);
    }
    for (int k = 0; k < AGGREGATE_KIND_N; k++) {
        const struct aggregate_def *def = aggregate_defs[k];
        cr_assert(def->name != NULL && def->title != NULL && def->forward.run != NULL &&
                  def->backward[0].run != NULL);
        cr_assert_eq(aggregate_returns(&(struct program){0}, (enum aggregate_kind)k), def->backward[0].pack != NULL);
    }
}

Test(op_table, backward_saves_no_more_than_it_reads)
{
    int x = program_linear(&program, 0, 0, 1);
    saves(true, false);
    int bias = program_bias(&program, x, 1);
    saves(false, false);
    program_activate(&program, bias, DEVICE_ACTIVATION_RELU, 0.5);
    saves(false, true);
    program_activate(&program, bias, DEVICE_ACTIVATION_ELU, 0.0);
    saves(false, true);
    program_activate(&program, bias, DEVICE_ACTIVATION_GELU, 0.0);
    saves(true, false);
    program_activate(&program, bias, DEVICE_ACTIVATION_NONE, 0.5);
    saves(false, false);
    int norm = program_layer_norm(&program, bias, 1, 1);
    saves(true, false);
    cr_assert_eq(op_defs[OP_KIND_LAYER_NORM]->saved_width(&program, last()), 2);
    program_batch_norm(&program, bias, 1, 1, 3, 4);
    saves(true, false);
    cr_assert_eq(op_defs[OP_KIND_BATCH_NORM]->global->n_statistics(&program, last()), 2 * 4 + 1 + 2 * 4);
    program_add(&program, 1.0f, norm, 1.0f, x);
    saves(false, false);
    program_concat(&program, (int[]){norm, x, bias}, 3);
    saves(false, false);
    program_max(&program, norm, x);
    saves(true, true);
    cr_assert_not(reads_in(1));
    int inverse = program_inverse_norm(&program, norm);
    saves(true, true);
    program_row_scale(&program, norm, inverse);
    saves(true, false);
    cr_assert(reads_in(1), "the rows' gradient needs their numbers");
    program_eps_add(&program, 2, norm, x);
    saves(true, false);
    program.param[2].trains = false;
    program_eps_add(&program, 2, norm, x);
    saves(false, false);
}

Test(op_table, cosine_attention_sends_one_number_beside_a_row_and_two_beside_a_gradient_and_a_query)
{
    int x = program_linear(&program, 0, 0, -1), inverse = program_inverse_norm(&program, x);
    struct op op = {.aggregate = AGGREGATE_KIND_COSINE,
                    .in = {x, inverse, program_row_scale(&program, x, inverse)},
                    .param = {-1, -1},
                    .n_head = 1};
    program_attention(&program, &op);
    const struct aggregate_def *def = aggregate_defs[AGGREGATE_KIND_COSINE];
    int64_t f = program.value[x].width;
    cr_assert_eq(halo_payload_width(&program, last(), &def->forward), f + 1);
    cr_assert_eq(halo_payload_width(&program, last(), &def->backward[0]), f + 1);
    cr_assert_eq(halo_payload_width(&program, last(), &def->backward[1]), 2 * f + 2);
}

Test(op_table, an_op_before_every_parameter_saves_nothing)
{
    program_activate(&program, 0, DEVICE_ACTIVATION_RELU, 0.5);
    saves(false, false);
    program_activate(&program, 0, DEVICE_ACTIVATION_GELU, 0.0);
    saves(false, false);
}

Test(op_table, scales_count_the_implicit_loop_and_are_finite_for_lonely_nodes)
{
    float (*gcn)(double, bool) = aggregate_defs[AGGREGATE_KIND_GCN]->scale;
    float (*mean)(double, bool) = aggregate_defs[AGGREGATE_KIND_MEAN]->scale;
    cr_assert(gcn(0, false) == 0.0f && gcn(0, true) == 1.0f && gcn(3, true) == 0.5f && gcn(4, false) == 0.5f);
    cr_assert(mean(0, false) == 1.0f && mean(1, false) == 1.0f && mean(4, false) == 0.25f && mean(3, true) == 0.25f);
    cr_assert(gcn(UINT32_MAX, true) == 0x1p-16f, "the degree does not wrap");
}
