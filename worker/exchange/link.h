/* The worker's end of the control socket: joining, hearing who the others are, heartbeats, and dying when it must.
 *
 * From link_watch on a thread of its own keeps the socket: it says every quarter of the heartbeat timeout how far the worker
 * is, and ends the process at once when the coordinator aborts the job, goes away, or cannot be reached. A worker writes no
 * files, so nothing is lost by that. Knows nothing of parts and epochs.
 */
#ifndef WORKER_LINK_H
#define WORKER_LINK_H

#include "protocol/status.h"
#include "protocol/transport/control.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct link;

/* Connect to the coordinator, trying again until join_timeout_s are over.
 *
 *   talks   say on stderr why the job ended when the coordinator ends it (for workers started by hand)
 *   owns    the caller owns *out: link_close
 *   errors  STATUS_CONFIG the address; STATUS_PEER nobody there
 */
enum status link_open(const char *join, double join_timeout_s, bool talks, struct link **out);
void link_close(struct link *link);

/* Send a whole frame; takes it (frees it). errors  STATUS_PEER */
enum status link_send(struct link *link, void *frame, size_t n_bytes);

/* Wait for the next frame, before link_watch. out->body is valid until the next call.
 *
 *   errors  STATUS_PEER the coordinator went away, spoke nonsense, or sent us away: its own words
 */
enum status link_receive(struct link *link, struct control_frame *out);

/* Start the thread. */
enum status link_watch(struct link *link, double heartbeat_timeout_s);

/* How far the worker is; goes with the next heartbeat. */
void link_progress(struct link *link, uint32_t epoch, uint32_t step);

/* After losing a peer: the coordinator, who hears of all, has a second to say why, which ends the process with its words.
 * At once where nobody reads them. */
void link_linger(struct link *link);

/* Wait for the coordinator's goodbye; the thread is over then. */
void link_part(struct link *link);

#endif
