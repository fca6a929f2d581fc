/* What one aggregate of edges makes: a sum with the softmax that weighs it, or several reductions that read a common
 * row of the source, so that this row travels, and what they have in common is computed, once.
 */
#include "models/vertex/generate.h"

#include "protocol/base/memory.h"

#include <stdlib.h>

/* --- a softmax that is a factor of a sum --- */

/* Is each number of `from` repeated for as many of `to`, side by side? */
static bool is_repeated(const struct vertex_shape *from, const struct vertex_shape *to)
{
    int64_t head[2], column[2];
    generation_shape(from, &head[0], &column[0]);
    generation_shape(to, &head[1], &column[1]);
    return (head[0] == head[1] && (column[0] == 1 || column[0] == column[1])) || (head[0] == 1 && column[0] == 1);
}

/* Is the operation a multiple of its operand k, number by number? */
static bool is_multiple_of(const struct walk *w, int32_t op, int k)
{
    const struct vertex_op *of = walk_at(w, op);
    switch (of->kind) {
    case VERTEX_OP_DROPOUT:
    case VERTEX_OP_FLAT:
    case VERTEX_OP_HEADS:
        return k == 0;
    case VERTEX_OP_DIVIDE:
    case VERTEX_OP_MULTIPLY:
        return (k == 0 || of->kind == VERTEX_OP_MULTIPLY) && is_repeated(&walk_at(w, of->in[k])->shape, &of->shape);
    default:
        return false;
    }
}

int32_t walk_softmax(const struct walk *w, int32_t op)
{
    enum { ONCE = 1, OFTEN };
    char *n_path = memory_alloc((size_t)op + 1, sizeof *n_path);
    bool *multiple = memory_alloc((size_t)op + 1, sizeof *multiple), norm = false;
    int32_t out = -1;
    n_path[op] = ONCE;
    multiple[op] = true;
    for (int32_t i = op; i >= 0; i--) {
        const struct vertex_op *of = walk_at(w, i);
        if (n_path[i] == 0 || of->place != VERTEX_PLACE_EDGE) {
            continue;
        }
        norm = norm || of->kind == VERTEX_OP_EDGE_NORM;
        out = out < 0 && of->kind == VERTEX_OP_SOFTMAX && n_path[i] == ONCE && multiple[i] ? i : out;
        for (int k = 0; k < VERTEX_N_IN; k++) {
            const int32_t in = of->in[k];
            if (in >= 0) {
                multiple[in] = n_path[in] == 0 && multiple[i] && is_multiple_of(w, i, k);
                n_path[in] = n_path[in] == 0 ? n_path[i] : OFTEN;
            }
        }
    }
    free(n_path);
    free(multiple);
    return norm ? -1 : out;
}

/* --- reductions of a common row --- */

static bool is_reduction(const struct walk *w, int32_t op)
{
    const enum vertex_op_kind kind = walk_at(w, op)->kind;
    return kind == VERTEX_OP_SUM || kind == VERTEX_OP_MEAN || kind == VERTEX_OP_MAX || kind == VERTEX_OP_MIN;
}

/* What a group's members have to do with the trace's operations. */
struct kin {
    bool *below; /* a member depends on it */
    bool *above; /* it depends on a member, or on a group that waits for this one */
    bool *reads; /* of edges: it reads a row of the source that a member reads */
};

/* Mark an operation, and what it depends on; of_edges: on the way through edges alone. */
static void below_mark(const struct walk *w, int32_t op, bool of_edges, bool *below)
{
    below[op] = true;
    for (int32_t i = op; i >= 0; i--) {
        const bool goes_on = below[i] && (!of_edges || walk_at(w, i)->place == VERTEX_PLACE_EDGE);
        for (int k = 0; k < VERTEX_N_IN && goes_on; k++) {
            if (walk_at(w, i)->in[k] >= 0) {
                below[walk_at(w, i)->in[k]] = true;
            }
        }
    }
}

static void kin_add(const struct walk *w, int32_t member, struct kin *kin)
{
    const int32_t n = w->trace->n_op;
    bool *edge = memory_alloc((size_t)n, sizeof *edge);
    below_mark(w, member, false, kin->below);
    below_mark(w, walk_at(w, member)->in[0], true, edge);
    for (int32_t i = 0; i < n; i++) {
        kin->reads[i] = kin->reads[i] || (edge[i] && walk_is(w, i, VERTEX_OP_SOURCE));
    }
    kin->above[member] = true;
    for (int32_t i = 0; i < n; i++) {
        const bool of_edge = walk_at(w, i)->place == VERTEX_PLACE_EDGE;
        for (int k = 0; k < VERTEX_N_IN; k++) {
            const int32_t in = walk_at(w, i)->in[k];
            if (in >= 0) {
                kin->above[i] = kin->above[i] || kin->above[in];
                kin->reads[i] = kin->reads[i] || (of_edge && kin->reads[in]);
            }
        }
    }
    free(edge);
}

/* Sums and means are not scaled alike. */
static bool is_scaled_alike(const struct walk *w, const struct walk_group *group, int32_t op)
{
    bool alike = true;
    for (int k = 0; k < group->n; k++) {
        alike = alike && !(walk_is(w, op, VERTEX_OP_SUM) && walk_is(w, group->op[k], VERTEX_OP_MEAN)) &&
                !(walk_is(w, op, VERTEX_OP_MEAN) && walk_is(w, group->op[k], VERTEX_OP_SUM));
    }
    return alike;
}

static bool joins(const struct walk *w, const struct walk_group *group, const struct kin *kin, int32_t op)
{
    return is_reduction(w, op) && w->n_use[op] > 0 && w->place[op].value == WALK_PLACE_NONE && walk_is_edges(w, op) &&
           kin->reads[walk_at(w, op)->in[0]] && !kin->below[op] && !kin->above[op] && is_scaled_alike(w, group, op) &&
           walk_softmax(w, walk_at(w, op)->in[0]) < 0;
}

void walk_group_below(struct walk *w, int32_t op)
{
    bool *below = memory_alloc((size_t)w->trace->n_op, sizeof *below);
    below_mark(w, op, false, below);
    for (int32_t i = 0; i < op; i++) {
        if (below[i] && is_reduction(w, i) && walk_is_edges(w, i)) {
            walk_reduced(w, i);
        }
    }
    free(below);
}

void walk_group(const struct walk *w, int32_t op, struct walk_group *out)
{
    const size_t n = (size_t)w->trace->n_op;
    *out = (struct walk_group){.n = 1, .op = {op}};
    if (!is_reduction(w, op) || (walk_is(w, op, VERTEX_OP_SUM) && walk_softmax(w, walk_at(w, op)->in[0]) >= 0)) {
        return;
    }
    struct kin kin = {memory_alloc(n, sizeof(bool)), memory_alloc(n, sizeof(bool)), memory_alloc(n, sizeof(bool))};
    for (int32_t i = 0; i < w->trace->n_op; i++) {
        kin.above[i] = w->place[i].value == WALK_PLACE_SOON;
    }
    kin_add(w, op, &kin);
    for (int32_t i = 0; i < w->trace->n_op && out->n < WALK_GROUP_MOST; i++) {
        if (joins(w, out, &kin, i)) {
            out->op[out->n++] = i;
            kin_add(w, i, &kin);
        }
    }
    free(kin.below);
    free(kin.above);
    free(kin.reads);
}
