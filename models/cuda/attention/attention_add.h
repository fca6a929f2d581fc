/* Passes of the score `add` over edges without features, whose weights depend on one number of either end: each lane
 * of a group makes the weight of one edge, and all of them then add the rows of these edges as a sum over neighbours
 * does. Two sums per column, over all edges and over those with key + query > 0, are all that any pass needs.
 *
 * A warp's groups take heads one behind another, as their columns fill lanes with loads of 16 bytes: of 4 heads of 64
 * columns all of a row. They go on until the longest of their rows ends, so that every exchange is one of all lanes.
 * Behind its last edge a group reads that edge's row again, with weights of 0. Rows of the first edges are asked for
 * before their weights are made, and before forward looks for the greatest score.
 *
 * A pass is a struct template PASS<S> with
 *   To, SOURCES                 where results go; rows are sources
 *   look(a, ends, slice, query, key)    of forward: the greatest score; key: of the first edges
 *   before(a, to, r)            of forward: what the blocks before have left
 *   store(a, to, r, s, writes)  all lanes of a warp call it; writes: the sums are those of this lane's row
 */
#ifndef MODELS_CUDA_ATTENTION_ADD_H
#define MODELS_CUDA_ATTENTION_ADD_H

#include "models/cuda/attention/attention_pass.h"

/* leaky(x) + shift */
static __device__ __forceinline__ float add_score(const struct cuda_attention &a, float x)
{
    return fmaf(leaky_slope(x, a.slope), x, a.shift);
}

/* Row `row` of rows of `stride` bytes. */
static __device__ __forceinline__ const float *row_at(const void *rows, uint32_t stride, uint32_t row)
{
    return (const float *)((const char *)rows + (uint64_t)row * stride);
}

/* The other ends of a head's edges, and what the weight of one needs of it; of sources' edges also L and D. */
struct far_ends {
    const float *number, *softmax, *columns;
};

struct far_end {
    float number, log_sum, d;
};

template <bool SOURCES>
static __device__ __forceinline__ struct far_ends far_ends_make(const struct cuda_attention &a, bool are_self, int h)
{
    const struct device_attention_source &source = are_self ? a.self_source : a.source;
    const struct device_attention_target &target = are_self ? a.self_target : a.target;
    return {(SOURCES ? target.query : source.key) + h, target.softmax + 2 * h,
            (SOURCES ? target.grad_out : source.value) + (int64_t)h * a.n_column};
}

template <bool SOURCES, bool ALIGNED>
static __device__ __forceinline__ struct far_end end_read(const struct cuda_attention &a, const struct far_ends &ends,
                                                          uint32_t row)
{
    struct far_end far = {__ldg(row_at(ends.number, a.bytes.head, row)), 0.0F, 0.0F};
    if (SOURCES) {
        const float *at = row_at(ends.softmax, 2 * a.bytes.head, row);
        const float2 both = ALIGNED ? __ldg((const float2 *)at) : make_float2(at[0], at[1]);
        far.log_sum = both.x;
        far.d = both.y;
    }
    return far;
}

/* The weight of this lane's edge, negative where key + query is not positive; also added to the lane's share of the
 * sums that are one number: narrow is Σ leaky'(x) α D, of forward that of the weights with their sign. */
template <bool SOURCES, class SUMS>
static __device__ __forceinline__ float weigh(const struct cuda_attention &a, float own, const struct far_end &far,
                                              bool there, SUMS *s)
{
    const float x = far.number + own, base = SOURCES ? far.log_sum : s->row_max;
    const float weight = fixed_exp(there ? add_score(a, x) - base : -CUDART_INF_F),
                some = x > 0.0F ? weight : -weight;
    s->norm += weight;
    s->narrow = SOURCES ? fmaf(leaky_slope(x, a.slope) * weight, far.d, s->narrow) : s->narrow + some;
    return some;
}

/* The edges that a group takes; most: of a group of its warp. A group without edges reads the block's first one,
 * whose sums are dropped. */
