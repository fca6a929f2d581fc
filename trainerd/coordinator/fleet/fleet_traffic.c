/* The bytes that a worker has counted. */
#include "trainerd/coordinator/fleet/fleet_state.h"

#include <stdlib.h>
#include <string.h>

enum status fleet_traffic(struct fleet *fleet, uint32_t rank, int n_row, struct traffic_head *head_out,
                          uint64_t *table_out)
{
    size_t n_table = (size_t)n_row * fleet->n_worker * sizeof *table_out;
    char *content = memory_alloc(sizeof *head_out + n_table, 1);
    enum status status = fleet_get(fleet, WORKER_STATE_TRAFFIC, (int32_t)rank, content, sizeof *head_out + n_table);
    if (status == STATUS_OK) {
        memcpy(head_out, content, sizeof *head_out);
        memcpy(table_out, content + sizeof *head_out, n_table);
    }
    free(content);
    return status;
}
