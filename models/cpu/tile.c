/* Tile programs over rows and edges, a run of them at a time (kernels_tile.inc.h). One thread works on a row. Edges
 * of rows that follow each other share a run: what is decoded once, or added up in float first, is for 32 edges
 * however few a row has. */
#include "models/cpu/cpu.h"
#include "models/device/tile_edges.h"
#include "protocol/base/amounts.h"

#include <math.h>
#include <string.h>

/* Rows of a run: as many as have their registers in a cache. It depends on the program alone, since weights'
 * gradients are made run by run. */
static int64_t run_rows_of(const struct tile *tile)
{
    int64_t n = tile->n_float > 0 ? CPU_TILE_FLOATS / tile->n_float : CPU_TILE_RUN;
    return n < 1 ? 1 : n > CPU_TILE_RUN ? CPU_TILE_RUN : n;
}

static struct cpu_tile tile_over(const struct device_tile *how, const uint8_t *layout, float factor, float *registers)
{
    return (struct cpu_tile){.how = how,
                             .layout = layout,
                             .key = device_key(&how->key, how->now),
                             .factor = factor,
                             .registers = registers};
}

/* --- layouts --- */

#define REGISTERS_TRANSPOSED (CPU_TILE_FLOATS / CPU_TILE_RUN) /* programs with more keep rows alone */
_Static_assert(2 * CPU_TILE_FLOATS <= TILE_FLOAT_MOST, "transposed registers lie behind the rows'");
#define GATHERED_MOST 4 /* numbers of a row that are worth being transposed for one instruction */

/* Which instruction made each number transposed; -1: it is in the rows' registers. */
struct transposed {
    int by[REGISTERS_TRANSPOSED];
    uint8_t *layout;
};

/* Numbers of an operand that are found row by row: none of a weight, nor where all are transposed. With `rows` those
 * that are transposed have to be in the rows' registers, too. */
static int64_t n_gathered(const struct transposed *made, const struct tile_instruction *i,
                          const struct tile_operand *o, bool rows)
{
    bool all = o->kind != TILE_ROW;
    for (int64_t n = 0; o->kind == TILE_REGISTER && n < i->n_head * i->n_column * i->n_inner; n++) {
        const int64_t h = n / i->n_inner / i->n_column, c = n / i->n_inner % i->n_column, k = n % i->n_inner;
        const int by = made->by[o->at + h * o->head + c * o->column + k * o->inner];
        all = all && by >= 0;
        if (rows && by >= 0) {
            made->layout[by] |= CPU_TILE_BOTH;
        }
    }
    return all ? 0
               : (o->head > 0 ? i->n_head : 1) * (o->column > 0 ? i->n_column : 1) * (o->inner > 0 ? i->n_inner : 1);
}

static uint8_t layout_of(const struct transposed *made, const struct tile_instruction *i)
{
    const bool two = tile_op_n_operand(i->op) > 1, any = i->op == TILE_OP_WON || i->op == TILE_OP_DROP;
    const int64_t a = n_gathered(made, i, &i->a, false), b = two ? n_gathered(made, i, &i->b, false) : 0;
    const bool turns = !any && i->n_inner <= 4 && i->n_head * i->n_column <= CPU_TILE_NARROW &&
                       (i->n_head == 1 || i->out_head == i->n_column) && a + b <= GATHERED_MOST;
    n_gathered(made, i, &i->a, !turns || a > 0);
    n_gathered(made, i, two ? &i->b : &i->a, !turns || b > 0);
    return turns
               ? (uint8_t)(CPU_TILE_TRANSPOSED | (a == 0 && i->a.kind == TILE_REGISTER ? CPU_TILE_TRANSPOSED_A : 0) |
                           (b == 0 && i->b.kind == TILE_REGISTER ? CPU_TILE_TRANSPOSED_B : 0))
               : 0;
}