template <typename S> struct edge_slice {
    const void *cols;
    bool any;
    int last, most;

    __device__ __forceinline__ edge_slice(const struct cuda_attention &a, int64_t begin, int n)
        : cols((const char *)a.cols + (n > 0 ? begin : 0) * (int64_t)sizeof(uint32_t)), any(n > 0),
          last(n > 0 ? n - 1 : 0), most(n)
    {
        for (int d = S::LANES; d < WARP; d *= 2) {
            const int other = __shfl_xor_sync(ALL_LANES, most, d, WARP);
            most = other > most ? other : most;
        }
        most = __shfl_sync(ALL_LANES, most, 0, WARP); /* so the compiler knows that it is one number */
    }

    /* Of edge e, or the last one. */
    __device__ __forceinline__ uint32_t col(int e) const
    {
        return __ldg((const uint32_t *)row_at(cols, sizeof(uint32_t), (uint32_t)(e < last ? e : last)));
    }
};

/* Rows of some edges, on their way: this lane's columns. */
template <typename S, bool ALIGNED> struct rows_ahead {
    static constexpr int N = S::W == 1 && S::VECTORS > 1 ? 2 : 8 / S::VECTORS < S::LANES ? 8 / S::VECTORS : S::LANES;
    float value[N][S::N];

    /* Edges e … of those whose columns the group's lanes have; in each row this lane's vectors begin at these. */
    __device__ __forceinline__ void ask(const float *const vector[S::VECTORS], uint32_t stride, uint32_t col, int e)
    {
        for (int k = 0; k < N; k++) {
            const uint32_t row = __shfl_sync(ALL_LANES, col, e + k, S::LANES);
            for (int v = 0; v < S::VECTORS; v++) { /* fours fill all vectors, side by side: one address for them */
                const float *x = S::W == 4 ? row_at(vector[0], stride, row) + v * S::LANES * S::W
                                           : row_at(vector[v], stride, row);
                vector_take<S, ALIGNED>(x, value[k] + v * S::W);
            }
        }
    }

    /* wide[0] += |weight| · row, and where `both` sums are wanted wide[1] += weight · row */
    __device__ __forceinline__ void add(float weight, int e, bool both, sums<S, 2> *s) const
    {
        float by[N];
        for (int k = 0; k < N; k++) {
            by[k] = __shfl_sync(ALL_LANES, weight, e + k, S::LANES);
            for (int i = 0; i < S::N; i++) {
                s->wide[0][i] = fmaf(fabsf(by[k]), value[k][i], s->wide[0][i]);
            }
        }
        for (int k = 0; both && k < N; k++) {
            for (int i = 0; i < S::N; i++) {
                s->wide[1][i] = fmaf(by[k], value[k][i], s->wide[1][i]);
            }
        }
    }
};

/* Add a group's edges to s, which holds nothing yet. */
template <class P, bool ALIGNED, bool DROPS>
static __device__ __forceinline__ void slice_add(const struct cuda_attention &a, const struct head_row &r,
                                                 const edge_slice<typename P::Shape> &slice, bool both, float own,
                                                 sums<typename P::Shape, 2> *s)
{
    using S = typename P::Shape;
    using Ahead = rows_ahead<S, ALIGNED>;
    const int l = group_lane<S::LANES>();
    const struct far_ends ends = far_ends_make<P::SOURCES>(a, false, r.h);
    const float *vector[S::VECTORS]; /* lanes without any columns read what is there */
    for (int v = 0; v < S::VECTORS; v++) {
        const int c = lane_column<S>(r.column) + v * S::LANES * S::W;
        vector[v] = ends.columns + (c < (int)a.n_column ? c : 0);
    }
    Ahead ahead;
    uint32_t col = slice.col(l);
    struct far_end far = end_read<P::SOURCES, ALIGNED>(a, ends, col);
    ahead.ask(vector, a.bytes.wide, col, 0);
    if constexpr (!P::SOURCES) {
        s->row_max = P::look(a, ends, slice, own, far.number);
    }
    ROLLED
    for (int at = 0;;) {
        const uint32_t next = slice.col(at + S::LANES + l);
        const float weight = weigh<P::SOURCES>(a, own, far, at + l <= slice.last, s) *
                             drop_factor<DROPS>(a, r, col, false);
        ahead.add(weight, 0, both, s);
        far = end_read<P::SOURCES, ALIGNED>(a, ends, next);
        for (int e = Ahead::N; e < S::LANES && at + e < slice.most; e += Ahead::N) {
            ahead.ask(vector, a.bytes.wide, col, e);
            ahead.add(weight, e, both, s);
        }
        at += S::LANES;
        if (at >= slice.most) {
            break;
        }
        col = next;
        ahead.ask(vector, a.bytes.wide, col, 0);
    }
    s->norm = group_sum<S::LANES>(s->norm, ALL_LANES);
    s->narrow = group_sum<S::LANES>(s->narrow, ALL_LANES);
    for (int i = 0; i < S::N; i++) { /* over the positive weights alone */
        s->wide[1][i] = 0.5F * (s->wide[0][i] + s->wide[1][i]);
    }
}

