/* The ways to assign nodes to parts. Each fills owner[n_node] with part numbers below n_part and leaves no part
 * empty.
 *
 * Only partition.c and the methods' own files include this. All depend only on the graph, n_part and job->partition.
 */
#ifndef PARTITION_PARTITION_METHOD_H
#define PARTITION_PARTITION_METHOD_H

#include "partition/graph/dataset.h"
#include "protocol/job/job.h"

#include <stdint.h>

/* Contiguous ranges of node numbers, even by job->partition.balance. cost  n_node */
enum status partition_block(const struct dataset *dataset, const struct job *job, int32_t n_part, int32_t *owner);

/* A seeded shuffle cut into pieces of n_node / n_part nodes. cost  n_node random accesses, n_node × 4 bytes */
enum status partition_random(const struct dataset *dataset, const struct job *job, int32_t n_part, int32_t *owner);

/* job->partition.file: one part number per line, line i for node i.
 * errors  STATUS_NO_INPUT · STATUS_DATA "FILE:LINE: …" not a number, out of range, too few or too many lines, a part
 *         without a node */
enum status partition_file(const struct dataset *dataset, const struct job *job, int32_t n_part, int32_t *owner);

/* The number of parts of that file: its largest number + 1. errors as partition_file */
enum status partition_file_parts(const struct dataset *dataset, const struct job *job, int32_t *n_part_out);

/* METIS, k-way. For the least volume it also tries the least cut, and keeps the result with less volume.
 * errors  STATUS_DATA more than 2^31 - 1 entries once made undirected · STATUS_NOMEM · STATUS_PEER METIS was killed
 *         from outside · STATUS_BUG METIS gave up
 * cost    16 bytes per undirected entry at its peak, and METIS's own copies, or those of coarsened graphs */
enum status partition_metis(const struct dataset *dataset, const struct job *job, int32_t n_part, int32_t *owner);

/* About the bytes that partition_metis takes at its peak, beside the dataset's. */
int64_t metis_bytes(const struct dataset *dataset, const struct job *job);

/* Weight of a node for job->partition.balance: 1, its stored in-edges + 1, or their mean. */
int64_t partition_weight(const struct dataset *dataset, int balance, int64_t node);

#endif
