#include "partition/order.h"
#include "protocol/memory.h"

#include <stdlib.h>
#include <string.h>

enum status order_build(const struct dataset *dataset, const int32_t *owner, int32_t n_part, const int64_t *part_begin,
                        uint32_t *order)
{
    int64_t *next = memory_alloc((size_t)n_part, sizeof *next);
    memcpy(next, part_begin, (size_t)n_part * sizeof *next);
    for (int64_t v = 0; v < dataset->n_node; v++) {
        order[next[owner[v]]++] = (uint32_t)v;
    }
    free(next);
    return STATUS_OK;
}
