/* Passes of the score `add` over edges without features, whose weights depend on one number of either end: each lane
 * of a group makes the weight of one edge, and all of them then add the rows of these edges as a sum over neighbours
 * does.
 * Two sums per column, over all edges and over those with key + query > 0, are all that any pass needs.
 *
 * A pass P has, beside what attention_pass.h asks for,
 *   Far, far<ALIGNED>(a, head)  what an edge's weight needs of its other end, and reading it there
 *   weigh(a, own, far, there, kept, s)    returns the weight of this lane's edge, and adds to its share of the sums
 *                               that are one number; all lanes of the group call it
 */
#ifndef MODELS_CUDA_ATTENTION_ADD_H
#define MODELS_CUDA_ATTENTION_ADD_H

#include "models/cuda/attention/attention_pass.h"

/* An edge's weight, negative where key + query is not positive. */
static __device__ __forceinline__ float weight_signed(float weight, bool positive)
{
    return positive ? weight : -weight;
}

template <typename S, class SUMS>
static __device__ __forceinline__ void weighted_add(float weight, bool positive, const float value[S::N], SUMS *s)
{
    const float all = fabsf(weight), some = fmaxf(weight, 0.0F);
    for (int i = 0; i < S::N; i++) {
        s->wide[0][i] = fmaf(all, value[i], s->wide[0][i]);
    }
    for (int i = 0; positive && i < S::N; i++) {
        s->wide[1][i] = fmaf(some, value[i], s->wide[1][i]);
    }
}

/* Add edges begin … end-1, none of them to itself; rows: the other ends' rows of columns; positive: are both sums
 * wanted? */
template <class P, bool ALIGNED>
static __device__ __forceinline__ void lanes_walk(const struct cuda_attention &a, const typename P::To &to,
                                                  const struct head_row &r, int64_t begin, int64_t end,
                                                  const float *rows, bool positive, typename P::Sums *s)
{
    using S = typename P::Shape;
    constexpr int LANES = S::LANES, AHEAD = S::AHEAD;
    const unsigned mask = group_mask<LANES>();
    const int l = group_lane<LANES>();
    const uint32_t stride = (uint32_t)(a.n_head * a.n_column * sizeof(float)); /* in bytes */
    const typename P::Own own = P::own_load(a, to, r);
    const char *columns[S::VECTORS]; /* this lane's in the first row; lanes without any read what is there */
    for (int v = 0; v < S::VECTORS; v++) {
        const int c = lane_column<S>(r.column) + v * LANES * S::W;
        columns[v] = (const char *)(rows + (int64_t)r.h * a.n_column + (c < (int)a.n_column ? c : 0));
    }
    uint32_t col = begin + l < end ? __ldg(a.cols + begin + l) : 0;
    for (int64_t at = begin; at < end; at += LANES) {
        const int n = (int)(end - at < LANES ? end - at : LANES);
        const uint32_t next = at + LANES + l < end ? __ldg(a.cols + at + LANES + l) : 0;
        const bool there = l < n, kept = there && (a.drop.threshold == 0 || edge_is_kept(a, r, col, false));
        const typename P::Far far = P::template far<ALIGNED>(a, there ? (int64_t)col * a.n_head + r.h : r.h);
        const float weight = P::weigh(a, own, far, there, kept, s);
        for (int e = 0; e < n; e += AHEAD) {
            float value[AHEAD][S::N], w[AHEAD];
            for (int k = 0; k < AHEAD; k++) {
                const int last = e + k < n ? e + k : n - 1;
                const uint64_t c = __shfl_sync(mask, col, last, LANES);
                w[k] = __shfl_sync(mask, weight, e + k, LANES);
                for (int v = 0; v < S::VECTORS; v++) {
                    vector_take<S, ALIGNED>((const float *)(columns[v] + c * stride), value[k] + v * S::W);
                }
            }
            for (int k = 0; k < AHEAD; k++) { /* behind the last edge, whose row is read again, weights are 0 */
                weighted_add<S>(w[k], positive, value[k], s);
            }
        }
        col = next;
    }
}

#endif
