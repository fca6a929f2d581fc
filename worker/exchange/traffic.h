/* Bytes of payloads that arrived here, by layer, what they are for, and sender (protocol/wire/traffic.h): of the
 * present epoch, and of all.
 *
 * The exchange adds each piece as it arrives, the trainer says which phase runs. What arrives before epoch 0 is not
 * counted. The tables are taken once; nothing is allocated in an epoch. Knows neither rows nor parts.
 */
#ifndef WORKER_TRAFFIC_H
#define WORKER_TRAFFIC_H

#include "models/program/program.h"
#include "models/steps/step.h"
#include "protocol/base/status.h"
#include "protocol/wire/traffic.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct traffic;

/* Bytes of the tables. */
int64_t traffic_bytes(const struct program *program, uint32_t n_rank);

/*   owns    the caller owns *out: traffic_close (NULL is allowed)
 *   errors  STATUS_NOMEM
 */
enum status traffic_open(const struct program *program, uint32_t n_rank, struct traffic **out);
void traffic_close(struct traffic *traffic);

/* An epoch begins, of which nothing has been counted; one of its phases begins, and counts as done where it is not
 * tentative. */
void traffic_epoch(struct traffic *traffic);
void traffic_phase(struct traffic *traffic, enum step_phase phase, bool tentative);

/* So many bytes of a payload have arrived from this rank. phase: enum exchange_phase; op: of its key */
void traffic_add(struct traffic *traffic, uint32_t phase, uint16_t op, uint32_t peer, size_t n_bytes);

/* The present epoch's bytes from all workers: *n_layer_out × TRAFFIC_N_WHAT numbers, as long as the traffic lives. */
const uint64_t *traffic_layers(const struct traffic *traffic, int *n_layer_out);

/* A struct traffic_head, then traffic_n_row × n_rank numbers, of all epochs. */
const void *traffic_content(const struct traffic *traffic, size_t *n_bytes_out);

#endif
