/* The number of parts of a graph if the job file leaves it open. */
#include "partition/methods/partition_method.h"
#include "partition/part/partition.h"

#define PARTS_LEAST 8
#define PARTS_MOST 64
#define PARTS_UNIT ((int64_t)1 << 22) /* most rows and edges of a part before their number doubles */

int32_t partition_parts_default(int64_t n_node, int64_t n_edge)
{
    int32_t n_part = PARTS_LEAST;
    while (n_part < PARTS_MOST && (n_node + n_edge) / n_part > PARTS_UNIT) {
        n_part *= 2;
    }
    return n_part < n_node ? n_part : (int32_t)n_node;
}

enum status partition_parts_choose(const struct dataset *dataset, struct job *job)
{
    int32_t n_part = (int32_t)job->partition.parts;
    if (n_part > 0) {
        return STATUS_OK;
    }
    n_part = partition_parts_default(dataset->n_node, dataset->n_edge);
    enum status status = job->partition.method == JOB_METHOD_FILE ? partition_file_parts(dataset, job, &n_part)
                                                                  : STATUS_OK;
    if (status != STATUS_OK) {
        return status;
    }
    if (job->workers.count > n_part) {
        return status_fail(
            STATUS_CONFIG,
            "workers.count = %lld is more than partition.parts, which is %d for '%s' where it is not given; each "
            "worker needs a part: expected fewer workers, or partition.parts = %lld",
            (long long)job->workers.count, (int)n_part, dataset->name, (long long)job->workers.count);
    }
    job->partition.parts = n_part;
    return STATUS_OK;
}
