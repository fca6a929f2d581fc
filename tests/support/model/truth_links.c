/* The loss of links by plain loops over nodes and pairs. */
#include "tests/support/model/truth_state.h"

#include "partition/rows/permutation.h"
#include "protocol/base/random.h"

#include <complex.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A number of z_u ∘ z_v through linear layers with relu between them. */
static double layers_score(const struct truth *t, const double *product, int64_t width)
{
    double x[64], y[64];
    cr_assert_leq(width, 64);
    memcpy(x, product, (size_t)width * sizeof *x);
    for (int p = t->program->decoder; p < t->program->n_param; p += 2) {
        const struct parameter *weight = &t->program->param[p], *bias = &t->program->param[p + 1];
        for (int64_t r = 0; r < weight->shape[0]; r++) {
            double sum = t->weights[bias->offset + r];
            for (int64_t c = 0; c < width; c++) {
                sum += t->weights[weight->offset + r * width + c] * x[c];
            }
            y[r] = p + 2 < t->program->n_param ? fmax(sum, 0.0) : sum;
        }
        width = weight->shape[0];
        memcpy(x, y, (size_t)width * sizeof *x);
    }
    return x[0];
}

/* Re(Σ r · h · conj t), or −Σ |h · r / |r| − t|, of complex numbers whose imaginary parts lie behind all real ones. */
static double complex_score(const double *h, const double *t, const double *r, int64_t n, bool turns)
{
    double sum = 0.0;
    for (int64_t c = 0; c < n; c++) {
        double complex head = CMPLX(h[c], h[n + c]), tail = CMPLX(t[c], t[n + c]), by = CMPLX(r[c], r[n + c]);
        sum += turns ? -cabs(head * by / cabs(by) - tail) : creal(by * head * conj(tail));
    }
    return sum;
}

static double distance(const double *h, const double *t, const double *r, int64_t width)
{
    double sum = 0.0;
    for (int64_t c = 0; c < width; c++) {
        sum += (h[c] + r[c] - t[c]) * (h[c] + r[c] - t[c]);
    }
    return sqrt(sum);
}

static double score_of(const struct truth *t, int64_t head, int64_t tail, int64_t relation)
{
    const int64_t width = t->program->value[t->program->logits].width;
    const double *z = t->value[t->program->logits], *u = z + head * width, *v = z + tail * width;
    const double *weight = t->program->decoder >= 0 && t->program->decoder < t->program->n_param
                               ? t->weights + t->program->param[t->program->decoder].offset
                               : NULL,
                 *r = weight != NULL ? weight + relation * width : NULL;
    const char *decoder = t->objective->decoder != NULL ? t->objective->decoder : "dot";
    const bool turns = strcmp(decoder, "rotate") == 0;
    double sum = 0.0, product[64];
    for (int64_t c = 0; c < width; c++) {
        product[c] = u[c] * v[c];
        sum += strcmp(decoder, "distmult") == 0 ? product[c] * r[c] : product[c];
    }
    return t->objective->score != NULL                ? t->objective->score(u, v, weight, width)
           : strcmp(decoder, "mlp") == 0              ? layers_score(t, product, width)
           : turns || strcmp(decoder, "complex") == 0 ? complex_score(u, v, r, width / 2, turns)
           : strcmp(decoder, "transe") == 0           ? -distance(u, v, r, width)
                                                      : sum;
}

static bool has_edge(const struct dataset *d, int64_t to, int64_t from)
{
    bool found = false;
    for (int64_t e = d->indptr[to]; e < d->indptr[to + 1]; e++) {
        found = found || d->indices[e] == from;
    }
    return found;
}

static bool is_joined(const struct dataset *d, int64_t u, int64_t v)
{
    return has_edge(d, u, v) || has_edge(d, v, u);
}

static uint32_t draw(const struct truth *t, int64_t parts, int64_t pair, uint32_t column)
{
    const struct random_key key = {.seed = t->seed, .epoch = t->epoch, .stream = RANDOM_STREAM_PAIR};
    return random_u32(&key, (uint64_t)parts, (uint32_t)pair * 4 + column);
}

