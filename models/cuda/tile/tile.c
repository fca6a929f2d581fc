/* Tile programs from host memory to the device's. */
#include "models/cuda/tile/tile.h"

#include "models/device/tile_edges.h"

#define LANES 32

/* Products of so many terms are shared by as many lanes as read one sector. */
#define SHARED_TERMS 16
#define SHARED_LANES 8

/* --- operands --- */

struct packing {
    const struct device_tile *how;
    const struct device_tile_edges *edges; /* NULL: rows */
};

/* Whose row of an array it is. */
static enum cuda_tile_by row_by(const struct device_tile_edges *edges, int which)
{
    if (edges == NULL) {
        return CUDA_TILE_POINT;
    }
    if (which == TILE_ROWS_WEIGHT) {
        return edges->block->edge_table == NULL && edges->block->weights != NULL ? CUDA_TILE_WEIGHT
                                                                                 : CUDA_TILE_NUMBER;
    }
    return which == TILE_ROWS_FEATURE         ? CUDA_TILE_FEATURE
           : device_tile_is_far(edges, which) ? CUDA_TILE_COLUMN
                                              : CUDA_TILE_OWN;
}

static struct cuda_tile_operand operand_of(const struct packing *p, const struct tile_operand *o)
{
    struct cuda_tile_operand out = {.which = o->which, .at = (int32_t)o->at};
    switch (o->kind) {
    case TILE_REGISTER:
        out.by = CUDA_TILE_REGISTER;
        break;
    case TILE_PARAM:
        out.by = CUDA_TILE_PARAM;
        break;
    case TILE_ROW:
        out.by = (int32_t)row_by(p->edges, o->which);
        out.step = (int32_t)p->how->tile->width[o->which];
        break;
    case TILE_NUMBER:
        return (struct cuda_tile_operand){.by = CUDA_TILE_NUMBER, .number = o->number};
    }
    if (out.by == CUDA_TILE_WEIGHT || out.by == CUDA_TILE_NUMBER) { /* a weight that is 1 */
        out.number = 1.0F;
    }
    out.head = (int32_t)o->head;
    out.column = (int32_t)o->column;
    out.inner = (int32_t)o->inner;
    return out;
}

/* --- instructions --- */

static bool is_flat(const struct cuda_tile_operand *o, int32_t n_column)
{
    return (o->head == 0 && o->column == 0) || (o->column == 1 && o->head == n_column);
}

/* Heads whose columns are side by side are one. */
static void heads_join(struct cuda_tile_instruction *i, bool two)
{
    if (i->n_head > 1 && i->out_head == i->n_column && is_flat(&i->a, i->n_column) &&
        (!two || is_flat(&i->b, i->n_column))) {
        i->n_column *= i->n_head;
        i->n_head = 1;
    }
}

static struct cuda_tile_instruction instruction_of(const struct packing *p, const struct tile_instruction *from)
{
    const bool two = tile_op_n_operand(from->op) > 1;
    struct cuda_tile_instruction i = {.a = operand_of(p, &from->a),
                                      .b = two ? operand_of(p, &from->b) : (struct cuda_tile_operand){0},
                                      .op = (int32_t)from->op,
                                      .n_head = (int32_t)from->n_head,
                                      .n_column = (int32_t)from->n_column,
                                      .n_inner = (int32_t)from->n_inner,
                                      .out = (int32_t)from->out,
                                      .out_head = (int32_t)from->out_head,
                                      .number = {from->number[0], from->number[1]}};
    if (from->op == TILE_OP_CONTRACT) {
        bool dots = i.n_inner >= SHARED_TERMS && (i.n_column == 1 || (i.b.inner == 1 && i.b.column > 1));
        i.special = dots ? SHARED_LANES : 1;
    } else {
        heads_join(&i, two);
    }
    if (from->op == TILE_OP_WON) {
        i.number[0] = p->edges != NULL ? p->edges->factor : 1.0F;
    }
    if (from->op == TILE_OP_DROP) {
        const double rate = (double)from->number[0];
        i.number[0] = (float)(1.0 / (1.0 - rate));
        i.special = random_drop_threshold(rate);
        i.n_inner = (int32_t)from->number[1];
    }
    i.step[0] = LANES / i.n_column / i.n_head;
    i.step[1] = LANES / i.n_column % i.n_head;
    i.step[2] = LANES % i.n_column;
    return i;
}

