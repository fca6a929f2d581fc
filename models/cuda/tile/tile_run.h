/* One run of a tile program by a warp: instructions, and gradients of weights. */
#ifndef MODELS_CUDA_TILE_RUN_H
#define MODELS_CUDA_TILE_RUN_H

#include "models/cuda/functions.h"
#include "models/cuda/vector.h"

extern "C" {
#include "models/cuda/tile/tile.h"
}

#define TILE_THREADS (CUDA_TILE_WARPS * WARP)

/* Rows row … row+n-1, or edges edge … edge+n-1 of the block's row. */
struct tile_run {
    float *registers;
    const float **rows; /* where two operands of them begin, WARP each */
    int64_t row;
    int64_t edge;
    int n;
    bool self; /* the first one is the row's edge to itself, and `edge` one less */
};

/* Floats from a row's registers to the next one's. */
static __device__ __forceinline__ int tile_stride(const struct cuda_tile &tile)
{
    return (int)tile.n_float;
}

/* floats, rows: the block's shared memory */
static __device__ __forceinline__ struct tile_run tile_run_make(const struct cuda_tile &tile, float *floats,
                                                                const float **rows)
{
    const int warp = (int)threadIdx.x / WARP;
    struct tile_run run = {};
    run.rows = rows + warp * 2 * WARP;
    run.registers = tile.registers != NULL ? tile.registers + grid_group<WARP>() * tile.n_run * tile.n_float
                                           : floats + warp * CUDA_TILE_FLOATS;
    return run;
}

static __device__ __forceinline__ void floats_zero(float *to, int n)
{
    for (int c = group_lane<WARP>(); c < n; c += WARP) {
        to[c] = 0.0F;
    }
}

/* --- operands --- */

/* Where an operand of row t begins. */
static __device__ __forceinline__ const float *operand_at(const struct cuda_tile &tile, const struct tile_run &run,
                                                          const struct cuda_tile_operand &o, int t)
{
    const bool is_self = run.self && t == 0;
    switch (o.by) {
    case CUDA_TILE_REGISTER:
        return run.registers + o.at + t * tile_stride(tile);
    case CUDA_TILE_NUMBER:
        return &o.number;
    case CUDA_TILE_POINT:
        return tile.array[o.which] + (run.row + t) * o.step + o.at;
    case CUDA_TILE_OWN:
        return tile.array[o.which] + run.row * o.step + o.at;
    case CUDA_TILE_COLUMN:
        return is_self ? tile.self[o.which] + run.row * o.step + o.at
                       : tile.array[o.which] + (int64_t)__ldg(tile.block.cols + run.edge + t) * o.step + o.at;
    case CUDA_TILE_WEIGHT:
        return is_self ? &o.number : tile.array[o.which] + run.edge + t;
    case CUDA_TILE_FEATURE:
        return tile.array[o.which] + (int64_t)__ldg(tile.block.edge_rows + run.edge + t) * o.step + o.at;
    default: /* CUDA_TILE_PARAM */
        return tile.param[o.which] + o.at;
    }
}

/* An operand's elements, once the warp has met. */
struct tile_place {
    const float *const *rows;
    int head, column;

    __device__ __forceinline__ const float *of(int t, int h, int c) const
    {
        return rows[t] + (h * head + c * column);
    }
};

/* The lanes find a row each; `which` is 0 or 1. */
static __device__ __forceinline__ struct tile_place tile_place_make(const struct cuda_tile &tile,
                                                                    const struct tile_run &run,
                                                                    const struct cuda_tile_operand &o, int which)
{
    const float **rows = run.rows + which * WARP;
    const int t = group_lane<WARP>();
    if (t < run.n) {
        rows[t] = operand_at(tile, run, o, t);
    }
    return {rows, o.head, o.column};
}

/* Dataset node ids of the ends of edge t; rows: both the row's. */
static __device__ __forceinline__ uint32_t other_node(const struct cuda_tile &tile, const struct tile_run &run, int t)
{
    if (tile.block.cols == NULL) {
        return tile.block.row_node != NULL ? tile.block.row_node[run.row + t] : 0;
    }
    return run.self && t == 0 ? tile.block.row_node[run.row] : tile.block.col_node[tile.block.cols[run.edge + t]];
}

static __device__ __forceinline__ uint32_t own_node(const struct cuda_tile &tile, const struct tile_run &run, int t)
{
    return tile.block.cols == NULL ? other_node(tile, run, t) : tile.block.row_node[run.row];
}

static __device__ __forceinline__ uint32_t source_node(const struct cuda_tile &tile, const struct tile_run &run,
                                                       int t)
{
    return tile.rows_are_sources ? own_node(tile, run, t) : other_node(tile, run, t);
}

/* --- instructions --- */

