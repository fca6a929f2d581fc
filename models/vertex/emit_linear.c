/* Linear maps and the sums that they may stand before or after. */
#include "models/vertex/walk.h"

#include "protocol/base/memory.h"

#include <stdlib.h>

static int linear(struct walk *w, int x, int weight, int bias)
{
    return walk_goes_on(w) ? program_linear(w->program, x, weight, bias) : 0;
}

int walk_aggregate(struct walk *w, int x, enum aggregate_kind kind)
{
    return walk_goes_on(w) ? program_aggregate(w->program, x, kind) : 0;
}

static bool multiplies_first(struct walk *w, int x, int64_t f_out)
{
    return w->status == STATUS_OK && w->to->transform_first(w->program, x, f_out);
}

bool walk_is_one_hot(const struct walk *w, int32_t op)
{
    return walk_is(w, op, VERTEX_OP_INPUT) && w->to->is_one_hot && w->program->value[w->to->x].is_sparse;
}

/* A linear aggregate. Of one-hot rows a maximum is one, too: each column has one row with an entry, so that maximum
 * and sum are equal. */
bool walk_is_sum(const struct walk *w, int32_t op, struct match_sum *out)
{
    const struct vertex_op *of = walk_at(w, op);
    if (of->kind == VERTEX_OP_MAX && of->relation < 0 && walk_is(w, of->in[0], VERTEX_OP_SOURCE) &&
        walk_is_one_hot(w, walk_at(w, of->in[0])->in[0])) {
        *out = (struct match_sum){walk_at(w, of->in[0])->in[0], MATCH_FACTOR_NONE, AGGREGATE_KIND_SUM};
        return true;
    }
    return !w->by_tile[op] && match_sum(w->trace, op, out);
}

/* A linear aggregate that may swap with a linear map: the outermost of its sums, or one that nothing else reads. */
static bool is_swappable(const struct walk *w, int32_t op, bool is_outermost, struct match_sum *out)
{
    return (is_outermost || w->n_use[op] == 1) && walk_is_sum(w, op, out);
}

/* The sums below an operation, the outermost first, each over the rows of the next. */
struct sums {
    int n;
    enum aggregate_kind *kind;
    int32_t below; /* the operation that the innermost reads */
};

/* From the operation on; is_sum: it is one of them, whatever reads it.
 *
 * owns  the caller frees out->kind */
static void sums_below(const struct walk *w, int32_t op, bool is_sum, struct sums *out)
{
    struct match_sum sum;
    *out = (struct sums){.below = op};
    for (int32_t s = op; is_swappable(w, s, is_sum && out->n == 0, &sum); s = sum.source) {
        out->n++;
    }
    out->kind = memory_alloc((size_t)out->n + 1, sizeof *out->kind);
    for (int k = 0; k < out->n; k++) {
        walk_is_sum(w, out->below, &sum);
        out->kind[k] = sum.kind;
        out->below = sum.source;
    }
}

static int aggregate_all(struct walk *w, int x, const struct sums *sums)
{
    for (int k = sums->n - 1; k >= 0; k--) {
        x = walk_aggregate(w, walk_dense(w, x), sums->kind[k]);
    }
    return x;
}

/* (1 + eps) · x + Σ x_j: GIN's sum */
bool walk_match_gin(const struct walk *w, int32_t op, int32_t *eps_out, int32_t *x_out, enum aggregate_kind *kind_out)
{
    int32_t product, other, factor, one;
    struct match_sum sum;
    if (!match_operands(w->trace, op, VERTEX_OP_ADD, VERTEX_OP_MULTIPLY, &product, &other) ||
        !walk_is_sum(w, other, &sum) ||
        !match_operands(w->trace, product, VERTEX_OP_MULTIPLY, VERTEX_OP_ADD, &factor, x_out) ||
        *x_out != sum.source || !match_operands(w->trace, factor, VERTEX_OP_ADD, VERTEX_OP_NUMBER, &one, eps_out)) {
        return false;
    }
    *kind_out = sum.kind;
    return walk_at(w, one)->number[0] == 1.0 && walk_is(w, *eps_out, VERTEX_OP_PARAMETER) &&
           walk_at(w, *eps_out)->shape.n_dim == 1 && walk_at(w, *eps_out)->shape.dim[0] == 1;
}

int walk_eps_add(struct walk *w, int eps, int x, int sum)
{
    return walk_goes_on(w) ? program_eps_add(w->program, eps, walk_dense(w, x), sum) : 0;
}

