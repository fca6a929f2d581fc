/* The order of nodes inside each part: neighbours near one another, so that gathered rows are still in cache.
 *
 * Knows no files and no layers; what it measures is how often a row that is read was read shortly before.
 */
#ifndef PARTITION_ORDER_H
#define PARTITION_ORDER_H

#include "partition/dataset.h"

#include <stdint.h>

/* Fill order[n_node] with node ids, part after part, as part_begin (n_part + 1) says.
 *
 *   errors  STATUS_NOMEM
 */
enum status order_build(const struct dataset *dataset, const int32_t *owner, int32_t n_part,
                        const int64_t *part_begin, uint32_t *order);

#endif