/* The sum over pairs number 0 … n-1 of the rows of parts a and b, without those that have an edge. */
static double drawn_sum(const struct truth *t, int a, int b, int64_t n)
{
    const struct partition *p = t->partition;
    int64_t n_a = p->part_begin[a + 1] - p->part_begin[a], n_b = p->part_begin[b + 1] - p->part_begin[b];
    double sum = 0.0;
    for (int64_t k = 0; k < n; k++) {
        const int64_t parts = a * (int64_t)p->n_part + b;
        int64_t row = (int64_t)ldexp((double)draw(t, parts, k, 0) * (double)n_a, -32),
                other = (int64_t)ldexp((double)draw(t, parts, k, 1) * (double)(a == b ? n_b - 1 : n_b), -32);
        other += a == b && other >= row;
        int64_t u = p->order[p->part_begin[a] + row], v = p->order[p->part_begin[b] + other];
        int64_t at = p->part_begin[a] + row, to = p->part_begin[b] + other;
        bool is_head = (at < to) == ((at + to) % 2 == 0); /* of both orders half the pairs */
        sum += is_joined(t->graph, u, v) ? 0.0 : log1p(exp(score_of(t, is_head ? u : v, is_head ? v : u, 0)));
    }
    return sum;
}

/* How many pairs are drawn of the first so many pairs of nodes. */
static int64_t drawn_before(const struct truth *t, double before, double all, int64_t n)
{
    const struct random_key key = {.seed = t->seed, .epoch = t->epoch, .op = 1, .stream = RANDOM_STREAM_PAIR};
    return (int64_t)floor(before / all * (double)n + (double)random_unit(&key, 0, 0));
}

/* An estimate of the mean over all pairs without an edge, from n drawn ones. */
static double negatives_mean(const struct truth *t, int64_t n)
{
    const struct partition *p = t->partition;
    double all = (double)p->n_node * (double)(p->n_node - 1) / 2.0, before = 0.0, sum = 0.0, joined = 0.0;
    int64_t n_drawn = 0;
    for (int a = 0; a < p->n_part; a++) {
        for (int b = a; b < p->n_part; b++) {
            double n_a = (double)(p->part_begin[a + 1] - p->part_begin[a]),
                   n_b = (double)(p->part_begin[b + 1] - p->part_begin[b]);
            int64_t begun = drawn_before(t, before, all, n);
            before += a == b ? n_a * (n_a - 1.0) / 2.0 : n_a * n_b;
            int64_t here = drawn_before(t, before, all, n) - begun;
            sum += drawn_sum(t, a, b, here);
            n_drawn += here;
        }
    }
    for (int64_t u = 0; u < p->n_node; u++) {
        for (int64_t v = 0; v < u; v++) {
            joined += is_joined(t->graph, u, v);
        }
    }
    return sum / ((double)n_drawn * (1.0 - joined / all));
}

/* --- pairs of edges' ends --- */

/* An edge at one of its ends. */
struct end {
    int64_t node, other, relation, place; /* of other in the order of all parts */
    bool is_tail;                         /* the node is the edge's; of both directions at once the greater one is */
};

static double end_score(const struct truth *t, const struct end *of, int64_t other)
{
    return of->is_tail ? score_of(t, other, of->node, of->relation) : score_of(t, of->node, other, of->relation);
}

static int64_t place_of(const struct truth *t, int64_t node)
{
    int64_t place = 0;
    while (t->partition->order[place] != node) {
        place++;
    }
    return place;
}

static int ends_compare(const void *left, const void *right)
{
    const struct end *a = left, *b = right;
    return a->place != b->place         ? (a->place < b->place ? -1 : 1)
           : a->relation != b->relation ? (a->relation < b->relation ? -1 : 1)
                                        : a->is_tail - b->is_tail;
}

/* All ends of edges at a node, in order. */
static int64_t ends_of(const struct truth *t, int64_t node, struct end *out)
{
    const struct dataset *d = t->graph;
    int64_t n = 0;
    for (int64_t v = 0; v < d->n_node; v++) {
        for (int64_t e = d->indptr[v]; e < d->indptr[v + 1]; e++) {
            int64_t u = d->indices[e], relation = d->links.n_relation > 0 ? d->edge_type[e] : 0;
            bool is_end = (v == node || (u == node && !d->facts.symmetric)) && u != v;
            if (is_end && (d->links.n_relation == 0 || relation < d->links.n_relation)) {
                int64_t other = v == node ? u : v;
                out[n++] = (struct end){.node = node,
                                        .other = other,
                                        .relation = relation,
                                        .place = place_of(t, other),
                                        .is_tail = d->facts.symmetric ? node > other : node == v};
            }
        }
    }
    qsort(out, (size_t)n, sizeof *out, ends_compare);
    return n;
}