/* The sums over a slice of a row's edges; first: and over what belongs to a row once. */
template <class P, bool ALIGNED, bool DROPS>
static __device__ __forceinline__ sums<typename P::Shape, 2>
slice_sums(const struct cuda_attention &a, const typename P::To &to, const struct head_row &r,
           const edge_slice<typename P::Shape> &slice, bool first)
{
    using S = typename P::Shape;
    const float none = P::SOURCES ? 0.0F : -CUDART_INF_F, own = (P::SOURCES ? a.source.key : a.target.query)[r.own];
    sums<S, 2> s(none), self(none);
    bool both = true;
    if constexpr (!P::SOURCES) {
        both = to.positive != NULL;
    }
    if (slice.most > 0) {
        slice_add<P, ALIGNED, DROPS>(a, r, slice, both, own, &s);
    }
    if (!slice.any) {
        s = sums<S, 2>(none);
    }
    if (first && a.with_self) {
        const uint32_t row = (uint32_t)r.row;
        const struct far_ends ends = far_ends_make<P::SOURCES>(a, true, r.h);
        const struct far_end far = end_read<P::SOURCES, ALIGNED>(a, ends, row);
        self.row_max = P::SOURCES ? none : add_score(a, far.number + own);
        const float weight = weigh<P::SOURCES>(a, own, far, true, &self) * drop_factor<DROPS>(a, r, row, true);
        float value[S::N];
        columns_read<S, ALIGNED>(a, row_at(ends.columns, a.bytes.wide, row), r.column, true, value);
        for (int i = 0; i < S::N; i++) {
            self.wide[0][i] = fabsf(weight) * value[i];
            self.wide[1][i] = fmaxf(weight, 0.0F) * value[i];
        }
        s.join(self);
    }
    if constexpr (!P::SOURCES) {
        s.narrow = 0.5F * (s.norm + s.narrow); /* of the positive weights */
        if (first && !a.begin) {
            s.join(P::before(a, to, r));
        }
    }
    return s;
}

/* DROPS: there may be dropout, for which registers are needed. */
template <class P, bool ALIGNED, bool DROPS>
__global__ void __launch_bounds__(PASS_THREADS, DROPS ? 4 : 5)
    pass_heads(const struct cuda_attention a, const typename P::To to)
{
    using S = typename P::Shape;
    const int64_t n = a.n_row * a.n_head;
    const int group = (int)(threadIdx.x % WARP) / S::LANES, n_group = WARP / S::LANES;
    for (int64_t first = __shfl_sync(ALL_LANES, grid_group<WARP>(), 0, WARP) * n_group; first < n;
         first += grid_groups<WARP>() * n_group) {
        const int64_t i = first + group;
        int h;
        const int64_t row = divide(i < n ? i : n - 1, (int)a.n_head, &h);
        struct head_row r = head_row_make(a, row, h);
        const bool mine = i < n && r.end - r.begin <= a.n_most;
        const edge_slice<S> slice(a, r.begin, mine ? (int)(r.end - r.begin) : 0);
        for (; r.column < (int)a.n_column; r.column += S::COLUMNS) {
            P::store(a, to, r, slice_sums<P, ALIGNED, DROPS>(a, to, r, slice, mine), mine);
        }
    }
}

