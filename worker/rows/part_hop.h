/* What a training epoch needs of a part's blocks at one hop of an aggregate's output: edges whose destination's hop
 * counts.
 *
 * Blocks of in-edges are the first rows of those there are. Of the transposed ones, whose rows lead to destinations
 * of any hop, the edges are picked out once; a row's implied loop is among them, as only rows that count as
 * destinations have one. Where rows come as a cover of the hop's edges, both are copies, those with parts of other
 * ranks trimmed.
 */
#ifndef WORKER_PART_HOP_H
#define WORKER_PART_HOP_H

#include "worker/rows/part_device.h"

#include <stdbool.h>
#include <stdint.h>

/* Does this aggregate walk blocks of this direction in training for an output of this hop? Does some one? */
bool part_hop_walks(const struct program *program, const struct op *op, enum part_direction d, int32_t hop);
bool part_hop_used(const struct program *program, enum part_direction d, int32_t hop);

/* And do rows of other parts travel for it? Not for one of stored inputs. */
bool part_hop_travels(const struct program *program, enum part_direction d, int32_t hop);

/* Bytes of transposed blocks picked out: n_edge edges, n_row own rows, n_listed rows listed in blocks with other
 * parts. */
struct part_hop_sizes {
    int32_t n_pair;
    int64_t n_edge, n_row, n_listed;
    bool typed, weighted;
};

int64_t part_hop_copy_bytes(const struct part_hop_sizes *sizes);

/* Of the edges among an own part's, those to destinations that count, loops included; rows that have them. */
int64_t part_hop_edges(const struct program *program, bool implied_loops, int64_t n_edge, int64_t n_target);

/* The hop of the rows of blocks that lead to, or come from, destinations of this hop. */
static inline int32_t part_hop_rows(enum part_direction d, int32_t hop)
{
    return d == PART_DIRECTION_OUT ? program_hop_before(hop) : hop;
}

/* Where the block of pair k at a hop is among those of a part; PART_DIRECTION_N, 0, 0: where all end. */
static inline int64_t part_hop_place(const struct part *part, enum part_direction d, int32_t hop, int32_t k)
{
    int64_t n_in = part->halo.pairs[PART_DIRECTION_IN].n_pair, n_out = part->halo.pairs[PART_DIRECTION_OUT].n_pair;
    int64_t before = d == PART_DIRECTION_IN    ? hop * n_in
                     : d == PART_DIRECTION_OUT ? part->n_hop * n_in + hop * n_out
                                               : part->n_hop * (n_in + n_out);
    return before + k;
}

/* Open the blocks of one direction for one hop, of a part whose all blocks are open; nothing where no step walks
 * them.
 * errors  STATUS_NOMEM; STATUS_IO of the spill */
enum status part_hop_open(const struct part_device_setup *setup, enum part_direction d, int32_t hop,
                          const struct part_device *part);
void part_hop_close(const struct part_device_setup *setup, const struct part_device *part, int d, int32_t hop);

#endif
