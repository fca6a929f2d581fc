/* DECODER_LANES asked nodes at a time: the graph's rows are read once for all of them, and a heap for each keeps
 * its best nodes, the worst of them at the root. */
#include "trainerd/coordinator/score/partners.h"

#include <math.h>

struct heap {
    int64_t n, most;
    int64_t *node; /* most */
    float *score;
};

/* Is entry a a worse partner than entry b? */
static bool is_worse(const struct heap *heap, int64_t a, int64_t b)
{
    return heap->score[a] < heap->score[b] || (heap->score[a] == heap->score[b] && heap->node[a] > heap->node[b]);
}

static void swap(struct heap *heap, int64_t a, int64_t b)
{
    int64_t node = heap->node[a];
    float score = heap->score[a];
    heap->node[a] = heap->node[b];
    heap->score[a] = heap->score[b];
    heap->node[b] = node;
    heap->score[b] = score;
}

static void sink(struct heap *heap, int64_t n)
{
    for (int64_t at = 0, child = 1; child < n; child = 2 * at + 1) {
        child += child + 1 < n && is_worse(heap, child + 1, child);
        if (!is_worse(heap, child, at)) {
            break;
        }
        swap(heap, at, child);
        at = child;
    }
}

static void rise(struct heap *heap)
{
    for (int64_t at = heap->n - 1; at > 0 && is_worse(heap, at, (at - 1) / 2); at = (at - 1) / 2) {
        swap(heap, at, (at - 1) / 2);
    }
}

/* Nodes come in ascending order: of equal scores the earlier one stays. */
static bool has_place(const struct heap *heap, float score)
{
    return heap->n < heap->most ? !isnan(score) : score > heap->score[0];
}

static void put(struct heap *heap, int64_t node, float score)
{
    int64_t at = heap->n < heap->most ? heap->n++ : 0;
    heap->node[at] = node;
    heap->score[at] = score;
    if (at > 0) {
        rise(heap);
    } else {
        sink(heap, heap->n);
    }
}

/* The best first: the worst of what is left goes behind it. */
static void finish(struct heap *heap)
{
    for (int64_t n = heap->n - 1; n > 0; n--) {
        swap(heap, 0, n);
        sink(heap, n);
    }
    for (int64_t at = heap->n; at < heap->most; at++) {
        heap->node[at] = -1;
        heap->score[at] = NAN;
    }
}

/* Nodes first to first + n - 1 of those asked for, as heads. */
static void lanes_find(struct decoder_lanes *lanes, int64_t n_node, const struct links_asked *asked, int64_t first,
                       int n, struct heap heap[DECODER_LANES])
{
    float score[DECODER_LANES * DECODER_BLOCK];
    for (int lane = 0; lane < n; lane++) {
        decoder_ask(lanes, lane,
                    &(struct decoder_question){.node = asked->node[first + lane], .relation = asked->relation});
    }
    for (int64_t v = 0; v < n_node; v += DECODER_BLOCK) {
        const int64_t n_here = n_node - v < DECODER_BLOCK ? n_node - v : DECODER_BLOCK;
        decoder_answer(lanes, v, n_here, score);
        for (int64_t i = 0; i < n * n_here; i++) {
            const int64_t lane = i / n_here, other = v + i % n_here;
            if (has_place(&heap[lane], score[i]) && other != asked->node[first + lane] &&
                !links_known_has(&asked->known, first + lane, (uint32_t)other)) {
                put(&heap[lane], other, score[i]);
            }
        }
    }
    for (int lane = 0; lane < n; lane++) {
        finish(&heap[lane]);
    }
}

void partners_find(const struct decoder *decoder, const float *rows, int64_t n_node, const struct links_asked *asked,
                   int64_t k, int64_t *node_out, float *score_out)
{
#pragma omp parallel if (decoder->device == NULL)
    {
        struct decoder_lanes lanes;
        decoder_lanes_open(decoder, rows, &lanes);
#pragma omp for schedule(dynamic)
        for (int64_t first = 0; first < asked->n; first += DECODER_LANES) {
            struct heap heap[DECODER_LANES];
            int n = (int)(asked->n - first < DECODER_LANES ? asked->n - first : DECODER_LANES);
            for (int lane = 0; lane < n; lane++) {
                heap[lane] = (struct heap){
                    .most = k, .node = node_out + (first + lane) * k, .score = score_out + (first + lane) * k};
            }
            lanes_find(&lanes, n_node, asked, first, n, heap);
        }
        decoder_lanes_close(&lanes);
    }
}
