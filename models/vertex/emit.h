/* From the operations of a vertex program to ops of a model: each pattern of operations that an op computes becomes
 * that op, so that a text that says GCN gives GCN's list of ops.
 *
 * Calls the builder's alphabet (models/program/program.h) in the order of the text. Independent of kinds and stacks.
 * What no pattern takes becomes tile programs, or is refused with its name and place.
 */
#ifndef MODELS_VERTEX_EMIT_H
#define MODELS_VERTEX_EMIT_H

#include "models/program/program.h"
#include "protocol/vertex/trace.h"

/* How a layer's operations are emitted. */
struct vertex_emission {
    struct program *program;
    const struct vertex_source *source; /* of messages */
    const struct vertex_trace *trace;
    int x;              /* the value of v.x; of pairs that of e.src.x, and e.dst.x is the next one */
    const char *kept;   /* the output that a prediction writes, prefix and name; "": it writes no output */
    int kept_value;     /* out: its value; -1: it is not of this layer */
    const char *prefix; /* of weights' names: "convs.0." */
    bool is_one_hot;    /* v.x is a column for each node */
    /* Should a layer from value x to f_out columns multiply before a linear aggregate? (model.h) */
    bool (*transform_first)(const struct program *program, int x, int64_t f_out);
    bool
        is_weighted; /* edges have weights: every reduction is a sum or mean of their products then, as ops know it */
    bool matches;    /* patterns become ops; else tile programs compute all that they can */
    bool needs_dense; /* out: STATUS_CONFIG for v.x is sparse, and is more than multiplied and dropped out */
};

/* Append the trace's weights and ops; *out is the value of what is returned.
 * errors  STATUS_CONFIG an operation that nothing computes; needs_dense. The program has some of the ops then */
enum status vertex_emit(struct vertex_emission *emission, int *out);

#endif