/* --- results --- */

/* Do all sums of a gradient lie at places of their own? */
static bool are_apart(const struct tile_result *r)
{
    bool rows = r->step > (r->n_with - 1) * r->step_with && (r->n_with == 1 || r->step_with > 0);
    bool columns = r->step_with > (r->n - 1) * r->step && (r->n == 1 || r->step > 0);
    return r->n_with == 0 || rows || columns;
}

static struct cuda_tile_result result_of(const struct packing *p, const struct tile_result *from)
{
    const struct tile *tile = p->how->tile;
    struct cuda_tile_result r = {.from = operand_of(p, &from->from),
                                 .target = (int32_t)from->target,
                                 .at = (int32_t)from->at,
                                 .kept = (int32_t)from->saved,
                                 .reduction = (int32_t)from->reduction,
                                 .n = (int32_t)from->n,
                                 .n_with = (int32_t)from->n_with};
    if (from->n_with > 0) {
        r.with = operand_of(p, &from->with);
    }
    if (from->target == TILE_TARGET_PARAM) {
        r.at += (int32_t)tile_grad_at(tile, from->which);
        r.step = (int32_t)(from->n_with > 0 ? from->step : 1);
        r.step_with = (int32_t)from->step_with;
        r.lanes = are_apart(from) ? LANES : 1;
    } else {
        r.width = (int32_t)tile->target[from->target];
    }
    return r;
}

static bool is_wanted(const struct packing *p, const struct tile_result *r)
{
    return r->target == TILE_TARGET_PARAM ? p->how->grad_param[r->which] != NULL : p->how->to[r->target] != NULL;
}

/* --- a program --- */

_Static_assert(sizeof(struct cuda_tile_instruction) == CUDA_TILE_INSTRUCTION_BYTES &&
                   sizeof(struct cuda_tile_result) == CUDA_TILE_RESULT_BYTES,
               "plans know the bytes of both, whole words");

/* What is put behind what was put before, in as few launches as the size of arguments allows. */
struct putting {
    struct device *device;
    struct cuda_tile_words words;
    int64_t n_word;
    uint64_t *to;
};

static void put_end(struct putting *p)
{
    cuda_tile_put(p->device, &p->words, p->n_word, p->to);
    p->to += p->n_word;
    p->n_word = 0;
}

static void put(struct putting *p, const void *from, size_t n_bytes)
{
    const int64_t n = (int64_t)(n_bytes / sizeof(uint64_t));
    uint64_t *word = NULL;
    if (p->n_word + n > CUDA_TILE_WORDS) {
        put_end(p);
    }
    word = &p->words.word[p->n_word];
    memcpy(word, from, n_bytes);
    for (int64_t k = 0; k < n; k++) {
        word[k] ^= CUDA_TILE_TURNED;
    }
    p->n_word += n;
}

/* Returns the number of results that are wanted. */
static int64_t program_put(struct device *device, const struct packing *p)
{
    const struct tile *tile = p->how->tile;
    struct putting to = {.device = device, .to = p->how->scratch};
    int64_t n = 0;
    for (int k = 0; k < tile->n_instruction; k++) {
        const struct cuda_tile_instruction i = instruction_of(p, &tile->instruction[k]);
        put(&to, &i, sizeof i);
    }
    for (int k = 0; k < tile->n_result; k++) {
        if (is_wanted(p, &tile->result[k])) {
            const struct cuda_tile_result r = result_of(p, &tile->result[k]);
            put(&to, &r, sizeof r);
            n++;
        }
    }
    put_end(&to);
    return n;
}

/* Rows of a run: as many as fit into shared memory. */
static int64_t run_rows_of(const struct tile *tile)
{
    int64_t n = CUDA_TILE_FLOATS / cuda_tile_floats(tile->n_float);
    return n < 1 ? 1 : n > LANES ? LANES : n;
}