/* f(t, h, c) of each element of the run, an element a lane. */
template <class F>
static __device__ __forceinline__ void each_element(const struct cuda_tile_instruction &i, int n, F f)
{
    const int n_head = i.n_head, n_column = i.n_column, step_t = i.step[0], step_h = i.step[1], step_c = i.step[2];
    int t = 0, h = 0, c = group_lane<WARP>();
    if (n_column < WARP) {
        h = c / n_column;
        c -= h * n_column;
        t = h / n_head;
        h -= t * n_head;
    }
    __syncwarp(ALL_LANES); /* operands are placed */
    while (t < n) {
        f(t, h, c);
        c += step_c;
        h += step_h + (c >= n_column ? 1 : 0);
        t += step_t + (h >= n_head ? 1 : 0);
        c -= c >= n_column ? n_column : 0;
        h -= h >= n_head ? n_head : 0;
    }
    __syncwarp(ALL_LANES);
}

/* z = f(x, y) of each element; one operand: y is 0. */
template <bool TWO, class F>
static __device__ __forceinline__ void map(const struct cuda_tile &tile, const struct tile_run &run,
                                           const struct cuda_tile_instruction &i, F f)
{
    const struct tile_place a = tile_place_make(tile, run, i.a, 0), b = TWO ? tile_place_make(tile, run, i.b, 1) : a;
    float *out = run.registers + i.out;
    const int out_head = i.out_head;
    each_element(i, run.n, [&](int t, int h, int c) {
        const float x = *a.of(t, h, c), y = TWO ? *b.of(t, h, c) : 0.0F;
        out[t * tile_stride(tile) + h * out_head + c] = f(x, y);
    });
}

static __device__ __forceinline__ void won(const struct cuda_tile &tile, const struct tile_run &run,
                                           const struct cuda_tile_instruction &i)
{
    const struct tile_place a = tile_place_make(tile, run, i.a, 0), b = tile_place_make(tile, run, i.b, 1);
    float *out = run.registers + i.out;
    const int out_head = i.out_head;
    each_element(i, run.n, [&](int t, int h, int c) {
        const bool is = __float_as_uint(*b.of(t, h, c)) == source_node(tile, run, t);
        out[t * tile_stride(tile) + h * out_head + c] = is ? *a.of(t, h, c) / i.number[0] : 0.0F;
    });
}

/* random_edge_u32 */
static __device__ __forceinline__ uint32_t edge_draw(const struct cuda_tile &tile, uint32_t to, uint32_t from,
                                                     uint32_t head)
{
    const uint32_t epoch = tile.now != NULL ? tile.now->epoch : tile.key.epoch;
    const uint32_t last = (uint32_t)tile.key.op | (head / 4 & 0xffU) << 16 | (uint32_t)tile.key.stream << 24;
    const uint4 draws = philox(make_uint4(from, to, epoch, last), (uint32_t)tile.key.seed,
                               (uint32_t)(tile.key.seed >> 32));
    return draw_at(draws, head % 4);
}

static __device__ __forceinline__ void drop(const struct cuda_tile &tile, const struct tile_run &run,
                                            const struct cuda_tile_instruction &i)
{
    const struct tile_place a = tile_place_make(tile, run, i.a, 0);
    const float keep = i.number[0];
    const uint32_t threshold = i.special;
    float *out = run.registers + i.out;
    const int out_head = i.out_head, n_column = i.n_column, first = i.n_inner;
    each_element(i, run.n, [&](int t, int h, int c) {
        const float x = *a.of(t, h, c);
        float z = x;
        if (tile.drops) {
            const uint32_t own = own_node(tile, run, t), other = other_node(tile, run, t);
            const uint32_t from = tile.rows_are_sources ? own : other, to = tile.rows_are_sources ? other : own;
            const uint32_t draw = edge_draw(tile, to, from, (uint32_t)(first + h * n_column + c));
            z = draw < threshold ? 0.0F : x * keep;
        }
        out[t * tile_stride(tile) + h * out_head + c] = z;
    });
}

/* z = Σ_k a[k] b[k], k ascending */
static __device__ __forceinline__ void contract_alone(const struct cuda_tile &tile, const struct tile_run &run,
                                                      const struct cuda_tile_instruction &i)
{
    const struct tile_place a = tile_place_make(tile, run, i.a, 0), b = tile_place_make(tile, run, i.b, 1);
    float *out = run.registers + i.out;
    const int out_head = i.out_head, n_inner = i.n_inner, step_a = i.a.inner, step_b = i.b.inner;
    each_element(i, run.n, [&](int t, int h, int c) {
        const float *x = a.of(t, h, c), *y = b.of(t, h, c);
        float sum = 0.0F;
        for (int k = 0; k < n_inner; k++) {
            sum = fmaf(x[k * step_a], y[k * step_b], sum);
        }
        out[t * tile_stride(tile) + h * out_head + c] = sum;
    });
}

