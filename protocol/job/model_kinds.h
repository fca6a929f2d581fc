/* A model kind is a text, configs/programs/<kind>.gnn, which lies in the programs: its text, its arguments, and what
 * the text says of the kind, for the job file's rules, the data set's readers and the model's builder.
 */
#ifndef PROTOCOL_MODEL_KINDS_H
#define PROTOCOL_MODEL_KINDS_H

#include "protocol/job/job_keys.h"

#include <stdbool.h>
#include <stdint.h>

/* The bit of a key of [model] in model_kind.keys. */
#define MODEL_KEY(key) (UINT64_C(1) << (JOB_KEY_model_##key - JOB_KEY_model_kind))

/* The text of the job's model: of its kind, or the job's own. */
const char *model_text(const struct job *job);

/* The text of task.decoder: configs/decoders/<decoder>.gnn, or the job's own; NULL: it is the dot product. */
const char *decoder_text(const struct job *job);

/* Its arguments: task.decoder_layers and task.decoder_hidden, where they are parameters of it. */
void decoder_args(const struct job *job, const struct vertex_tree *tree, struct vertex_args *out);

/* false: it is one of these keys, and the text has no such parameter. */
bool decoder_takes(const struct job *job, enum job_key_id key);

/* Decoders that come with trainerd, the dot product first; NULL behind the last. Is the job's one of these? */
const char *decoder_name(int i);
bool decoder_is_known(const struct job *job);

/* The arguments of its text, whose tree it is: of a kind the job's keys of [model] that are its parameters
 * (model.dropout is `p`), else [model.args]. */
void model_args(const struct job *job, const struct vertex_tree *tree, struct vertex_args *out);

/* What the text of the job's model says; kinds' texts are read once in a process. */
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
