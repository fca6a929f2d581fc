/* The loss of links by plain loops over nodes and pairs. */
#include "tests/support/model/truth_state.h"

#include "protocol/base/random.h"

#include <math.h>

static double product(const struct truth *t, int64_t u, int64_t v)
{
    int64_t width = t->program->value[t->program->logits].width;
    const double *z = t->value[t->program->logits];
    double sum = 0.0;
    for (int64_t c = 0; c < width; c++) {
        sum += z[u * width + c] * z[v * width + c];
    }
    return sum;
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
        sum += is_joined(t->graph, u, v) ? 0.0 : log1p(exp(product(t, u, v)));
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

double truth_links_loss(const struct truth *t)
{
    const struct dataset *d = t->graph;
    double sum = 0.0;
    int64_t n = 0;
    for (int64_t v = 0; v < d->n_node; v++) {
        for (int64_t e = d->indptr[v]; e < d->indptr[v + 1]; e++) {
            if (d->indices[e] != v) {
                sum += log1p(exp(-product(t, d->indices[e], v)));
                n++;
            }
        }
    }
    double n_pair = (double)(d->symmetric ? n / 2 : n),
           share = n_pair / ((double)d->n_node * (double)(d->n_node - 1) / 2.0);
    double wanted = n_pair * (double)t->objective->negatives / (1.0 - fmin(share, 0.75));
    return sum / (double)n + negatives_mean(t, (int64_t)ceil(wanted));
}
