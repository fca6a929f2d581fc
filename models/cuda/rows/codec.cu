/* Payload rows in low precision: the arithmetic is models/device/codec.h's; sixteen threads take a row. */
#include "models/cuda/quads.h"
#include "models/cuda/vector.h"

#define LANES 16

/* Rows to encode, as arguments of kernels. */
struct coding {
    int64_t n_row, f, n_word; /* words of a row, with its header */
    const uint32_t *rows;
    const void *x;
    int64_t is_bf16; /* a bool: arguments have no padding */
    struct random_key key;
    const struct device_now *now;
    const uint32_t *node;
    double factor;         /* a float */
    const float *residual; /* may be residual_out: a row is read before it is written */
    float *residual_out;
    const uint32_t *residual_rows;
};

/* One row: of x, and its place among residuals. */
struct coding_row {
    int64_t row, place;
};

static __device__ __forceinline__ coding_row row_open(const coding &how, int64_t r)
{
    const int64_t row = how.rows != nullptr ? (int64_t)how.rows[r] : r;
    const coding_row out = {row, how.residual_rows != nullptr ? (int64_t)how.residual_rows[r] : row};
    return out;
}

/* Column c, encoded. */
static __device__ __forceinline__ float value_of(const coding &how, const coding_row &row, int64_t c)
{
    const float x = how.is_bf16 ? element_read<float, true>(how.x, row.row * ((how.f + 1) / 2 * 2) + c)
                                : ((const float *)how.x)[row.row * how.f + c];
    return how.residual != nullptr ? x + how.residual[row.place * how.f + c] : (float)how.factor * x;
}

/* The rounding error of column c. */
static __device__ __forceinline__ void lose(const coding &how, const coding_row &row, int64_t c, float lost)
{
    if (how.residual_out != nullptr) {
        how.residual_out[row.place * how.f + c] = lost;
    }
}

/* Columns that one draw, of four words, rounds. */
#define DRAW_COLUMNS 8

/* The draw of column c of eight, 16 bits of it: the lower half of a word is the first one's. */
static __device__ __forceinline__ uint16_t draw_half(const uint4 &draws, int c)
{
    return (uint16_t)(draw_at(draws, (unsigned)c / 2) >> (c % 2 * 16));
}

/* The columns that are written to one word, and how they are rounded; past the end of the row they are 0. */
template <int N> struct word_columns {
    float x[N];
    uint16_t draw[N];
};

/* A word has N columns, from column c on; or eight columns begin with it. */
template <int N>
static __device__ __forceinline__ void columns_open(const coding &how, const coding_row &row, int64_t c,
                                                    word_columns<N> *out)
{
    const uint32_t epoch = how.now != nullptr ? how.now->epoch : how.key.epoch;
    for (int first = 0; first < N; first += DRAW_COLUMNS) {
        const uint4 draws = draw_quad(how.key, epoch, how.node[row.row], (uint32_t)((c + first) / DRAW_COLUMNS));
        for (int k = first; k < first + DRAW_COLUMNS; k++) {
            out->x[k] = c + k < how.f ? value_of(how, row, c + k) : 0.0F;
            out->draw[k] = draw_half(draws, k - first);
        }
    }
}

/* --- bf16: a thread writes eight columns, four words --- */

static __device__ __forceinline__ void bf16_row(const coding &how, const coding_row &row, int lane, uint32_t *out)
{
    for (int64_t c = DRAW_COLUMNS * lane; c < how.f; c += DRAW_COLUMNS * LANES) {
        word_columns<DRAW_COLUMNS> columns;
        columns_open(how, row, c, &columns);
        for (int k = 0; k < DRAW_COLUMNS; k += 2) {
            if (c + k < how.f) {
                const uint32_t low = codec_bf16(columns.x[k], columns.draw[k]);
                const uint32_t high = c + k + 1 < how.f ? codec_bf16(columns.x[k + 1], columns.draw[k + 1]) : 0;
                out[(c + k) / 2] = low | high << 16;
                lose(how, row, c + k, codec_lost(columns.x[k], codec_from_bits(low << 16)));
                if (c + k + 1 < how.f) {
                    lose(how, row, c + k + 1, codec_lost(columns.x[k + 1], codec_from_bits(high << 16)));
                }
            }
        }
    }
}

