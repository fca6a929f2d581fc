/* Who owns which node: METIS, blocks, random, or a file; and how good that is.
 *
 * partition.c has the table of methods and the figures; partition_metis.c is the only file that
 * includes METIS. The result depends on (graph, K, method, objective, balance, seed) and never on workers.
 */
#ifndef PARTITION_PARTITION_H
#define PARTITION_PARTITION_H

#include "partition/graph/dataset.h"
#include "protocol/job/job.h"

#include <stdint.h>

struct partition {
    int32_t n_part;
    int64_t n_node;
    int32_t *owner;      /* n_node: the part of each node */
    int64_t *part_begin; /* n_part + 1: first place of each part in `order` */
    uint32_t *order;     /* n_node: node ids, part after part, well ordered inside each part */
    int32_t n_hop;       /* of reach_order; 0: not ordered by hop */
    uint8_t *hop;        /* n_node; NULL where n_hop is 0 */
    bool stores;         /* parts have the features of the rows that they take, too */
    /* what a part's rows get from another part is summed alone, so that either part can sum it (part_cover.h) */
    bool covered;
};

/* How good a partition is. All counts are of this graph without self loops. */
struct partition_quality {
    int64_t n_cut;         /* stored edges between parts */
    int64_t n_halo;        /* rows sent per layer and direction: distinct (node, other part) pairs */
    double halo_ratio;     /* n_halo / n_node */
    double imbalance_node; /* most / mean, by nodes, stored edges, and halo rows received */
    double imbalance_edge;
    double imbalance_halo;
};

/* Parts of a graph where the job does not say: 8, and twice as many as long as a part has more than 2^22 rows and
 * edges, to 64; at most the nodes. */
int32_t partition_parts_default(int64_t n_node, int64_t n_edge);

/* Set partition.parts where it is 0, before anything depends on it: by the graph's size, never by the workers; of
 * method = "file" what the file has.
 *
 *   errors  STATUS_CONFIG more workers than parts (the message names both keys) · of the file as partition_build
 */
enum status partition_parts_choose(const struct dataset *dataset, struct job *job_io);

/* Bytes that METIS takes for this graph at its peak, in a process of its own that shares the graph with this one; 0:
 * METIS is not asked. By nodes and entries of edges: 1.08 to 1.6 × what it took of sbm and rmat graphs of 10^4 to
 * 10^5 nodes and degrees 4 to 100, most where degrees are high. */
int64_t partition_metis_bytes(const struct dataset *dataset, const struct job *job);

/* Does the cache have this partition, so that METIS is not asked? cost  reads the edges once, to hash them */
bool partition_is_kept(const struct dataset *dataset, const struct job *job);

/* Split the dataset's nodes into job->partition.parts parts (not 0) and order each part's nodes.
 *
 *   owns    the caller owns *out, gives it back with partition_release
 *   errors  STATUS_CONFIG more parts than nodes · STATUS_DATA a partition file that does not fit, or a graph past
 *           METIS's 2^31 - 1 stored edges (the message names block, random and file) · STATUS_NO_INPUT · STATUS_NOMEM
 *           · STATUS_PEER the METIS process was killed
 *   cost    METIS: some 3 s per 10^7 edges for the cut, 12 s for the volume; the order 1 to 4 s; found in the cache:
 *           a read
 *   source  Karypis & Kumar, SIAM J. Sci. Comput. 20 (1998)
 */
enum status partition_build(const struct dataset *dataset, const struct job *job, struct partition *out);

void partition_release(struct partition *partition);

/* Cut, halo and imbalance of a partition. cost  n_edge reads, n_node × 5 bytes */
enum status partition_measure(const struct dataset *dataset, const struct partition *partition,
                              struct partition_quality *out);

/* "METIS 5.1.0, 32-bit indices" */
const char *partition_library(void);

/* Put the K parts on W workers so that parts that share most boundary rows sit together and stored edges are
 * even: out_rank[part] in [0, n_rank), each rank at least one part, part 0 always on rank 0.
 *
 *   shapes  sizes n_part (n_edge and halo are read) · out_rank n_part
 */
struct part_sizes;
void partition_place(int32_t n_part, const struct part_sizes *sizes, int32_t n_rank, int32_t *out_rank);

#endif
