/* See part_columns.h. With types or values, short rows are sorted by insertion, long ones by comparison. */
#include "partition/part/part_columns.h"

#include "partition/rows/row_pairs.h"
#include "protocol/base/amounts.h"

#include <stdlib.h>
#include <string.h>

#define SORT_SMALL 48

static void keys_sort(uint64_t *key, int64_t n)
{
    if (n > SORT_SMALL) {
        qsort(key, (size_t)n, sizeof *key, ascending_compare);
        return;
    }
    for (int64_t i = 1; i < n; i++) {
        uint64_t k = key[i];
        int64_t at = i;
        for (; at > 0 && key[at - 1] > k; at--) {
            key[at] = key[at - 1];
        }
        key[at] = k;
    }
}

/* Columns are distinct: what stands below them in a key decides nothing. */
static void valued_sort(uint32_t *columns, char *values, int64_t n, uint64_t *key)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, values + (size_t)i * sizeof bits, sizeof bits);
        key[i] = (uint64_t)columns[i] << 32 | bits;
    }
    keys_sort(key, n);
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)key[i];
        memcpy(values + (size_t)i * sizeof bits, &bits, sizeof bits);
        columns[i] = (uint32_t)(key[i] >> 32);
    }
}

void part_columns_sort(uint32_t *columns, uint16_t *types, void *values, int64_t n, void *spare)
{
    if (values != NULL) {
        valued_sort(columns, values, n, spare);
    } else if (types == NULL) {
        sources_sort(columns, n, spare);
    } else {
        uint64_t *key = spare;
        for (int64_t i = 0; i < n; i++) {
            key[i] = (uint64_t)types[i] << 32 | columns[i];
        }
        keys_sort(key, n);
        for (int64_t i = 0; i < n; i++) {
            types[i] = (uint16_t)(key[i] >> 32);
            columns[i] = (uint32_t)key[i];
        }
    }
}

float part_relation_weight(const struct dataset *dataset, uint32_t node, uint16_t type)
{
    int64_t begin = dataset->indptr[node], end = dataset->indptr[node + (int64_t)1];
    int64_t first = ascending_find_type(dataset->edge_type, begin, end, type);
    int64_t last = ascending_find_type(dataset->edge_type, first, end, type + 1);
    return (float)(1.0 / (double)(last - first));
}