/* --- integers --- */

/* Least and greatest element of a row: lane l has columns l, l + 16, …, and of equal ones (0 and -0) the first lane's
 * first counts. All lanes of the warp take part. */
static __device__ __forceinline__ struct codec_range range_find(const coding &how, const coding_row &row, bool there,
                                                                int lane, int level)
{
    float low = CUDART_INF_F, high = -CUDART_INF_F, rest = 0.0F;
    for (int64_t c = lane; there && c < how.f; c += LANES) {
        const float value = value_of(how, row, c);
        low = value < low ? value : low;
        high = value > high ? value : high;
        rest = rest + 0.0F * value;
    }
    for (int apart = 1; apart < LANES; apart *= 2) { /* lane 0 gathers 0 and 1, then 2 and 3, … */
        const float other_low = __shfl_down_sync(ALL_LANES, low, apart, LANES);
        const float other_high = __shfl_down_sync(ALL_LANES, high, apart, LANES);
        low = other_low < low ? other_low : low;
        high = other_high > high ? other_high : high;
        rest = rest + __shfl_down_sync(ALL_LANES, rest, apart, LANES);
    }
    low = __shfl_sync(ALL_LANES, low, 0, LANES);
    high = __shfl_sync(ALL_LANES, high, 0, LANES);
    rest = __shfl_sync(ALL_LANES, rest, 0, LANES);
    return codec_range_make(low, high, rest == 0.0F, level);
}

/* Codes after the header; a thread writes the words of one or two draws. */
template <int BITS>
static __device__ __forceinline__ void integers_row(const coding &how, const struct codec_range &range,
                                                    const coding_row &row, int lane, uint32_t *out)
{
    constexpr int each = 32 / BITS, n = each < DRAW_COLUMNS ? DRAW_COLUMNS : each, level = (1 << BITS) - 1;
    for (int64_t c = n * lane; c < how.f; c += n * LANES) {
        word_columns<n> columns;
        columns_open(how, row, c, &columns);
        for (int w = 0; w < n / each; w++) {
            uint32_t word = 0;
            for (int k = 0; k < each; k++) {
                const int i = w * each + k;
                const bool coded = c + i < how.f && range.header != CODEC_NO_NUMBER;
                const uint32_t code = coded ? (uint32_t)codec_code(&range, columns.x[i], columns.draw[i], level) : 0U;
                word |= code << (k * BITS);
                if (c + i < how.f) {
                    lose(how, row, c + i, coded ? codec_lost(columns.x[i], codec_value(&range, code)) : 0.0F);
                }
            }
            if (c + w * each < how.f) {
                out[c / each + w] = word;
            }
        }
    }
}

/* At least two blocks per processor: otherwise the compiler aims at four, and spills a register. */
template <int BITS> __global__ void __launch_bounds__(BLOCK_THREADS, 2) encode_rows(const coding how, uint32_t *out)
{
    const int lane = (int)threadIdx.x % LANES;
    for (int64_t first = grid_thread() / WARP * 2; first < how.n_row; first += grid_threads() / LANES) {
        const int64_t r = first + (int)threadIdx.x % WARP / LANES;
        const bool there = r < how.n_row;
        const coding_row none = {0, 0}, row = there ? row_open(how, r) : none;
        uint32_t *to = out + r * how.n_word;
        if (BITS == 16) {
            if (there) {
                bf16_row(how, row, lane, to);
            }
            continue;
        }
        const struct codec_range range = range_find(how, row, there, lane, (1 << BITS) - 1);
        if (there) {
            integers_row<BITS>(how, range, row, lane, to + 1);
        }
        if (there && lane == 0) {
            to[0] = range.header;
        }
    }
}

