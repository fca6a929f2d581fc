/* Steps of links_hold_out, which links.c puts in order: files, draws, and which pairs of nodes are joined. */
#ifndef PARTITION_LINKS_BUILD_H
#define PARTITION_LINKS_BUILD_H

#include "partition/files/npy.h"
#include "partition/graph/dataset.h"
#include "protocol/job/job.h"

#include <stdbool.h>
#include <stdint.h>

#define LINKS_FILE_BYTES 32

/* Purposes of draws of RANDOM_STREAM_LINKS: the key's `op`. Negatives of a split: its number, row = the negative. */
enum links_draw { LINKS_DRAW_HELD = LINKS_SPLIT_N };

/* "validation", "test" / "valid", "test", as files begin. */
const char *links_split_name(enum links_split split);
const char *links_split_file(enum links_split split);

/* Held-out edges by node, each from both of its ends, or from its tail alone where it is held out one way. */
struct links_rows {
    int64_t n_node, n_entry;
    int64_t *indptr;    /* n_node + 1 */
    uint32_t *source;   /* n_entry, ascending in a row, or in each run of one relation; repeats stay */
    uint16_t *relation; /* n_entry, ascending in a row; NULL: relations do not count */
};

/* Of some splits' positives: bit 1 << split. owns  the caller: links_rows_close, also after a failure.
 * errors  STATUS_NOMEM */
enum status links_rows_open(const struct dataset *dataset, unsigned splits, struct links_rows *out);
void links_rows_close(struct links_rows *rows);
bool links_rows_has(const struct links_rows *rows, uint32_t to, uint32_t from, int relation);

/* The first entry of row `to` with this source, and this relation or -1: any; -1: there is no such edge. */
int64_t links_edge_find(const struct dataset *dataset, uint32_t to, uint32_t from, int relation);

/* The relation of an entry of the graph's rows, also of its inverse; -1: relations do not count. */
int links_entry_relation(const struct dataset *dataset, int64_t entry);

/* Does an edge of this relation (-1: any), of the graph or held out, join two nodes in either direction? */
bool links_are_joined(const struct dataset *dataset, const struct links_rows *held, uint32_t a, uint32_t b,
                      int relation);

/* Take the edges that are held out, in both directions but for those that are one way, out of the graph and all that
 * belongs to it. Where relations count, edges of other relations stay.
 * errors  STATUS_NOMEM */
enum status links_cut(const struct links_rows *held, struct dataset *out);

/* Copy pairs [2, n] of nodes, heads and tails, to to->end, which has room; `are_edges`: each joins two nodes.
 * errors  STATUS_DATA file, position, what was expected */
enum status links_pairs_copy(const struct npy *npy, bool are_edges, struct links_pairs *to,
                             const struct dataset *dataset);

/* Node number `at` of a file: its range. errors  STATUS_DATA as links_pairs_copy */
enum status links_node_check(const char *file, const char *place, int64_t at, const char *end, int64_t node,
                             const struct dataset *dataset);

/* Relation of number `at` of a file: its range. errors  STATUS_DATA as links_pairs_copy */
enum status links_relation_check(const char *file, const char *place, int64_t at, int64_t relation,
                                 int32_t n_relation);

/* Read the splits that the folder of the job has files of; given[split]: it has. */
enum status links_files_read(const struct job *job, bool given[LINKS_SPLIT_N], struct dataset *out);

/* Warn of negatives of files that are edges. */
void links_files_remark(const struct links_rows *held, const bool given[LINKS_SPLIT_N],
                        const struct dataset *dataset);

/* Draw the edges of splits without files. */
enum status links_draw_edges(const struct job *job, const bool given[LINKS_SPLIT_N], struct dataset *out);

/* Of splits that have neither negatives nor tails: draw as many negatives as positives, or rank among all nodes.
 * errors  STATUS_DATA no pair without an edge found; STATUS_NOMEM */
enum status links_draw_negatives(const struct job *job, const struct links_rows *held, struct dataset *out);

#endif
