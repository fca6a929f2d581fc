/* The walk of an attention's pass over rows and their edges, once: forward, gradients of queries, gradients of
 * sources.
 *
 * A group of lanes takes a head of a range of rows, row after row, a few edges at a time; the groups of a block take
 * a slice each of a long row's edges and join their sums in order. Of the score `add` attention_add.h does that. A
 * pass is a struct template PASS<SCORE, S> with
 *   To, Own, Sums, Kept     where results go; the row's own numbers; a row's sums; what is added up over rows
 *   Edges                   AHEAD edges: edge[AHEAD], load<ALIGNED>(a, r, own), add(a, own, sums)
 *   own_load<ALIGNED>(a, to, r)
 *   start(a, to, r, empty)  the sums before the first edge; empty: of another group than the first, or of rows that
 *   store(a, to, r, s, kept)    begin
 *   finish(a, to, part, h, column, kept)    once for each range, or share of the long rows
 *   BLOCKS                  of a multiprocessor that its registers must suffice for
 */
#ifndef MODELS_CUDA_ATTENTION_PASS_H
#define MODELS_CUDA_ATTENTION_PASS_H

#include "models/cuda/attention/attention.h"

/* Threads of a block that takes rows which no groups share. */
#define PASS_THREADS 128

/* Passes that begin at 0, and keep nothing over rows. */
struct kept_nothing {
};

template <class SUMS> struct pass_base {
    using Sums = SUMS;
    template <class... T> static __device__ __forceinline__ Sums start(const T &...)
    {
        return Sums(0.0F);
    }

    template <class... T> static __device__ __forceinline__ void finish(const T &...)
    {
    }
};

template <class P, bool ALIGNED>
static __device__ __forceinline__ void edges_walk(const struct cuda_attention &a, const typename P::To &to,
                                                  const struct head_row &r, int64_t begin, int64_t end,
                                                  typename P::Sums *s)
{
    constexpr int LANES = P::Shape::LANES;
    const typename P::Own own = P::template own_load<ALIGNED>(a, to, r);
    for (int64_t at = begin; at < end; at += LANES) {
        const struct batch batch = batch_load<LANES>(a, r, at, end);
        for (int k = 0; k < batch.n; k += P::Edges::AHEAD) {
            typename P::Edges edges;
            for (int i = 0; i < P::Edges::AHEAD; i++) {
                edges.edge[i] = edge_make<LANES>(a, r, batch, at, k + i);
            }
            edges.template load<ALIGNED>(a, r, own);
            edges.add(a, own, s);
        }
    }
}

/* All lanes of a group decide alike, once for all edges. */
template <class P>
static __device__ __forceinline__ void row_walk(const struct cuda_attention &a, const typename P::To &to,
                                                const struct head_row &r, int64_t begin, int64_t end,
                                                typename P::Sums *s)
{
    if (P::Shape::W == 1 || a.aligned) {
        edges_walk<P, true>(a, to, r, begin, end, s);
    } else {
        edges_walk<P, false>(a, to, r, begin, end, s);
    }
}

/* A group takes one head of a range of rows, row after row. Blocks are small: all wait for the longest row of one. */
template <class P>
__global__ void __launch_bounds__(PASS_THREADS, 2 * P::BLOCKS)
    pass_rows(const struct cuda_attention a, const typename P::To to, int64_t n_range, int64_t range_rows)
{
    using S = typename P::Shape;
    for (int64_t i = grid_group<S::LANES>(); i < n_range * a.n_head; i += grid_groups<S::LANES>()) {
        int h;
        const int64_t range = divide(i, (int)a.n_head, &h);
        const int64_t last = (range + 1) * range_rows < a.n_row ? (range + 1) * range_rows : a.n_row;
        for (int column = 0; column < (int)a.n_column; column += S::COLUMNS) {
            typename P::Kept kept = {};
            for (int64_t row = range * range_rows; row < last; row++) {
                struct head_row r = head_row_make(a, row, h);
                r.column = column;
                if (r.end - r.begin <= a.n_most) {
                    typename P::Sums s = P::start(a, to, r, a.begin);
                    row_walk<P>(a, to, r, r.first, r.end, &s);
                    P::store(a, to, r, s, &kept);
                }
            }
            P::finish(a, to, range, h, column, kept);
        }
    }
}