/* Where rows' gradients of weights are summed up, a range of rows has a set of sums; else it is a row, or a run. */
static void ranges_cut(struct cuda_tile *tile, bool are_edges)
{
    const int64_t each = are_edges ? 1 : tile->n_run;
    int64_t n_set = tile->sums.n_grad > 0 ? cuda_tile_sets(tile->sums.n_grad) : tile->block.n_row;
    int64_t rows = n_set > 0 ? (tile->block.n_row + n_set - 1) / n_set : 1;
    tile->sums.range_rows = (rows + each - 1) / each * each;
    tile->sums.range_rows = tile->sums.range_rows > 0 ? tile->sums.range_rows : 1;
    tile->sums.n_range = (tile->block.n_row + tile->sums.range_rows - 1) / tile->sums.range_rows;
}

static void block_set(struct cuda_tile *tile, const struct device_tile_edges *edges)
{
    const struct device_block *block = edges->block;
    if (block->edge_table != NULL) {
        tile->array[TILE_ROWS_FEATURE] = block->edge_table;
        tile->block.edge_rows = block->edge_rows;
    } else {
        tile->array[TILE_ROWS_WEIGHT] = block->weights;
    }
    tile->saved = edges->saved;
    tile->n_saved = edges->of.tile->saved;
    tile->block.rows = block->rows;
    tile->block.indptr = block->indptr;
    tile->block.cols = block->cols;
    tile->block.col_node = edges->col_node;
    tile->begin = edges->begin;
    tile->with_self = edges->begin && edges->with_self;
    for (int k = 0; k < TILE_ROWS_N && tile->with_self != 0; k++) {
        tile->self[k] = edges->self_rows[k];
    }
    tile->rows_are_sources = edges->rows_are_sources;
    tile->block.n_finish = edges->n_finish;
    tile->scale = edges->of.tile->scales_mean ? edges->of.rows[TILE_ROWS_SCALE_2] : NULL;
    tile->factor = edges->factor;
    tile->shift = edges->shift;
}

struct cuda_tile cuda_tile_open(struct device *device, int64_t n_row, const struct device_tile *how,
                                const struct device_tile_edges *edges)
{
    const struct tile *from = how->tile;
    const struct packing packing = {how, edges};
    const struct cuda_tile_places at = cuda_tile_places_make(from->n_float, tile_n_grad(from), from->n_instruction,
                                                             from->n_result);
    char *scratch = how->scratch;
    struct cuda_tile tile = {
        .program.instruction = how->scratch,
        .program.n_instruction = from->n_instruction,
        .sums.sets = tile_n_grad(from) > 0 ? (double *)(void *)(scratch + at.sets) : NULL,
        .registers = at.n_warp > 0 ? (float *)(void *)(scratch + at.registers) : NULL,
        .block.row_node = how->row_node,
        .now = how->now,
        .key = how->key,
        .block.n_row = n_row,
        .n_warp = at.n_warp,
        .sums.n_grad = tile_n_grad(from),
        .n_float = cuda_tile_floats(from->n_float),
        .n_run = run_rows_of(from),
        .drops = how->drops,
        .factor = 1.0F,
    };
    tile.program.result = (const struct cuda_tile_result *)(const void *)(tile.program.instruction +
                                                                          from->n_instruction);
    for (int t = 0; t < TILE_TARGET_N; t++) {
        tile.to[t] = how->to[t];
        tile.width[t] = from->target[t];
        tile.begin |= how->add[t] ? 0 : 1 << t;
    }
    memcpy(tile.array, how->rows, sizeof tile.array);
    memcpy(tile.param, how->param, sizeof tile.param);
    if (edges != NULL) {
        block_set(&tile, edges);
    }
    ranges_cut(&tile, edges != NULL);
    tile.program.n_result = program_put(device, &packing);
    return tile;
}

int64_t cuda_tile_warps(const struct cuda_tile *tile)
{
    return tile->registers != NULL && tile->sums.n_range > tile->n_warp ? tile->n_warp : tile->sums.n_range;
}

void cuda_tile_close(struct device *device, const struct cuda_tile *tile, const struct device_tile *how)
{
    for (int p = 0; p < TILE_N_PARAM; p++) {
        int64_t at = tile_grad_at(how->tile, p);
        if (at >= 0 && how->grad_param[p] != NULL) {
            cuda_tile_sum(device, tile, at, how->tile->param[p], how->add_param[p], how->grad_param[p]);
        }
    }
}