/* How each instruction works: narrow ones on all rows of a run, unless that moves more than it saves. */
static void layouts_find(const struct tile *tile, uint8_t layout[TILE_INSTRUCTION_MOST])
{
    struct transposed made = {.layout = layout};
    memset(layout, 0, (size_t)tile->n_instruction);
    memset(made.by, -1, sizeof made.by);
    for (int k = 0; k < tile->n_instruction && tile->n_float <= REGISTERS_TRANSPOSED; k++) {
        const struct tile_instruction *i = &tile->instruction[k];
        layout[k] = layout_of(&made, i);
        for (int64_t j = 0; j < i->n_head * i->n_column; j++) {
            made.by[i->out + j / i->n_column * i->out_head + j % i->n_column] = layout[k] != 0 ? k : -1;
        }
    }
    for (int k = 0; k < tile->n_result && tile->n_float <= REGISTERS_TRANSPOSED; k++) {
        const struct tile_result *r = &tile->result[k];
        n_gathered(&made, &(struct tile_instruction){.n_head = 1, .n_column = r->n, .n_inner = 1}, &r->from, true);
        n_gathered(&made, &(struct tile_instruction){.n_head = 1, .n_column = r->n_with, .n_inner = 1}, &r->with,
                   true);
    }
}

/* --- weights' gradients --- */

/* grad (+)= Σ of n sets, in their order. */
static void params_end(const struct device_tile *how, int64_t n_set, const double *sets)
{
    const int64_t width = tile_n_grad(how->tile);
    for (int p = 0; p < TILE_N_PARAM; p++) {
        int64_t at = tile_grad_at(how->tile, p);
        for (int64_t i = 0; at >= 0 && how->grad_param[p] != NULL && i < how->tile->param[p]; i++) {
            double sum = how->add_param[p] ? (double)how->grad_param[p][i] : 0.0;
            for (int64_t s = 0; s < n_set; s++) {
                sum += sets[s * width + at + i];
            }
            how->grad_param[p][i] = (float)sum;
        }
    }
}

static void params_weigh(const struct cpu_device *device, const struct cpu_tile *tile, double *grad)
{
    for (int k = 0; k < tile->how->tile->n_result; k++) {
        const struct tile_result *r = &tile->how->tile->result[k];
        if (r->target == TILE_TARGET_PARAM) {
            device->kernels->tile_weigh(tile, r, grad + tile_grad_at(tile->how->tile, r->which) + r->at);
        }
    }
}

/* --- rows --- */

void cpu_tile_rows(struct device *device, int64_t n, const struct device_tile *how)
{
    const struct cpu_device *cpu = cpu_device(device);
    const struct tile *program = how->tile;
    const int64_t n_run = run_rows_of(program);
    float registers[TILE_FLOAT_MOST] __attribute__((aligned(64)));
    uint8_t layout[TILE_INSTRUCTION_MOST];
    struct cpu_tile tile = tile_over(how, layout, 1.0F, registers);
    layouts_find(program, layout);
    double *grad = how->scratch;
    for (int64_t i = tile_n_grad(program) - 1; i >= 0; i--) {
        grad[i] = 0.0;
    }
    for (int t = 0; t < TILE_TARGET_N; t++) {
        if (how->to[t] != NULL && !how->add[t]) {
            memset(how->to[t], 0, (size_t)(n * program->target[t]) * sizeof(float));
        }
    }
    for (int64_t first = 0; first < n; first += n_run) {
        tile.n = n - first < n_run ? n - first : n_run;
        for (int64_t t = 0; t < tile.n; t++) {
            for (int k = 0; k < TILE_ROWS_N; k++) {
                tile.rows[k][t] = how->rows[k] != NULL ? how->rows[k] + (first + t) * program->width[k] : NULL;
            }
        }
        cpu->kernels->tile_run(&tile);
        for (int k = 0; k < program->n_result; k++) {
            const struct tile_result *r = &program->result[k];
            for (int64_t t = 0; t < tile.n && r->target != TILE_TARGET_PARAM && how->to[r->target] != NULL; t++) {
                float *row = how->to[r->target] + (first + t) * program->target[r->target];
                cpu->kernels->tile_reduce(&tile, &(struct cpu_tile_result){r, t, t + 1, 0.0F, row + r->at, NULL});
            }
        }
        params_weigh(cpu, &tile, grad);
    }
    params_end(how, 1, grad);
}

