/* Tensors in one piece and in the pieces that a job has them in. */
#include "tests/support/process/folder.h"
#include "trainerd/coordinator/records/weights.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(weights, .init = folder_make, .fini = folder_remove);

static const struct embedded_run runs[] = {{1, 3}, {5, 7}};
static const uint32_t columns[2][2] = {{6, 1}, {2, 5}}; /* of two parts' nodes */

/* Weights of 4 × 7 and 2 × 7 over features, and a bias. */
static void build(struct embedded embedded, struct program *out)
{
    program_init(
        &(struct program_input){.facts = {.n_feature = 7, .n_class = 2}, .is_sparse = true, .embedded = embedded},
        out);
    int first = program_param(out, "first", 4, 7, 1.0), bias = program_param(out, "bias", 0, 4, 1.0);
    int second = program_param(out, "second", 2, 7, 1.0);
    program_linear(out, 0, first, bias);
    program_linear(out, 0, second, -1);
}

/* Save from pieces, as a job draws them. */
static void save_pieces(const struct program *program, const char *name)
{
    struct weights weights;
    struct dir dir;
    float room[2 * 6];
    cr_assert_eq(weights_open(program, &weights), STATUS_OK);
    program_init_weights(program, 3, weights.arena);
    weights_take(&weights);
    for (int part = 0; part < 2 && program->n_embedding > 0; part++) {
        program_init_embeddings(program, 3, 2, columns[part], room);
        weights_copy_embeddings(&weights, 2, columns[part], room, false);
    }
    cr_assert_eq(dir_open(folder, DIR_LAST_NO_LINK, &dir), STATUS_OK);
    cr_assert_eq(weights_save(&weights, &dir, name), STATUS_OK, "%s", status_reason());
    dir_close(&dir);
    weights_close(&weights);
}

Test(weights, a_file_does_not_tell_whether_columns_lived_with_parts)
{
    struct program whole, parted;
    char bytes[2][1024] = {{0}};
    build((struct embedded){.n_run = 0}, &whole);
    build((struct embedded){2, runs}, &parted);
    cr_assert(whole.n_embedding == 0 && parted.n_embedding == 6);
    save_pieces(&whole, "whole");
    save_pieces(&parted, "parted");
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(folder_path(i == 0 ? "whole" : "parted"), "r");
        cr_assert_gt(fread(bytes[i], 1, sizeof bytes[i], file), 200);
        fclose(file);
    }
    cr_assert_eq(memcmp(bytes[0], bytes[1], sizeof bytes[0]), 0);
    program_release(&whole);
    program_release(&parted);
}

Test(weights, what_is_read_comes_apart_into_the_pieces_it_was_made_of)
{
    struct program program;
    struct weights weights;
    build((struct embedded){2, runs}, &program);
    save_pieces(&program, "weights");
    cr_assert_eq(weights_open(&program, &weights), STATUS_OK);
    cr_assert_eq(weights_load(&weights, folder_path("weights"), &(struct job_names){0}), STATUS_OK, "%s",
                 status_reason());
    float arena[64], piece[2][12];
    cr_assert_leq(program.n_weight, 64);
    program_init_weights(&program, 3, arena);
    cr_assert_arr_eq(weights.arena, arena, (size_t)program.n_weight * sizeof *arena);
    for (int part = 0; part < 2; part++) {
        program_init_embeddings(&program, 3, 2, columns[part], piece[0]);
        weights_copy_embeddings(&weights, 2, columns[part], piece[1], true);
        cr_assert_arr_eq(piece[1], piece[0], sizeof piece[0]);
    }
    weights_close(&weights);
    program_release(&program);
}