/* Long rows: the groups of a block take a slice of the edges each. */
template <class P>
__global__ void __launch_bounds__(P::Shape::GROUPS *P::Shape::LANES, 1)
    pass_long(const struct cuda_attention a, const typename P::To to, int64_t n_share)
{
    using S = typename P::Shape;
    SHARED(float, joined, (S::GROUPS * P::Sums::FLOATS));
    const struct cuda_unit *unit = CUDA_UNITS(a.schedule);
    for (int64_t i = blockIdx.x; i < n_share * a.n_head; i += gridDim.x) {
        int h;
        int64_t u, last;
        const int64_t share = divide(i, (int)a.n_head, &h);
        for (int column = 0; column < (int)a.n_column; column += S::COLUMNS) {
            typename P::Kept kept = {};
            for (share_units(a, share, n_share, &u, &last); u < last; u++) {
                if (!begins_long(a, unit[u])) {
                    continue;
                }
                struct head_row r = head_row_make(a, unit[u].row, h);
                r.column = column;
                const int64_t n = r.end - r.first, group = threadIdx.x / S::LANES;
                const int64_t begin = r.first + n * group / S::GROUPS, end = r.first + n * (group + 1) / S::GROUPS;
                typename P::Sums s = P::start(a, to, r, a.begin || threadIdx.x >= S::LANES);
                row_walk<P>(a, to, r, begin, end, &s);
                groups_join(joined, &s);
                if (threadIdx.x < S::LANES) {
                    P::store(a, to, r, s, &kept);
                }
            }
            if (threadIdx.x < S::LANES) {
                P::finish(a, to, share, h, column, kept);
            }
        }
    }
}

/* long_to: where the long rows' results go. */
template <class P>
static void shape_launch(const struct cuda_attention_grid &on, const struct cuda_attention &a,
                         const typename P::To &to, const typename P::To &long_to)
{
    using S = typename P::Shape;
    const unsigned grid = grid_size(on.n_range * a.n_head, PASS_THREADS / S::LANES);
    LAUNCH((pass_rows<P>), grid, PASS_THREADS, on.stream, a, to, on.n_range, on.range_rows);
    if (on.n_share > 0) {
        LAUNCH((pass_long<P>), grid_size(on.n_share * a.n_head, 1), S::GROUPS * S::LANES, on.stream, a, long_to,
               on.n_share);
    }
}

/* For the shape that fits heads of n_column columns. */
template <template <int, typename> class PASS, int SCORE, class To>
static void score_launch(const struct cuda_attention_grid &on, const struct cuda_attention &a, const To &to,
                         const To &long_to)
{
    const int64_t n = a.n_column;
    if (!on.fours) {
        n <= 8 ? shape_launch<PASS<SCORE, shape<1, 8, 1>>>(on, a, to, long_to)
               : shape_launch<PASS<SCORE, shape<1, 32, 4>>>(on, a, to, long_to);
    } else {
        n <= 16    ? shape_launch<PASS<SCORE, shape<4, 4, 1>>>(on, a, to, long_to)
        : n <= 32  ? shape_launch<PASS<SCORE, shape<4, 8, 1>>>(on, a, to, long_to)
        : n <= 64  ? shape_launch<PASS<SCORE, shape<4, 16, 1>>>(on, a, to, long_to)
        : n <= 128 ? shape_launch<PASS<SCORE, shape<4, 32, 1>>>(on, a, to, long_to)
                   : shape_launch<PASS<SCORE, shape<4, 32, 2>>>(on, a, to, long_to);
    }
}

/* For scores but `add`. */
template <template <int, typename> class PASS, class To>
static void pass_launch(enum device_score_kind score, const struct cuda_attention_grid &on,
                        const struct cuda_attention &a, const To &to, const To &long_to)
{
    score == DEVICE_SCORE_MLP   ? score_launch<PASS, DEVICE_SCORE_MLP>(on, a, to, long_to)
    : score == DEVICE_SCORE_DOT ? score_launch<PASS, DEVICE_SCORE_DOT>(on, a, to, long_to)
                                : score_launch<PASS, DEVICE_SCORE_COSINE>(on, a, to, long_to);
}

#endif
