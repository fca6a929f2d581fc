#include "worker/plan/feedback_list.h"

#include "protocol/base/memory.h"

#include <stdlib.h>

/* A step of each op, forward and backward, has so many pieces at most. */
#define PIECES_MOST ((1 + OP_N_BACKWARD) * HALO_N_PIECE)

int feedback_list_find(const struct feedback_list *list, int op, enum halo_direction direction, int piece)
{
    for (int p = 0; p < list->n; p++) {
        const struct feedback_rows *rows = &list->rows[p];
        if (rows->op == op && rows->direction == direction && rows->piece == piece) {
            return p;
        }
    }
    return -1;
}

/* Rows that a pass asks for are those that forward took, so that passes forward have named them. */
static void pass_add(const struct program *program, const struct step *step, struct feedback_list *out)
{
    const struct op *op = &program->op[step->op];
    for (int k = 0; k < step->halo->n_piece; k++) {
        int64_t width = halo_piece_width(program, op, step->halo, k);
        if (width == 0 || !halo_codes(program, op, step->halo->piece[k]) ||
            feedback_list_find(out, step->op, step->halo->direction, k) >= 0) {
            continue;
        }
        out->rows[out->n++] = (struct feedback_rows){.op = step->op,
                                                     .direction = step->halo->direction,
                                                     .piece = k,
                                                     .role = step->halo->piece[k],
                                                     .width = width,
                                                     .hop = halo_pass_hop(program, op, step->halo)};
    }
}

void feedback_list_build(const struct program *program, const struct step_list *train, struct feedback_list *out)
{
    *out = (struct feedback_list){0};
    if (!program->lossy.feedback) {
        return;
    }
    out->rows = memory_alloc((size_t)program->n_op * PIECES_MOST, sizeof *out->rows);
    for (int s = 0; s < train->n_step; s++) {
        const struct step *step = &train->step[s];
        if (step->kind == STEP_KIND_HALO && step->lossy && !step->stored) {
            pass_add(program, step, out);
        }
    }
}

void feedback_list_release(struct feedback_list *list)
{
    free(list->rows);
    *list = (struct feedback_list){0};
}

int64_t feedback_floats(const struct feedback_rows *rows, const struct part_halo *own)
{
    const struct part_rows made = halo_rows_out(own, rows->direction, rows->hop);
    bool returns = rows->direction == HALO_DIRECTION_RETURN;
    return (returns ? part_rows_all(&made) : part_halo_own(own, rows->hop)) * rows->width;
}

int64_t feedback_floats_next(const struct feedback_rows *rows, const struct part_halo *own)
{
    return rows->direction == HALO_DIRECTION_RETURN ? 0 : feedback_floats(rows, own);
}

int64_t feedback_list_floats(const struct feedback_list *list, const struct part_halo *own)
{
    int64_t n = 0;
    for (int p = 0; p < list->n; p++) {
        n += feedback_floats(&list->rows[p], own);
    }
    return n;
}

int64_t feedback_list_bytes(const struct feedback_list *list, const struct part_halo *own)
{
    int64_t n = feedback_list_floats(list, own);
    for (int p = 0; p < list->n; p++) {
        n += feedback_floats_next(&list->rows[p], own);
    }
    return n * (int64_t)sizeof(float);
}