/* A linear map, by weight or column by column, of the rows that sums make of `x`: before or after them. */
static struct open_value emit_map(struct walk *w, int x, const struct sums *sums, const struct vertex_op *map,
                                  int bias)
{
    bool by_column = map->kind == VERTEX_OP_PRODUCT;
    int weight = walk_weight(w, map->in[1]);
    bool first = sums->n > 0 && !by_column && multiplies_first(w, x, map->shape.dim[map->shape.n_dim - 1]);
    if (first) {
        return (struct open_value){aggregate_all(w, linear(w, x, weight, -1), sums), bias};
    }
    x = aggregate_all(w, x, sums);
    if (by_column && sums->n == 0 && walk_is_one_hot(w, map->in[0])) {
        return (struct open_value){walk_goes_on(w) ? program_node_rows(w->program, x, weight, bias) : 0, -1};
    }
    if (by_column) {
        walk_dense(w, x);
        return (struct open_value){walk_goes_on(w) ? program_linear_by_column(w->program, x, weight, bias) : 0, -1};
    }
    return (struct open_value){linear(w, x, weight, bias), -1};
}

/* linear(x, W[, b]) and x @ W, with the sums that x is made by, or GIN's sum. */
struct open_value walk_linear(struct walk *w, int32_t op, int bias)
{
    const struct vertex_op *of = walk_at(w, op);
    int with = of->in[2] >= 0 ? walk_weight(w, of->in[2]) : bias;
    int32_t eps = -1, x = -1;
    enum aggregate_kind kind = AGGREGATE_KIND_SUM;
    if (of->kind == VERTEX_OP_LINEAR && walk_match_gin(w, of->in[0], &eps, &x, &kind) && w->n_use[of->in[0]] == 1) {
        int row = walk_value(w, x), weight = walk_weight(w, of->in[1]), e = walk_weight(w, eps);
        if (multiplies_first(w, row, of->shape.dim[0])) {
            int z = linear(w, row, weight, -1);
            return (struct open_value){walk_eps_add(w, e, z, walk_aggregate(w, z, kind)), with};
        }
        int sum = walk_aggregate(w, walk_dense(w, row), kind);
        return (struct open_value){linear(w, walk_eps_add(w, e, row, sum), weight, with), -1};
    }
    struct sums sums;
    sums_below(w, of->in[0], false, &sums);
    struct open_value out = emit_map(w, walk_value(w, sums.below), &sums, of, with);
    free(sums.kind);
    return out;
}

/* The linear map without bias that an operation's sums read, which they may swap with; -1: no such map. */
static int32_t map_below(const struct walk *w, int32_t op)
{
    struct match_sum sum;
    for (bool first = true; is_swappable(w, op, first, &sum); first = false) {
        op = sum.source;
    }
    bool maps = walk_is(w, op, VERTEX_OP_LINEAR) && walk_at(w, op)->in[2] < 0 && w->n_use[op] == 1 &&
                !walk_is_part(w, op);
    return maps ? op : -1;
}

struct open_value walk_sum(struct walk *w, int32_t op, int bias)
{
    struct match_sum outer;
    struct sums sums, deeper;
    int32_t map = map_below(w, op);
    walk_is_sum(w, op, &outer);
    if (map < 0) {
        int x = walk_value(w, outer.source);
        return (struct open_value){walk_aggregate(w, walk_dense(w, x), outer.kind), bias};
    }
    sums_below(w, op, true, &sums);
    sums_below(w, walk_at(w, map)->in[0], false, &deeper);
    free(deeper.kind);
    struct open_value out = deeper.n > 0 /* sums on both sides stay where they are */
                                ? (struct open_value){aggregate_all(w, walk_value(w, map), &sums), bias}
                                : emit_map(w, walk_value(w, walk_at(w, map)->in[0]), &sums, walk_at(w, map), bias);
    free(sums.kind);
    return out;
}

/* Can a bias be part of what an operation becomes? */
bool walk_takes_bias(const struct walk *w, int32_t op)
{
    struct match_sum sum;
    if (walk_is_part(w, op)) {
        return false;
    }
    bool product = walk_is(w, op, VERTEX_OP_PRODUCT) && walk_is(w, walk_at(w, op)->in[1], VERTEX_OP_PARAMETER);
    return ((walk_is(w, op, VERTEX_OP_LINEAR) && walk_at(w, op)->in[2] < 0) || product ||
            (walk_is_sum(w, op, &sum) && map_below(w, op) >= 0)) &&
           w->n_use[op] == 1;
}
