/* Counts of covers saved by content, beside the partitions: the same parts on the same number of workers are matched
 * once.
 *
 * A file's name is the hash of all that the counts depend on: the graph, its parts in their order, and their workers.
 * Like the cache of partitions it never fails a job.
 */
#ifndef PARTITION_COVER_CACHE_H
#define PARTITION_COVER_CACHE_H

#include "partition/part/part_dedup.h"
#include "protocol/job/job.h"

/* Raised by every change of part_dedup_cover or of the file that gives other counts for the same key. */
#define COVER_CACHE_VERSION 2

/* The counts of part_dedup_cover: from the cache, else counted and, if job->partition.cache names a folder,
 * saved. */
enum status cover_cache_count(const struct part_cover_input *in, const struct job *job, struct part_dedup *out,
                              struct part_cover_rows *rows_out);

#endif
