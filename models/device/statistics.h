/* Mean and spread of columns over a set of rows, and their merging for two sets. For devices, which merge chunks of
 * rows and parts.
 */
#ifndef MODELS_STATISTICS_H
#define MODELS_STATISTICS_H

#include <stdint.h>

/* Of f columns: the number of rows, f means, f sums of (x - mean)². */
#define STATISTICS_N(f) (1 + 2 * (f))

/* left = the statistics of left's and right's rows together. Nothing cancels: only means are subtracted.
 *
 *   shapes  both STATISTICS_N(f); either may be of no rows
 *   source  Chan, Golub & LeVeque, Stanford STAN-CS-79-773, eq. 2.1
 */
void statistics_merge(int64_t f, double *left, const double *right);

#endif
