/* Shared by the interpreters: lists, operands, and the printing of steps. lower.c has the lowering. */
#include "models/steps/chain.h"

#include "models/device/codec.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"

#include <stdlib.h>
#include <string.h>

void step_append(struct step_list *list, const struct step *step)
{
    list->step = memory_list_grow(list->step, list->n_step, sizeof *list->step);
    list->step[list->n_step++] = *step;
}

void step_lists_release(struct step_lists *lists)
{
    for (int phase = 0; phase < STEP_PHASE_N; phase++) {
        free(lists->phase[phase].step);
    }
    *lists = (struct step_lists){0};
}

static enum step_phase timed_phase(const struct step_lists *lists)
{
    return lists->phase[STEP_PHASE_TRAIN].n_step > 0 ? STEP_PHASE_TRAIN : STEP_PHASE_EVALUATE;
}

const struct step_list *step_lists_timed(const struct step_lists *lists)
{
    return &lists->phase[timed_phase(lists)];
}

static int times_count(struct step_list *list, int time)
{
    for (int s = 0; s < list->n_step; s++) {
        list->step[s].time = time++;
    }
    return time;
}

static void times_fill(struct step_lists *lists)
{
    const struct step_list *train = &lists->phase[STEP_PHASE_TRAIN];
    int time = times_count(&lists->phase[STEP_PHASE_STATIC], 0), next = 0;
    time = times_count(&lists->phase[timed_phase(lists)], time);
    lists->n_time = time + 1; /* and the end, which what stays reaches */
    if (train->n_step == 0) {
        return;
    }
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

void step_lists_finish(const struct program *program, struct step_lists *lists)
{
    times_fill(lists);
    for (int phase = 0; phase < STEP_PHASE_N; phase++) {
        chains_mark(program, &lists->phase[phase]);
    }
}

void step_offload(const struct program *program, enum step_kind kind, const struct step_operand *array,
                  struct step *out)
{
    int op = array->array == STEP_ARRAY_VALUE ? (int)(program_maker(program, array->index) - program->op)
                                              : array->index;
    *out = (struct step){
        .kind = kind, .op = op, .backward = kind >= STEP_KIND_FETCH, .n_operand = 1, .operand = {*array}};
    out->operand[0].access = kind == STEP_KIND_FETCH ? STEP_ACCESS_WRITE : STEP_ACCESS_READ;
    out->operand[0].packing = false;
    out->operand[0].running = true;
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

bool step_operand_is_same(const struct step_operand *a, const struct step_operand *b)
{
    return a->array == b->array && a->index == b->index && a->k == b->k;
}

int step_span(const struct step *step)
{
    return step->n_chain > 1 ? step->n_chain : 1;
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

bool step_operand_is_bf16(const struct program *program, const struct step_operand *operand)
{
    switch (operand->array) {
    case STEP_ARRAY_VALUE:
        return program->value[operand->index].is_bf16;
    case STEP_ARRAY_GRAD:
        return operand->element == STEP_ELEMENT_BF16 || program->value[operand->index].grad_is_bf16;
    default:
        return false;
    }
}

int64_t step_operand_row_bytes(const struct program *program, const struct step_operand *operand)
{
    bool bf16 = step_operand_is_bf16(program, operand);
    return codec_stored_bytes(bf16, step_operand_width(program, operand));
}

const char *step_kind_name(enum step_kind kind)
{
    static const char *const names[STEP_KIND_N] = {
        [STEP_KIND_FORWARD] = "forward",   [STEP_KIND_PARTIAL] = "partial", [STEP_KIND_TOTAL] = "total",
        [STEP_KIND_HALO] = "halo",         [STEP_KIND_BEGIN] = "begin",     [STEP_KIND_JOIN] = "join",
        [STEP_KIND_BACKWARD] = "backward", [STEP_KIND_LOSS] = "loss",       [STEP_KIND_SCORE] = "score",
        [STEP_KIND_REDUCE] = "reduce",     [STEP_KIND_UPDATE] = "update",   [STEP_KIND_STORE] = "store",
        [STEP_KIND_STORED] = "stored",     [STEP_KIND_FETCH] = "fetch",     [STEP_KIND_FETCHED] = "fetched",
    };
    return names[kind];
}

/* --- how a step is printed --- */

/* An op by its name in PyTorch Geometric. */
static void op_name_print(const struct op *op, FILE *file)
{
    static const char *const activations[] = {[DEVICE_ACTIVATION_NONE] = "",
                                              [DEVICE_ACTIVATION_RELU] = "ReLU",
                                              [DEVICE_ACTIVATION_ELU] = "ELU",
                                              [DEVICE_ACTIVATION_LEAKY_RELU] = "LeakyReLU",
                                              [DEVICE_ACTIVATION_GELU] = "GELU"};
    if (op->kind == OP_KIND_ACTIVATE) {
        const char *name = op_is_cast(op) ? "Cast" : activations[op->activation];
        fprintf(file, "%s%s%s", name, *name != '\0' && op->dropout > 0.0 ? " + " : "",
                op->dropout > 0.0 ? "Dropout" : "");
        return;
    }
    fputs(op->kind == OP_KIND_AGGREGATE ? aggregate_defs[op->aggregate]->title : op_defs[op->kind]->title, file);
}

static const char *first_param(const struct program *program, const struct op *op)
{
    for (int k = 0; k < OP_N_PARAM; k++) {
        if (op->param[k] >= 0) {
            return program->param[op->param[k]].name;
        }
    }
    return NULL;
}

/* The first op that reads a value; NULL: no op does. */
static const struct op *reader(const struct program *program, int value)
{
    for (int i = 0; i < program->n_op; i++) {
        for (int k = 0; k < OP_N_IN; k++) {
            if (program->op[i].in[k] == value) {
                return &program->op[i];
            }
        }
    }
    return NULL;
}

/* A parameter of the layer that an aggregate without parameters belongs to; NULL: it belongs to no layer. Attention
 * has the layer of its keys; others that of the linear map before them, or of the bias or linear map after them. */
static const char *layer_param(const struct program *program, const struct op *op)
{
    bool attends = op->in[1] >= 0;
    const struct op *before = program_maker(program, op->in[attends ? 1 : 0]);
    while (attends && before != NULL && first_param(program, before) == NULL) {
        before = program_maker(program, before->in[0]);
    }
    const char *name = before != NULL && (attends || before->kind == OP_KIND_LINEAR) ? first_param(program, before)
                                                                                     : NULL;
    if (attends || name != NULL) {
        return name != NULL && strncmp(name, "conv", strlen("conv")) == 0 ? name : NULL;
    }
    const struct op *behind = reader(program, op->out);
    while (behind != NULL && first_param(program, behind) == NULL) {
        behind = behind->kind != OP_KIND_ACTIVATE ? reader(program, behind->out) : NULL;
    }
    return behind != NULL ? first_param(program, behind) : NULL;
}

/* "convs.0.lin" of "convs.0.lin.weight", "convs.0.att_src" of itself; of a layer's other ops "convs.0". */
static void module_print(const struct program *program, const struct op *op, FILE *file)
{
    const char *name = first_param(program, op);
    if (name != NULL) {
        const char *dot = strrchr(name, '.');
        bool plain = dot != NULL && (strcmp(dot, ".weight") == 0 || strcmp(dot, ".bias") == 0);
        fprintf(file, "  %.*s", plain ? (int)(dot - name) : (int)strlen(name), name);
        return;
    }
    name = op->kind == OP_KIND_AGGREGATE ? layer_param(program, op) : NULL;
    if (name != NULL) {
        const char *first = strchr(name, '.'), *second = first != NULL ? strchr(first + 1, '.') : NULL;
        bool numbered = second != NULL && first[1] >= '0' && first[1] <= '9';
        fprintf(file, "  %.*s",
                (int)((numbered        ? second
                       : first != NULL ? first
                                       : name + strlen(name)) -
                      name),
                name);
    }
}

void step_print(const struct program *program, const struct step *step, FILE *file)
{
    static const char *const passes[] = {"forward", "backward", "backward 2"};
    static const char *const whole[STEP_KIND_N] = {[STEP_KIND_LOSS] = "loss",
                                                   [STEP_KIND_SCORE] = "scores",
                                                   [STEP_KIND_REDUCE] = "reduce sums over parts",
                                                   [STEP_KIND_UPDATE] = "optimizer step"};
    if (step->op < 0) {
        fputs(whole[step->kind], file);
        return;
    }
    const char *kind = step->recomputed ? "recompute" : step_kind_name(step->kind);
    if (step->kind == STEP_KIND_HALO) {
        fprintf(file, "%s %s  ", kind, passes[step->pass]);
    } else {
        bool sums = step->kind == STEP_KIND_PARTIAL || step->kind == STEP_KIND_TOTAL;
        fprintf(file, "%s%s  ", kind, !sums ? "" : step->backward ? " backward" : " forward");
    }
    op_name_print(&program->op[step->op], file);
    for (int k = 0; k < step->n_epilogue; k++) {
        fputs(" + ", file);
        op_name_print(&program->op[step->epilogue[k]], file);
    }
    module_print(program, &program->op[step->op], file);
}

void step_text(const struct program *program, const struct step *step, char *out, size_t n_bytes)
{
    FILE *file = fmemopen(out, n_bytes, "w");
    ASSERT(file != NULL);
    setvbuf(file, NULL, _IOFBF, BUFSIZ);
    step_print(program, step, file);
    fclose(file);
    out[n_bytes - 1] = '\0';
}
