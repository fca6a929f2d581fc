/* The pairs of parts whose rows are given as tables, for tests of what only counts. */
#ifndef TESTS_SUPPORT_HALO_TABLE_H
#define TESTS_SUPPORT_HALO_TABLE_H

#include "partition/part/part_halo.h"

#include <stdint.h>

/* Part p's pairs: in[d * n_part + s] are the rows that part d takes from part s along in-edges, out likewise along the transposed
 * ones. The caller gives *halo back with part_halo_release. */
void halo_table(int32_t n_part, const int64_t *in, const int64_t *out, int32_t p, struct part_halo *halo);

#endif