extern "C" void cuda_rows_encode(struct device *device, const struct device_coding *how, void *out)
{
    const coding coding = {how->n_row,
                           how->f,
                           codec_row_bytes(how->codec, how->f) / 4,
                           how->rows,
                           how->x,
                           how->is_bf16,
                           how->key,
                           how->now,
                           how->node,
                           (double)how->factor,
                           how->residual,
                           how->residual_out,
                           how->residual_rows};
    const dim3 grid(grid_size(how->n_row, BLOCK_THREADS / LANES)), block(BLOCK_THREADS);
    if (how->n_row == 0) {
        return;
    }
    switch (codec_bits(how->codec)) {
    case 16:
        LAUNCH(encode_rows<16>, grid, block, cuda_stream(device), coding, (uint32_t *)out);
        break;
    case 8:
        LAUNCH(encode_rows<8>, grid, block, cuda_stream(device), coding, (uint32_t *)out);
        break;
    case 4:
        LAUNCH(encode_rows<4>, grid, block, cuda_stream(device), coding, (uint32_t *)out);
        break;
    default:
        LAUNCH(encode_rows<2>, grid, block, cuda_stream(device), coding, (uint32_t *)out);
        break;
    }
}

/* --- rounding, and reading what was rounded --- */

/* to = from, which is rounded where it lies, too. */
template <bool ROUNDS> struct convert_map {
    quad_rows from, to;
    template <bool VECTOR> __device__ void quad(int64_t r, int64_t c, int n) const
    {
        struct quad value = from.load<VECTOR>(r, c, n);
        for (int k = 0; ROUNDS && k < 4; k++) {
            value.v[k] = codec_round(value.v[k]);
        }
        if (ROUNDS) {
            from.put<VECTOR>(r, c, n, false, value);
        }
        if (to.at != nullptr) {
            to.put<VECTOR>(r, c, n, false, value);
        }
    }
};

extern "C" void cuda_rows_round(struct device *device, int64_t n_row, int64_t f, float *x, void *out)
{
    const convert_map<true> map = {{x, f, 0}, {out, (f + 1) / 2 * 2, 1}};
    quads_launch(device, n_row, f, quad_rows_aligned(false, map.from, map.to), map);
}

/* --- reading --- */

/* Four columns of a row whose codes lie behind its header. */
template <int BITS> struct decode_map {
    int64_t f, n_word;
    const uint32_t *from;
    float *out;
    template <bool VECTOR> __device__ void quad(int64_t r, int64_t c, int n) const
    {
        const uint32_t *row = from + r * n_word;
        struct quad value;
        constexpr int level = (1 << BITS) - 1;
        const struct codec_range range = codec_range_read(__ldg(row), level);
        const uint32_t codes = __ldg(row + 1 + c * BITS / 32) >> (c * BITS % 32);
        for (int k = 0; k < 4; k++) {
            value.v[k] = codec_value(&range, codes >> (k * BITS) & (uint32_t)level);
        }
        quad_store<VECTOR>(out + r * f + c, n, value);
    }
};

template <int BITS>
static void decode_launch(struct device *device, enum device_codec codec, int64_t n_row, int64_t f, const void *from,
                          float *out)
{
    const decode_map<BITS> map = {f, codec_row_bytes(codec, f) / 4, (const uint32_t *)from, out};
    quads_launch(device, n_row, f, f % 4 == 0 && quad_aligned(out), map);
}

extern "C" void cuda_rows_decode(struct device *device, enum device_codec codec, int64_t n_row, int64_t f,
                                 const void *from, float *out)
{
    const convert_map<false> map = {{(void *)from, (f + 1) / 2 * 2, 1}, {out, f, 0}};
    const int bits = codec_bits(codec);
    if (bits == 16) {
        quads_launch(device, n_row, f, quad_rows_aligned(false, map.from, map.to), map);
        return;
    }
    (bits == 8   ? decode_launch<8>
     : bits == 4 ? decode_launch<4>
                 : decode_launch<2>)(device, codec, n_row, f, from, out);
}