/* --- edges --- */

/* An array whose rows the program reads. */
struct reading {
    int which;
    int64_t width;
    const float *rows, *self_rows;
};

struct edges {
    const struct cpu_device *device;
    const struct device_tile_edges *how;
    const uint8_t *layout;
    int64_t n_run, n_edge;
    int n_near, n_far; /* of the block's own rows, and of its columns */
    struct reading near[TILE_ROWS_WEIGHT], far[TILE_ROWS_WEIGHT];
    bool reads_weights, has_weights, names; /* names: node ids are read */
    bool has_pieces;
};

/* Does the program draw by the edge's ends, or look for a winner? */
static bool names_nodes(const struct tile *tile)
{
    bool any = tile->draws || tile->saved > 0;
    for (int i = 0; i < tile->n_instruction; i++) {
        any = any || tile->instruction[i].op == TILE_OP_WON;
    }
    return any;
}

/* Numbers of a row's results and of what it has saved; with more, a row's sums are never in pieces. */
#define PIECE_FLOATS 16384
static int64_t n_sums(const struct tile *program)
{
    int64_t n = program->saved;
    for (int t = 0; t < TILE_TARGET_N; t++) {
        n += program->target[t];
    }
    return n;
}

static struct edges edges_over(const struct cpu_device *device, const struct device_tile_edges *how,
                               const uint8_t *layout)
{
    const struct tile *program = how->of.tile;
    struct edges out = {.device = device,
                        .how = how,
                        .layout = layout,
                        .n_run = run_rows_of(program),
                        .n_edge = cpu_n_edge(how->block),
                        .reads_weights = program->width[TILE_ROWS_WEIGHT] > 0,
                        .has_weights = how->block->edge_table == NULL && how->block->weights != NULL,
                        .names = names_nodes(program),
                        .has_pieces = n_sums(program) <= PIECE_FLOATS};
    for (int k = 0; k < TILE_ROWS_WEIGHT; k++) {
        const struct reading reading = {k, program->width[k], how->of.rows[k], how->self_rows[k]};
        if (reading.width > 0 && device_tile_is_far(how, k)) {
            out.far[out.n_far++] = reading;
        } else if (reading.width > 0) {
            out.near[out.n_near++] = reading;
        }
    }
    return out;
}

/* Of a row at the other end, a run ahead: the rest is fetched as it is read. */
#define PREFETCH_FLOATS 256

/* Slot t of a run: an edge of the row to a column; `self`: to itself. */
static void edge_set(const struct edges *e, struct cpu_tile *tile, int64_t t, int64_t row, int64_t edge, bool self)
{
    static const float one = 1.0F;
    const struct device_tile_edges *how = e->how;
    const struct device_block *block = how->block;
    const int64_t col = self ? row : block->cols[edge] & ~DEVICE_MARKS;
    const int64_t ahead = self ? row : block->cols[smaller(edge + e->n_run, e->n_edge - 1)] & ~DEVICE_MARKS;
    for (int k = 0; k < e->n_far; k++) {
        const struct reading *far = &e->far[k];
        const float *rows = self ? far->self_rows : far->rows, *x = rows + ahead * far->width;
        tile->rows[far->which][t] = rows + col * far->width;
        for (int64_t c = 0; c < far->width && c < PREFETCH_FLOATS; c += 16) {
            __builtin_prefetch(x + c);
        }
    }
    for (int k = 0; k < e->n_near; k++) {
        tile->rows[e->near[k].which][t] = e->near[k].rows + row * e->near[k].width;
    }
    if (e->reads_weights) {
        tile->rows[TILE_ROWS_WEIGHT][t] = !self && e->has_weights ? &block->weights[edge] : &one;
    }
    const int64_t n_feature = how->of.tile->width[TILE_ROWS_FEATURE];
    if (n_feature > 0) {
        tile->rows[TILE_ROWS_FEATURE][t] = block->edge_table + (int64_t)block->edge_rows[edge] * n_feature;
    }
    if (e->names) {
        uint32_t own = how->of.row_node[row], other = self ? own : how->col_node[col];
        tile->source[t] = how->rows_are_sources ? own : other;
        tile->target[t] = how->rows_are_sources ? other : own;
    }
}

