/* Logarithms of sums of exponentials, of any size. Private to score_*.c. */
#ifndef TRAINERD_SCORE_LOSS_H
#define TRAINERD_SCORE_LOSS_H

#include <math.h>

/* log(1 + exp(x)) without overflow. */
static inline double softplus(double x)
{
    return (x > 0.0 ? x : 0.0) + log1p(exp(-fabs(x)));
}

/* most + log(sum) is the logarithm of Σ exp(x) over all x so far. */
struct log_sum {
    double most, sum;
};

static inline struct log_sum log_sum_make(double x)
{
    return (struct log_sum){x, 1.0};
}

static inline void log_sum_add(struct log_sum *of, double x)
{
    if (x > of->most) {
        of->sum = of->sum * exp(of->most - x) + 1.0;
        of->most = x;
    } else {
        of->sum += exp(x - of->most);
    }
}

static inline double log_sum_end(const struct log_sum *of)
{
    return of->most + log(of->sum);
}

#endif
