/* model_kinds.def as a table at run time: the facts of a kind for the job file's rules, the data set's readers and
 * the builders. */
#ifndef PROTOCOL_MODEL_KINDS_H
#define PROTOCOL_MODEL_KINDS_H

#include "protocol/job/job_keys.h"

#include <stdbool.h>
#include <stdint.h>

/* The bit of a key of [model] in model_kind.keys. */
#define MODEL_KEY(key) (UINT64_C(1) << (JOB_KEY_model_##key - JOB_KEY_model_kind))

/* The row of the job's kind; of a vertex program what its text says. */
const struct model_kind *model_kind_of(const struct job *job);

/* Are the aggregates of the job's model sums? */
bool model_is_sum(const struct job *job);

/* The kinds that a key is for, bit k for kind k; 0: any kind, or not a key of [model]. */
uint32_t model_kinds_with_key(enum job_key_id key);

/* The kinds whose aggregates are sums. */
uint32_t model_kinds_of_sums(void);

/* The kinds that use features of edges. */
uint32_t model_kinds_with_edge_features(void);

#endif
