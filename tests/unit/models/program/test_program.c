#include "models/program/program.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct program program;

static void begin(void)
{
    program_init(&(struct program_input){.facts = {.n_feature = 5, .n_class = 3}}, &program);
}

static void end(void)
{
    program_release(&program);
}

TestSuite(program, .init = begin, .fini = end);

Test(program, tensors_start_on_multiples_of_16_floats_and_do_not_overlap)
{
    program_param(&program, "a", 3, 5, 1.0);
    program_param(&program, "b", 0, 16, 1.0);
    program_param(&program, "c", 0, 1, 1.0);
    program_param(&program, "d", 4, 5, 1.0);
    const int64_t offsets[] = {0, 16, 32, 48};
    for (int p = 0; p < 4; p++) {
        cr_assert_eq(program.param[p].offset, offsets[p]);
    }
    cr_assert_eq(program.n_weight, 48 + 32);
    cr_assert(program.param[0].n_dim == 2 && program.param[0].shape[0] == 3 && program.param[0].shape[1] == 5);
    cr_assert(program.param[1].n_dim == 1 && program.param[1].shape[0] == 16);
}

Test(program, what_depends_on_the_features_alone_is_static)
{
    int aggregate = program_aggregate(&program, 0, AGGREGATE_KIND_MEAN);
    int activated = program_activate(&program, aggregate, DEVICE_ACTIVATION_RELU, 0.0);
    int sum = program_add(&program, 1.0f, activated, 1.0f, 0);
    int dropped = program_activate(&program, 0, DEVICE_ACTIVATION_NONE, 0.5);
    int after_drop = program_add(&program, 1.0f, sum, 1.0f, dropped);
    int scaled = program_eps_add(&program, program_param(&program, "eps", 0, 1, 0.0), 0, sum);
    cr_assert(program.value[aggregate].is_static && program.value[activated].is_static &&
              program.value[sum].is_static);
    cr_assert(!program.value[dropped].is_static && !program.value[after_drop].is_static);
    cr_assert(!program.value[scaled].is_static, "a weight may be loaded after the static ops are done");
    for (int k = 0; k < program.n_op; k++) {
        cr_assert_eq(program.op[k].is_static, program.value[program.op[k].out].is_static);
    }
}

Test(program, gradients_are_needed_from_the_first_parameter_that_trains)
{
    int fixed = program_param(&program, "fixed", 0, 1, 0.0), weight = program_param(&program, "weight", 4, 5, 1.0);
    program.param[fixed].trains = false;
    int before = program_eps_add(&program, fixed, 0, program_aggregate(&program, 0, AGGREGATE_KIND_SUM));
    int linear = program_linear(&program, before, weight, -1);
    int after = program_activate(&program, linear, DEVICE_ACTIVATION_RELU, 0.0);
    cr_assert(!program.value[0].needs_grad && !program.value[before].needs_grad);
    cr_assert(program.value[linear].needs_grad && program.value[after].needs_grad);
    cr_assert_eq(program.logits, after);
}

Test(program, dropout_of_sparse_features_stays_sparse_and_a_linear_map_makes_them_dense)
{
    struct program sparse;
    program_init(&(struct program_input){.facts = {.n_feature = 5, .n_class = 3}, .is_sparse = true}, &sparse);
    int dropped = program_activate(&sparse, 0, DEVICE_ACTIVATION_NONE, 0.5);
    int linear = program_linear(&sparse, dropped, program_param(&sparse, "w", 2, 5, 1.0), -1);
    cr_assert(sparse.value[dropped].is_sparse && sparse.value[dropped].width == 5);
    cr_assert(!sparse.value[linear].is_sparse && sparse.value[linear].width == 2);
    program_release(&sparse);
}

Test(program, initial_weights_depend_on_seed_tensor_and_element_alone)
{
    program_param(&program, "a", 40, 50, 0.25);
    int ones = program_param(&program, "b", 0, 5, 0.0);
    program.param[ones].fill = 1.0f;
    float *first = calloc((size_t)program.n_weight, sizeof *first);
    float *other = calloc((size_t)program.n_weight, sizeof *other);
    program_init_weights(&program, 1, first);
    program_init_weights(&program, 2, other);
    double sum = 0.0, square = 0.0;
    int64_t n_same = 0;
    for (int64_t i = 0; i < 2000; i++) {
        cr_assert(first[i] >= -0.25f && first[i] <= 0.25f);
        n_same += first[i] == other[i];
        sum += first[i];
        square += (double)first[i] * first[i];
    }
    cr_assert_lt(n_same, 3);
    cr_assert(fabs(sum / 2000) < 0.01, "mean of a uniform distribution around 0");
    cr_assert(fabs(square / 2000 - 0.25 * 0.25 / 3) < 0.001, "and its variance, bound² / 3");
    cr_assert(first[program.param[ones].offset] == 1.0f && first[program.param[ones].offset + 4] == 1.0f);
    cr_assert_eq(first[program.param[ones].offset + 5], 0.0f, "padding is zero");

    int64_t n = program.n_weight;
    program_param(&program, "c", 7, 7, 1.0);
    float *more = calloc((size_t)program.n_weight, sizeof *more);
    program_init_weights(&program, 1, more);
    cr_assert_eq(memcmp(first, more, (size_t)n * sizeof *first), 0, "a new tensor leaves the others alone");
    free(more);
    free(other);
    free(first);
}