/* A row's results in all targets, and what it has saved. */
struct sums {
    float *to[TILE_TARGET_N], *saved;
};

static struct sums row_sums(const struct device_tile_edges *how, int64_t row)
{
    struct sums out = {.saved = how->saved != NULL ? how->saved + row * how->of.tile->saved : NULL};
    for (int t = 0; t < TILE_TARGET_N; t++) {
        out.to[t] = how->of.to[t] != NULL ? how->of.to[t] + row * how->of.tile->target[t] : NULL;
    }
    return out;
}

/* A run, and the rows whose edges it has: row k's are begin[k] … begin[k + 1]-1. */
struct run {
    struct cpu_tile tile;
    int64_t n_row;
    int64_t row[CPU_TILE_RUN], begin[CPU_TILE_RUN + 1];
    double *grad; /* NULL: no weights' gradients are wanted */
    bool is_piece;
    struct sums piece; /* its sums go here */
};

static bool picks(const struct tile_result *r)
{
    return r->reduction == TILE_REDUCTION_MAX || r->reduction == TILE_REDUCTION_MIN;
}

/* What edges of one row add to a result. */
static void row_reduce(const struct edges *e, const struct run *run, int64_t k, const struct tile_result *r)
{
    const struct sums sums = run->is_piece && !picks(r) ? run->piece : row_sums(e->how, run->row[k]);
    const struct cpu_tile_result result = {.of = r,
                                           .begin = run->begin[k],
                                           .end = run->begin[k + 1],
                                           .shift = e->how->shift,
                                           .out = sums.to[r->target] + r->at,
                                           .saved = sums.saved != NULL ? sums.saved + r->saved : NULL};
    e->device->kernels->tile_reduce(&run->tile, &result);
}

static void run_end(const struct edges *e, struct run *run)
{
    const struct tile *program = e->how->of.tile;
    if (run->tile.n == 0) {
        return;
    }
    run->begin[run->n_row] = run->tile.n;
    e->device->kernels->tile_run(&run->tile);
    for (int k = 0; k < program->n_result; k++) {
        const struct tile_result *r = &program->result[k];
        for (int64_t i = 0; i < run->n_row && r->target != TILE_TARGET_PARAM && e->how->of.to[r->target] != NULL;
             i++) {
            row_reduce(e, run, i, r);
        }
    }
    if (run->grad != NULL) {
        params_weigh(e->device, &run->tile, run->grad);
    }
    run->tile.n = run->n_row = 0;
}

/* One more edge of a row, or the row's to itself. */
static void run_add(const struct edges *e, struct run *run, int64_t row, int64_t edge, bool self)
{
    if (run->tile.n == e->n_run) {
        run_end(e, run);
    }
    if (run->n_row == 0 || run->row[run->n_row - 1] != row) {
        run->begin[run->n_row] = run->tile.n;
        run->row[run->n_row++] = row;
    }
    edge_set(e, &run->tile, run->tile.n++, row, edge, self);
}

static void sums_begin(const struct tile *program, const struct sums *sums)
{
    for (int t = 0; t < TILE_TARGET_N; t++) {
        if (sums->to[t] != NULL) {
            memset(sums->to[t], 0, (size_t)program->target[t] * sizeof(float));
        }
    }
    for (int k = 0; k < program->n_result; k++) {
        const struct tile_result *r = &program->result[k];
        if (r->target == TILE_TARGET_OUT && r->reduction != TILE_REDUCTION_SUM) {
            device_tile_begin(r, sums->to[TILE_TARGET_OUT], sums->saved);
        }
    }
}