/* The same where terms lie side by side in memory: lane l of `lanes` adds terms l, l + lanes, …, and the lanes are
 * added in a tree. */
static __device__ __forceinline__ void contract_together(const struct cuda_tile &tile, const struct tile_run &run,
                                                         const struct cuda_tile_instruction &i)
{
    const struct tile_place a = tile_place_make(tile, run, i.a, 0), b = tile_place_make(tile, run, i.b, 1);
    const int lanes = (int)i.special, lane = group_lane<WARP>(), n_column = i.n_column, n_head = i.n_head;
    const int n = run.n * n_head * n_column, n_inner = i.n_inner, out = i.out, out_head = i.out_head;
    const int step_a = i.a.inner, step_b = i.b.inner;
    __syncwarp(ALL_LANES); /* operands are placed */
    for (int first = 0; first < n; first += WARP / lanes) {
        const int e = first + lane / lanes, c = e % n_column, h = e / n_column % n_head, t = e / n_column / n_head;
        const float *x = a.of(e < n ? t : 0, h, c), *y = b.of(e < n ? t : 0, h, c);
        float sum = 0.0F;
        for (int k = lane % lanes; k < n_inner && e < n; k += lanes) {
            sum = fmaf(x[k * step_a], y[k * step_b], sum);
        }
        for (int apart = lanes / 2; apart > 0; apart /= 2) {
            sum += __shfl_xor_sync(ALL_LANES, sum, apart, WARP);
        }
        if (e < n && lane % lanes == 0) {
            run.registers[t * tile_stride(tile) + out + h * out_head + c] = sum;
        }
    }
    __syncwarp(ALL_LANES);
}

static __device__ __forceinline__ float tile_sigmoid(float x)
{
    return 1.0F / (1.0F + fixed_exp(-x));
}

static __device__ __forceinline__ float tile_tanh(float x)
{
    const float e = fixed_exp(-2.0F * fabsf(x)), y = (1.0F - e) / (1.0F + e);
    return x < 0.0F ? -y : y;
}

static __device__ __forceinline__ float tile_softplus(float x)
{
    return (float)((x > 0.0F ? (double)x : 0.0) + log_of_one_and(exp_of_negative(-fabs((double)x))));
}

/* e^(p ln |x|), negative where x is and p is odd. */
static __device__ __forceinline__ float tile_power(float x, float p)
{
    if (p == 0.0F || p == 1.0F || p == 2.0F) {
        return p == 0.0F ? 1.0F : p == 1.0F ? x : x * x;
    }
    const double log_x = (double)p * fixed_log(fabs((double)x)), e = exp_of_negative(-fabs(log_x));
    const float y = (float)(log_x > 0.0 ? 1.0 / e : e);
    const bool is_whole = floorf(p) == p, is_odd = is_whole && floorf(0.5F * p) != 0.5F * p;
    return x >= 0.0F || !(x < 0.0F) ? y : is_odd ? -y : is_whole ? y : NAN;
}

/* clang-format off */
#define TILE_UNARY_LIST(X)                                                                                           \
    X(COPY, x) X(RELU, x <= 0.0F ? 0.0F : x) X(LEAKY_RELU, x > 0.0F ? x : x * first)                                 \
    X(ELU, x < 0.0F ? expm1_negative(x) : x) X(GELU, fixed_gelu(x)) X(SILU, x * tile_sigmoid(x)) \
    X(SIGMOID, tile_sigmoid(x)) X(TANH, tile_tanh(x)) X(SOFTPLUS, tile_softplus(x)) X(EXP, fixed_exp(x)) \
    X(LOG, (float)fixed_log((double)x)) X(SQRT, sqrtf(x)) X(ABS, fabsf(x)) \
    X(CLAMP, x < first ? first : x > second ? second : x) X(POWER, tile_power(x, first))
#define TILE_BINARY_LIST(X)                                                                                          \
    X(ADD, x + y) X(SUBTRACT, x - y) X(MULTIPLY, x * y) X(DIVIDE, x / y)                                             \
    X(MINIMUM, x < y || isnan(x) ? x : y) X(MAXIMUM, x > y || isnan(x) ? x : y)                                      \
    X(RELU_BACK, y > 0.0F ? x : 0.0F) X(LEAKY_RELU_BACK, y > 0.0F ? x : x * first)                                   \
    X(ELU_BACK, y > 0.0F ? x : x * (y + 1.0F)) X(GELU_BACK, x * fixed_gelu_slope(y)) \
    X(SILU_BACK, x * (tile_sigmoid(y) * fmaf(y, 1.0F - tile_sigmoid(y), 1.0F))) \
    X(SIGMOID_BACK, x * (y * (1.0F - y))) X(TANH_BACK, x * fmaf(-y, y, 1.0F))                                        \
    X(SOFTPLUS_BACK, x * tile_sigmoid(y)) \
    X(SQRT_BACK, x == 0.0F || (y == 0.0F && first != 0.0F) ? 0.0F : 0.5F * x / y)                                \
    X(ABS_BACK, y > 0.0F ? x : y < 0.0F ? -x : 0.0F) X(CLAMP_BACK, y < first || y > second ? 0.0F : x)               \
    X(POWER_BACK, x == 0.0F || first == 0.0F ? 0.0F : x * (first * tile_power(y, first - 1.0F))) \
    X(LESS, x < y ? 1.0F : x == y ? 0.5F : 0.0F)