/* Columns 2, 3, 4 and 7 of 8 are nodes' own. */
Test(program, embeddings_are_drawn_as_columns_of_the_whole_weight_and_lie_outside_the_arena)
{
    const struct embedded_run run[] = {{2, 5}, {7, 8}};
    struct program_input input = {.facts = {.n_feature = 8, .n_class = 3}, .is_sparse = true};
    struct program whole, parted;
    program_init(&input, &whole);
    input.embedded = (struct embedded){2, run};
    program_init(&input, &parted);
    for (int i = 0; i < 2; i++) {
        struct program *p = i == 0 ? &whole : &parted;
        int first = program_param(p, "a", 3, 8, 0.5), bias = program_param(p, "b", 0, 3, 0.25);
        int second = program_param(p, "c", 5, 8, 1.0);
        program_linear(p, 0, first, bias);
        program_linear(p, 0, second, -1);
    }
    cr_assert_eq(parted.n_weight, 16 + 16 + 32, "3 × 4, 3, 5 × 4");
    cr_assert(parted.n_embedding == 8 && parted.param[0].embedding_at == 0 && parted.param[2].embedding_at == 3);
    cr_assert(parted.param[1].embedding_at == -1 && parted.param[1].offset == 16 && parted.param[2].offset == 32);
    cr_assert(parameter_size(&parted.param[2]) == 40 && parted.param[2].shape[1] == 8, "the tensor is what it was");
    cr_assert_eq(program_n_weight(&parted), 64 + 4 * 8);

    float all[128], arena[64], embeddings[2 * 8];
    program_init_weights(&whole, 9, all);
    program_init_weights(&parted, 9, arena);
    program_init_embeddings(&parted, 9, 2, (const uint32_t[]){7, 3}, embeddings);
    const int64_t shared[] = {0, 1, 5, 6};
    for (int p = 0; p < 3; p += 2) {
        const float *tensor = all + whole.param[p].offset, *part = embeddings + 2 * parted.param[p].embedding_at;
        int64_t f_out = whole.param[p].shape[0];
        for (int64_t r = 0; r < f_out; r++) {
            for (int64_t c = 0; c < 4; c++) {
                cr_assert_eq(arena[parted.param[p].offset + r * 4 + c], tensor[r * 8 + shared[c]]);
            }
            cr_assert_eq(part[r], tensor[r * 8 + 7]);
            cr_assert_eq(part[f_out + r], tensor[r * 8 + 3]);
        }
    }
    program_release(&whole);
    program_release(&parted);
}

Test(program, a_weight_with_rows_of_nodes_own_is_drawn_as_the_tensor_that_it_is)
{
    const struct embedded_run all = {0, 6};
    const struct program_input input = {
        .facts = {.n_feature = 6, .features_typed = true}, .is_sparse = true, .embedded = {1, &all}};
    const int64_t shape[] = {3, 6, 4};
    struct program whole, parted;
    float tensor[3 * 6 * 4], row[6 * 4], embeddings[2 * 16];
    program_init(&(struct program_input){.facts.n_feature = 6}, &whole);
    program_init(&input, &parted);
    program_tensor(&whole, "a", 3, shape, 0.5);
    program_param(&whole, "b", 6, 4, 1.0);
    int weight = program_tensor(&parted, "a", 3, shape, 0.5), root = program_param(&parted, "b", 6, 4, 1.0);
    int rows = program_node_rows(&parted, 0, weight, -1), own = program_node_rows(&parted, 0, root, -1);
    cr_assert(parted.value[rows].width == 3 * 4 && parted.value[own].width == 4);
    cr_assert(parted.n_weight == 0 && parted.n_embedding == 16 && parted.param[root].embedding_at == 12);
    cr_assert(parameter_size(&parted.param[weight]) == 72 && parted.param[root].n_dim == 2);
    float arena[112];
    program_init_weights(&whole, 9, arena);
    memcpy(tensor, arena + whole.param[0].offset, sizeof tensor);
    memcpy(row, arena + whole.param[1].offset, sizeof row);
    program_init_embeddings(&parted, 9, 2, (const uint32_t[]){5, 1}, embeddings);
    for (int64_t k = 0; k < 2; k++) {
        int64_t node = k == 0 ? 5 : 1;
        for (int64_t c = 0; c < 4; c++) {
            for (int64_t b = 0; b < 3; b++) {
                cr_assert_eq(embeddings[k * 12 + b * 4 + c], tensor[(b * 6 + node) * 4 + c]);
            }
            cr_assert_eq(embeddings[2 * 12 + k * 4 + c], row[node * 4 + c]);
        }
    }
    program_release(&whole);
    program_release(&parted);
}

Test(program, a_program_prints_as_one_line_per_op)
{
    int weight = program_param(&program, "w", 4, 5, 1.0), bias = program_param(&program, "b", 0, 4, 0.0);
    int x = program_linear(&program, program_aggregate(&program, 0, AGGREGATE_KIND_GCN), weight, bias);
    program_add(&program, 0.5f, program_activate(&program, x, DEVICE_ACTIVATION_ELU, 0.25), 2.0f, x);
    char *text;
    size_t n;
    FILE *file = open_memstream(&text, &n);
    program_print(&program, file);
    fclose(file);
    cr_assert_str_eq(text, "0 aggregate gcn v1 = v0  [5] static\n"
                           "1 linear v2 = v1, w, b  [4]\n"
                           "2 activate elu v3 = v2, dropout 0.25  [4]\n"
                           "3 add v4 = 0.5·v3 + 2·v2  [4]\n");
    free(text);
}
