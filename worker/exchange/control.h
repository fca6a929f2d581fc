/* The worker's end of the control socket: joining, the other workers' addresses, heartbeats, and the end of the
 * process.
 *
 * From control_watch on a thread of its own owns the socket: every quarter of the heartbeat timeout it reports the
 * worker's progress, it passes on signals, and it ends the process at once when the coordinator aborts the job, goes
 * away, or cannot be reached. A worker writes no files, so nothing is lost. Knows nothing of parts and epochs.
 */
#ifndef WORKER_CONTROL_H
#define WORKER_CONTROL_H

#include "protocol/base/status.h"
#include "protocol/transport/route.h"
#include "protocol/transport/seal.h"
#include "protocol/wire/control.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct control;

/* Connect to the coordinator, trying again until join_timeout_s are over.
 *
 *   talks   print on stderr that it is waited for, and why the job ended when the coordinator ends it (for workers
 *           started by hand)
 *   owns    the caller owns *out: control_close
 *   errors  STATUS_CONFIG the address; STATUS_PEER no coordinator answers
 */
enum status control_open(const char *join, double join_timeout_s, bool talks, struct control **out);
void control_close(struct control *control);

/* The way to the coordinator. */
void control_route(const struct control *control, struct route *out);

/* Has the coordinator ended the connection without a word? */
bool control_is_cut(const struct control *control);

/* Send a frame that was allocated, and free it. errors  STATUS_PEER */
enum status control_send(struct control *control, void *frame, size_t n_bytes);

/* Wait for the next frame, before control_watch. out->body is valid until the next call.
 *
 *   errors  STATUS_PEER the coordinator went away, sent a bad frame, or refused this worker: with its own words
 */
enum status control_receive(struct control *control, struct control_frame *out);

/* Seal frames from now on, and take only sealed ones. Before control_watch. */
void control_use_seal(struct control *control, const struct seal_secret *secret, uint32_t rank);

/* Start the thread.
 *
 *   signals  a signalfd, which stays the caller's: what is read from it is passed on to the coordinator; -1: none */
enum status control_watch(struct control *control, double heartbeat_timeout_s, int signals);

/* The worker's progress, for the next heartbeat. */
void control_progress(struct control *control, uint32_t epoch, uint32_t step);

/* After losing a peer: wait a second for the coordinator's reason, which ends the process with its words. Returns at
 * once where the reason would not be printed. */
void control_linger(struct control *control);

/* Wait for the coordinator's goodbye; the thread is over then. */
void control_part(struct control *control);

#endif
