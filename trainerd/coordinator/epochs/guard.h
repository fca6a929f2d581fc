/* The accuracy guard as the coordinator sees it: what the workers' comparisons of gradients found, in the job's
 * state, log and events. It decides nothing: the workers back off by themselves, all alike.
 */
#ifndef TRAINERD_GUARD_H
#define TRAINERD_GUARD_H

#include "models/program/level.h"
#include "trainerd/coordinator/epochs/training.h"

#include <stdint.h>

/* No comparison yet. */
void guard_begin(struct checkpoint_state *state);

/* Record what this epoch's comparison found, if it had one: in the state, and a back-off in log and events.
 * errors  those of fleet_guard */
enum status guard_note(struct training *training, int64_t epoch);

/* Tell the workers where the state's guard stands. errors  those of fleet_put */
enum status guard_restore(const struct training *training);

/* What an epoch's payloads lose, as things stand. */
struct level guard_level(const struct job *job, const struct checkpoint_state *state, int64_t epoch);

/* "int8", or "int8, gradients fp32" */
struct figure guard_codecs(const struct level *level);

#endif
