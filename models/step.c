/* The interpreters' common tools: lists, operands, and how a step is printed. Lowering is in lower.c. */
#include "models/step.h"

#include "protocol/log.h"
#include "protocol/memory.h"

#include <stdlib.h>
#include <string.h>

void step_append(struct step_list *list, const struct step *step)
{
    if ((list->n_step & (list->n_step - 1)) == 0) { /* grow to the next power of two */
        struct step *grown = memory_alloc(2 * (size_t)list->n_step + 1, sizeof *grown);
        if (list->n_step > 0) {
            memcpy(grown, list->step, (size_t)list->n_step * sizeof *grown);
        }
        free(list->step);
        list->step = grown;
    }
    list->step[list->n_step++] = *step;
}

void step_lists_release(struct step_lists *lists)
{
    for (int phase = 0; phase < STEP_PHASE_N; phase++) {
        free(lists->phase[phase].step);
    }
    *lists = (struct step_lists){0};
}

void step_lists_time(struct step_lists *lists)
{
    const struct step_list *train = &lists->phase[STEP_PHASE_TRAIN];
    int time = 0, next = 0;
    for (int phase = STEP_PHASE_STATIC; phase <= STEP_PHASE_TRAIN; phase++) {
        for (int s = 0; s < lists->phase[phase].n_step; s++) {
            lists->phase[phase].step[s].time = time++;
        }
    }
    lists->n_time = time + 1; /* and the end, which what stays reaches */
    for (int s = 0; s < lists->phase[STEP_PHASE_EVALUATE].n_step; s++) {
        struct step *step = &lists->phase[STEP_PHASE_EVALUATE].step[s];
        /* Training has the same steps forward in the same order, and then the loss. */
        bool forward = step->kind != STEP_KIND_SCORE && step->kind != STEP_KIND_REDUCE;
        while (train->step[next].kind != STEP_KIND_LOSS &&
               (!forward || train->step[next].kind != step->kind || train->step[next].op != step->op)) {
            next++;
        }
        step->time = train->step[next].time;
    }
}

const struct step_operand *step_operand(const struct step *step, enum op_role role)
{
    for (int k = 0; k < step->n_operand; k++) {
        if (step->operand[k].role == role) {
            return &step->operand[k];
        }
    }
    return NULL;
}

int64_t step_operand_width(const struct program *program, const struct step_operand *operand)
{
    switch (operand->array) {
    case STEP_ARRAY_VALUE:
    case STEP_ARRAY_GRAD:
        return program->value[operand->index].width;
    case STEP_ARRAY_SAVED:
        return op_saved_width(program, &program->op[operand->index], operand->k);
    case STEP_ARRAY_FRESH:
        return program->value[program->op[operand->index].in[operand->k]].width;
    default:
        return 0;
    }
}

const char *step_kind_name(enum step_kind kind)
{
    static const char *const names[STEP_KIND_N] = {
        [STEP_KIND_FORWARD] = "forward",   [STEP_KIND_PARTIAL] = "partial", [STEP_KIND_TOTAL] = "total",
        [STEP_KIND_HALO] = "halo",         [STEP_KIND_BEGIN] = "begin",     [STEP_KIND_JOIN] = "join",
        [STEP_KIND_BACKWARD] = "backward", [STEP_KIND_LOSS] = "loss",       [STEP_KIND_SCORE] = "score",
        [STEP_KIND_REDUCE] = "reduce",     [STEP_KIND_UPDATE] = "update",
    };
    return names[kind];
}

/* "convs.0.lin" of "convs.0.lin.weight": the module that has the op's first parameter. */
static void module_print(const struct program *program, const struct op *op, FILE *file)
{
    for (int k = 0; k < OP_N_PARAM; k++) {
        if (op->param[k] >= 0) {
            const char *name = program->param[op->param[k]].name, *dot = strrchr(name, '.');
            fprintf(file, "  %.*s", dot != NULL ? (int)(dot - name) : (int)strlen(name), name);
            return;
        }
    }
}

void step_print(const struct program *program, const struct step *step, FILE *file)
{
    fputs(step->recomputed ? "recompute" : step_kind_name(step->kind), file);
    if (step->op < 0) {
        return;
    }
    const struct op *op = &program->op[step->op];
    bool aggregate = op->kind == OP_KIND_AGGREGATE;
    if (step->kind == STEP_KIND_HALO) {
        fputs(!step->backward ? " forward" : step->pass == 1 ? " backward" : " backward 2", file);
    }
    fprintf(file, " %s", aggregate ? aggregate_defs[op->aggregate]->name : op_defs[op->kind]->name);
    module_print(program, op, file);
}