/* Softmaxes of n scores each with `width` columns of sums, as merge_heads of attention_hub.c. */
static void softmaxes_join(int64_t n, int64_t width, float *const to[3], float *const from[3])
{
    for (int64_t i = 0; i < n; i++) {
        const float most = to[0][i] > from[0][i] ? to[0][i] : from[0][i];
        const float scale = to[0][i] == most ? 1.0F : expf(to[0][i] - most);
        const float scale_from = from[0][i] == most ? 1.0F : expf(from[0][i] - most);
        to[0][i] = most;
        to[1][i] = scale * to[1][i] + scale_from * from[1][i];
        for (int64_t c = i * width; c < (i + 1) * width; c++) {
            to[2][c] = scale * to[2][c] + scale_from * from[2][c];
        }
    }
}

/* Add a piece's sums to its row's. */
static void piece_join(const struct tile *program, const struct sums *piece, const struct sums *row)
{
    for (int k = 0; k < program->n_result; k++) {
        const struct tile_result *r = &program->result[k];
        if (r->target == TILE_TARGET_PARAM || row->to[r->target] == NULL || picks(r)) {
            continue;
        }
        float *to = row->to[r->target] + r->at, *from = piece->to[r->target] + r->at;
        float *saved = row->saved + r->saved, *saved_from = piece->saved + r->saved;
        if (r->reduction == TILE_REDUCTION_LOGSUMEXP) {
            softmaxes_join(r->n, 0, (float *[]){to, saved, NULL}, (float *[]){from, saved_from, NULL});
        } else if (r->reduction == TILE_REDUCTION_SOFTMAX) {
            softmaxes_join(r->n_with, r->n / r->n_with, (float *[]){saved + r->n_with, saved, to},
                           (float *[]){saved_from + r->n_with, saved_from, from});
        } else {
            for (int64_t i = 0; i < r->n; i++) {
                to[i] += from[i];
                from[i] = 0.0F; /* another result may be a sum in the same place */
            }
        }
    }
}

static void edges_add(const struct edges *e, struct run *run, int64_t row, int64_t begin, int64_t end)
{
    for (int64_t edge = begin; edge < end; edge++) {
        run_add(e, run, row, edge, false);
    }
}

/* Edges of a row whose sums are made from 0, and then added to the row's. */
static void piece_add(const struct edges *e, struct run *run, int64_t row, int64_t begin, int64_t end)
{
    const struct sums sums = row_sums(e->how, row);
    run_end(e, run);
    sums_begin(e->how->of.tile, &run->piece);
    run->is_piece = true;
    edges_add(e, run, row, begin, end);
    run_end(e, run);
    run->is_piece = false;
    piece_join(e->how->of.tile, &run->piece, &sums);
}

/* The edges of the block's row r: many in pieces, of a merged row those between marks. */
static void row_add(const struct edges *e, struct run *run, int64_t row, int64_t r)
{
    const struct device_block *block = e->how->block;
    const int64_t end = block->indptr[r + 1];
    if (end - block->indptr[r] <= DEVICE_PIECE_EDGES || !e->has_pieces) {
        edges_add(e, run, row, block->indptr[r], end);
        return;
    }
    for (int64_t begin = block->indptr[r], next; begin < end; begin = next) {
        next = device_run_end(block, begin, end);
        if (device_run_goes_on(block, begin)) {
            edges_add(e, run, row, begin, next);
            continue;
        }
        for (int64_t at = begin; at < next; at += DEVICE_PIECE_EDGES) {
            piece_add(e, run, row, at, at + DEVICE_PIECE_EDGES < next ? at + DEVICE_PIECE_EDGES : next);
        }
    }
}