/* The scores of a group: the edge's, then those of its pairs, NaN if a pair is left out. Pair k of end `entry` is a
 * place in the part's random order, which says from which part its node is drawn. */
static void group_fill(const struct truth *t, int32_t part, const struct end *all, int64_t n_end, int64_t entry,
                       double *score)
{
    const struct partition *p = t->partition;
    const struct end *of = &all[entry];
    const int64_t negatives = t->objective->negatives, n = n_end * negatives;
    const struct random_key key = {
        .seed = t->seed, .epoch = t->epoch, .op = (uint16_t)part, .stream = RANDOM_STREAM_END};
    struct random_key order = key;
    order.stream = RANDOM_STREAM_END_ORDER;
    const struct permutation permutation = permutation_make(order, n);
    const double u = (double)random_unit(&key, 0, 1);
    score[0] = end_score(t, of, of->other);
    for (int64_t k = 0; k < negatives; k++) {
        int64_t at = permutation_inverse(&permutation, entry * negatives + k);
        int q = 0;
        while (floor((double)n * ((double)p->part_begin[q + 1] / (double)p->n_node) + u) <= (double)at) {
            q++;
        }
        int64_t n_row = p->part_begin[q + 1] - p->part_begin[q],
                row = (int64_t)ldexp((double)random_u32(&key, (uint64_t)at, 0) * (double)n_row, -32),
                drawn = p->order[p->part_begin[q] + row];
        bool is_edge = drawn == of->node;
        for (int64_t e = 0; e < n_end; e++) {
            is_edge = is_edge ||
                      (all[e].node == of->node && all[e].other == drawn && all[e].relation == of->relation);
        }
        score[1 + k] = is_edge ? (double)NAN : end_score(t, of, drawn);
    }
}

static double group_loss(const struct objective *o, const double *score)
{
    double sum = 0.0, exps = 1.0;
    int64_t n = 0;
    for (int64_t k = 1; k <= o->negatives; k++) {
        if (!isnan(score[k])) {
            n++;
            exps += exp(score[k] - score[0]);
            sum += o->link_loss == JOB_LOSS_MARGIN ? fmax(0.0, o->margin - score[0] + score[k])
                                                   : log1p(exp(score[k]));
        }
    }
    double mean = n > 0 ? sum / (double)n : 0.0;
    return o->link_loss == JOB_LOSS_CROSS_ENTROPY ? log(exps)
           : o->link_loss == JOB_LOSS_MARGIN      ? mean
                                                  : log1p(exp(-score[0])) + mean;
}

static double ends_loss(const struct truth *t)
{
    const struct partition *p = t->partition;
    struct end *ends = malloc((size_t)(2 * t->graph->n_edge + 1) * sizeof *ends);
    double *score = malloc((size_t)(1 + t->objective->negatives) * sizeof *score), sum = 0.0;
    int64_t n_all = 0;
    cr_assert(ends != NULL && score != NULL);
    for (int32_t part = 0; part < p->n_part; part++) {
        int64_t n = 0;
        for (int64_t place = p->part_begin[part]; place < p->part_begin[part + 1]; place++) {
            n += ends_of(t, p->order[place], ends + n);
        }
        for (int64_t entry = 0; entry < n; entry++) {
            group_fill(t, part, ends, n, entry, score);
            sum += group_loss(t->objective, score);
        }
        n_all += n;
    }
    free(ends);
    free(score);
    return sum / (double)n_all;
}

double truth_links_loss(const struct truth *t)
{
    const struct dataset *d = t->graph;
    double sum = 0.0;
    int64_t n = 0;
    if (t->objective->ends) {
        return ends_loss(t);
    }
    for (int64_t v = 0; v < d->n_node; v++) {
        for (int64_t e = d->indptr[v]; e < d->indptr[v + 1]; e++) {
            int64_t u = d->indices[e], head = d->facts.symmetric && u > v ? v : u;
            if (u != v) {
                sum += log1p(exp(-score_of(t, head, u + v - head, 0)));
                n++;
            }
        }
    }
    double n_pair = (double)(d->facts.symmetric ? n / 2 : n),
           share = n_pair / ((double)d->n_node * (double)(d->n_node - 1) / 2.0);
    double wanted = n_pair * (double)t->objective->negatives / (1.0 - fmin(share, 0.75));
    return sum / (double)n + negatives_mean(t, (int64_t)ceil(wanted));
}
