/* Scored rows in one order: what ROC AUC and average precision are read from. Private to score_*.c. */
#ifndef TRAINERD_SCORE_RANKED_H
#define TRAINERD_SCORE_RANKED_H

#include "protocol/job/job.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A scored row: the score's order as 32 bits in the upper half, 1 for a positive in the lower. Of a number, NaN
 * apart. */
static inline uint64_t ranked_row(float score, bool is_positive)
{
    uint32_t bits;
    float value = score + 0.0f; /* -0 and 0 are one score */
    memcpy(&bits, &value, sizeof bits);
    bits = (bits & 0x80000000u) ? ~bits : bits | 0x80000000u;
    return (uint64_t)bits << 32 | (is_positive ? 1 : 0);
}

/* Rows of one score, from the highest down: rows [begin, end) hold the next one. false: there is none. */
struct ranked_group {
    int64_t begin, end; /* first both are n */
    int64_t n_positive, n_negative;
};
bool ranked_next(const uint64_t *row, struct ranked_group *group);

/* Sort by the score, ascending. shapes  row, aside n. cost  four passes */
void ranked_sort(uint64_t *row, uint64_t *aside, int64_t n);

/* ROC AUC or average precision of sorted rows; NaN: not defined (score.h). */
double ranked_metric(enum job_metric metric, const uint64_t *row, int64_t n);

#endif