/* Long rows: the groups of a block take a slice of the edges each. */
template <class P>
__global__ void __launch_bounds__(P::Shape::GROUPS *P::Shape::LANES, 1)
    pass_long_heads(const struct cuda_attention a, const typename P::To to, int64_t n_share)
{
    using S = typename P::Shape;
    SHARED(float, joined, (S::GROUPS * sums<S, 2>::FLOATS));
    const struct cuda_unit *unit = CUDA_UNITS(a.schedule);
    const int group = (int)threadIdx.x / S::LANES;
    for (int64_t i = blockIdx.x; i < n_share * a.n_head; i += gridDim.x) {
        int h;
        int64_t u, last;
        for (share_units(a, divide(i, (int)a.n_head, &h), n_share, &u, &last); u < last; u++) {
            if (!begins_long(a, unit[u])) {
                continue;
            }
            struct head_row r = head_row_make(a, unit[u].row, h);
            const int64_t n = r.end - r.begin, begin = n * group / S::GROUPS, end = n * (group + 1) / S::GROUPS;
            const edge_slice<S> slice(a, r.begin + begin, (int)(end - begin));
            for (; r.column < (int)a.n_column; r.column += S::COLUMNS) {
                sums<S, 2> s = S::W == 4 && a.aligned ? slice_sums<P, true, true>(a, to, r, slice, group == 0)
                                                      : slice_sums<P, false, true>(a, to, r, slice, group == 0);
                groups_join(joined, &s);
                if (threadIdx.x < WARP) {
                    P::store(a, to, r, s, group == 0);
                }
            }
        }
    }
}

template <class P>
static void heads_launch(const struct cuda_attention_grid &on, const struct cuda_attention &a,
                         const typename P::To &to)
{
    using S = typename P::Shape;
    constexpr bool FOURS = S::W == 4;
    const auto rows = FOURS && !a.aligned     ? pass_heads<P, false, true>
                      : a.drop.threshold == 0 ? pass_heads<P, FOURS, false>
                                              : pass_heads<P, FOURS, true>;
    LAUNCH(rows, grid_size(a.n_row * a.n_head, PASS_THREADS / S::LANES), PASS_THREADS, on.stream, a, to);
    if (on.n_share > 0) {
        LAUNCH(pass_long_heads<P>, grid_size(on.n_share * a.n_head, 1), S::GROUPS * S::LANES, on.stream, a, to,
               on.n_share);
    }
}

/* For the shape that fits heads of n_column columns: two vectors a lane where these are filled. */
template <template <typename> class PASS, class To>
static void add_launch(const struct cuda_attention_grid &on, const struct cuda_attention &a, const To &to)
{
    const int64_t n = a.n_column;
    if (!on.fours) {
        n <= 8 ? heads_launch<PASS<shape<1, 8, 1>>>(on, a, to) : heads_launch<PASS<shape<1, 32, 4>>>(on, a, to);
    } else {
        n <= 16        ? heads_launch<PASS<shape<4, 4, 1>>>(on, a, to)
        : n <= 32      ? heads_launch<PASS<shape<4, 8, 1>>>(on, a, to)
        : n == 64      ? heads_launch<PASS<shape<4, 8, 2>>>(on, a, to)
        : n < 64       ? heads_launch<PASS<shape<4, 16, 1>>>(on, a, to)
        : n % 128 == 0 ? heads_launch<PASS<shape<4, 16, 2>>>(on, a, to)
                       : heads_launch<PASS<shape<4, 32, 1>>>(on, a, to);
    }
}

#endif