/* clang-format on */

static __device__ __forceinline__ void instruction_run(const struct cuda_tile &tile, const struct tile_run &run,
                                                       const struct cuda_tile_instruction &i)
{
    const float first = i.number[0], second = i.number[1];
    (void)second;
    switch (i.op) {
#define X(name, expression)                                                                                          \
    case TILE_OP_##name:                                                                                             \
        map<false>(tile, run, i, [=](float x, float) { return expression; });                                        \
        break;
        TILE_UNARY_LIST(X)
#undef X
#define X(name, expression)                                                                                          \
    case TILE_OP_##name:                                                                                             \
        map<true>(tile, run, i, [=](float x, float y) { return expression; });                                       \
        break;
        TILE_BINARY_LIST(X)
#undef X
    case TILE_OP_WON:
        won(tile, run, i);
        break;
    case TILE_OP_DROP:
        drop(tile, run, i);
        break;
    default: /* TILE_OP_CONTRACT */
        if (i.special > 1) {
            contract_together(tile, run, i);
        } else {
            contract_alone(tile, run, i);
        }
        break;
    }
}

static __device__ __forceinline__ void instructions_run(const struct cuda_tile &tile, const struct tile_run &run)
{
    ROLLED for (int k = 0; k < (int)tile.program.n_instruction; k++)
    {
        instruction_run(tile, run, tile.program.instruction[k]);
    }
}

/* --- results --- */

/* Where the numbers of a result begin in each row of a run. */
struct tile_leaving {
    const float *const *from, *const *with; /* with NULL: there are no factors or scores */
    int n_column;                           /* numbers that share one */

    /* Number c, times factor j where there are factors. */
    __device__ __forceinline__ float of(int t, int c, int j) const
    {
        return with != NULL ? with[t][j] * from[t][c] : from[t][c];
    }
};

static __device__ __forceinline__ struct tile_leaving
leaving_make(const struct cuda_tile &tile, const struct tile_run &run, const struct cuda_tile_result &r)
{
    struct tile_leaving l = {tile_place_make(tile, run, r.from, 0).rows, NULL, r.n_with > 0 ? r.n / r.n_with : r.n};
    if (r.n_with > 0) {
        l.with = tile_place_make(tile, run, r.with, 1).rows;
    }
    __syncwarp(ALL_LANES);
    return l;
}

/* --- gradients of weights --- */

static __device__ __forceinline__ double *gradient_set(const struct cuda_tile &tile, int64_t range)
{
    return tile.sums.sets + range * tile.sums.n_grad;
}

static __device__ __forceinline__ void set_begin(const struct cuda_tile &tile, int64_t range)
{
    double *set = gradient_set(tile, range);
    for (int64_t i = group_lane<WARP>(); i < tile.sums.n_grad; i += WARP) {
        set[i] = 0.0;
    }
    __syncwarp(ALL_LANES);
}

/* A run's sums in float, added in double. */
static __device__ __forceinline__ void param_add(const struct cuda_tile &tile, const struct tile_run &run,
                                                 const struct cuda_tile_result &r, int64_t range)
{
    const struct tile_leaving l = leaving_make(tile, run, r);
    const int n_with = r.n_with > 0 ? r.n_with : 1, lanes = r.lanes, lane = group_lane<WARP>();
    double *set = gradient_set(tile, range) + r.at;
    int i = lane / n_with, j = lane % n_with;
    while (i < r.n && lane < lanes) {
        float sum = 0.0F;
        ROLLED for (int t = 0; t < run.n; t++)
        {
            sum = l.with != NULL ? fmaf(l.from[t][i], l.with[t][j], sum) : sum + l.from[t][i];
        }
        set[(int64_t)i * r.step + (int64_t)j * r.step_with] += (double)(tile.factor * sum);
        j += lanes % n_with;
        i += lanes / n_with + (j >= n_with ? 1 : 0);
        j -= j >= n_with ? n_with : 0;
    }
    __syncwarp(ALL_LANES);
}

#endif