/* Where a piece's sums are, in `memory`; the targets that there are. */
static struct sums piece_sums(const struct device_tile *how, float *memory)
{
    struct sums out = {.saved = memory};
    memory += how->tile->saved;
    for (int t = 0; t < TILE_TARGET_N; t++) {
        out.to[t] = how->to[t] != NULL ? memory : NULL;
        memory += how->tile->target[t];
    }
    return out;
}

/* Rows first … end-1 of the block; weights' gradients are added to `grad`. The runs begin at the first row. */
static void rows_run(const struct edges *e, int64_t first, int64_t end, double *grad)
{
    const struct device_block *block = e->how->block;
    float registers[TILE_FLOAT_MOST] __attribute__((aligned(64))), pieces[PIECE_FLOATS];
    struct run run = {.tile = tile_over(&e->how->of, e->layout, e->how->factor, registers),
                      .grad = grad,
                      .piece = piece_sums(&e->how->of, pieces)};
    for (int64_t r = first; r < end; r++) {
        int64_t row = block->rows != NULL ? block->rows[r] : r;
        if (e->how->begin) {
            const struct sums sums = row_sums(e->how, row);
            sums_begin(e->how->of.tile, &sums);
        }
        if (e->how->begin && e->how->with_self) {
            run_add(e, &run, row, -1, true);
        }
        row_add(e, &run, row, r);
    }
    run_end(e, &run);
}

/* A unit of work: some ranges of rows, and some hub rows. */
static void unit_run(const struct edges *e, const struct cpu_schedule *schedule, int64_t unit, int64_t n_unit,
                     double *grad)
{
    const int64_t n_range = schedule->n_range;
    for (int64_t i = unit * n_range / n_unit; i < (unit + 1) * n_range / n_unit; i++) {
        rows_run(e, schedule->range[2 * i], schedule->range[2 * i + 1], grad);
        cpu_between(e->device);
    }
    for (int64_t i = unit * schedule->n_piece / n_unit; i < (unit + 1) * schedule->n_piece / n_unit; i++) {
        const struct cpu_piece *piece = &schedule->piece[i];
        if (i == 0 || piece->row != piece[-1].row) { /* a hub row's first piece: all of it */
            rows_run(e, piece->row, piece->row + 1, grad);
        }
    }
}

void cpu_tile_edges(struct device *device, const struct device_tile_edges *how)
{
    const struct cpu_device *cpu = cpu_device(device);
    uint8_t layout[TILE_INSTRUCTION_MOST];
    const struct edges e = edges_over(cpu, how, layout);
    layouts_find(how->of.tile, layout);
    const int64_t n_grad = tile_n_grad(how->of.tile);
    struct cpu_small_schedule small;
    const struct cpu_schedule *schedule = cpu_block_schedule(how->block, &small);
    int64_t n_unit = schedule->n_range > schedule->n_piece ? schedule->n_range : schedule->n_piece;
    n_unit = n_grad > 0 && n_unit > CPU_TILE_PARTIALS ? CPU_TILE_PARTIALS : n_unit;
    double *sets = n_grad > 0 ? how->of.scratch : NULL;
    if (sets != NULL) {
        memset(sets, 0, (size_t)(n_unit * n_grad) * sizeof *sets);
    }
    int64_t work = (how->block->n_row + cpu_n_edge(how->block)) * how->of.tile->n_float;
    CPU_LOOP_DYNAMIC(
        cpu, work >= CPU_PARALLEL_MIN, for (int64_t unit = 0; unit < n_unit; unit++) {
            unit_run(&e, schedule, unit, n_unit, sets != NULL ? sets + unit * n_grad : NULL);
        });
    CPU_LOOP(
        cpu, how->n_finish >= CPU_PARALLEL_MIN,
        for (int64_t row = 0; row < how->n_finish; row++) { device_tile_end(how, row); });
    if (n_grad > 0) {
        params_end(&how->of, n_unit, sets);
    }
}
