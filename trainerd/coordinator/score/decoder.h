/* Scores of pairs of nodes from their rows (task.decoder): the dot product, whose sum is in double in the order of
 * the columns, or a text with the weights of a model, which runs on the cpu device (models/steps/scorer.h).
 *
 * Knows rows and weights, neither graphs nor workers.
 */
#ifndef TRAINERD_DECODER_H
#define TRAINERD_DECODER_H

#include "models/program/program.h"
#include "protocol/base/status.h"

#include <stdint.h>

struct decoder {
    const struct program *program; /* borrowed */
    int64_t width;                 /* columns of the nodes' rows */
    struct device *device;         /* NULL: the dot product, and the rest is unused */
    float *weights;                /* arena of the program's parameters, for the caller to fill in */
    void *memory;
    size_t n_memory;
};

/* owns: the caller owns *out: decoder_close, also after a failure. errors  STATUS_NOMEM; of the device */
enum status decoder_open(const struct program *program, struct decoder *out);
void decoder_close(struct decoder *decoder);

/* Pairs of nodes: the ends of pair k are end[2k], its head, and end[2k + 1]; with n_tail, each pair's head with
 * n_tail other tails in place of its own. */
struct decoder_pairs {
    int64_t n;
    const uint32_t *end;      /* n × 2 */
    const uint16_t *relation; /* n; NULL: relations do not count */
    int64_t n_tail;           /* 0: the pairs themselves */
    const uint32_t *tail;     /* n × n_tail */
};

/* Their scores, on several threads.  shapes  rows n_node × width · score n, or n × n_tail */
void decoder_score(const struct decoder *decoder, const float *rows, const struct decoder_pairs *pairs, float *score);

/* Which node would score how with this one? */
struct decoder_question {
    uint32_t node;
    int relation; /* -1: none */
    bool is_tail; /* the node is the pair's tail, and others its heads */
};

/* So many questions and others at a time. The memory for it: of one thread for the dot product, else of one in all,
 * as the device has threads of its own. */
#define DECODER_LANES 16
#define DECODER_BLOCK 256
struct decoder_lanes {
    const struct decoder *decoder;
    const float *rows; /* of all nodes */
    struct decoder_question question[DECODER_LANES];
    double *column;    /* of the dot product: width × LANES, the questions' rows */
    uint32_t *list[3]; /* of a text: heads, tails, relations of LANES × BLOCK pairs */
};
void decoder_lanes_open(const struct decoder *decoder, const float *rows, struct decoder_lanes *out);
void decoder_lanes_close(struct decoder_lanes *lanes);
void decoder_ask(struct decoder_lanes *lanes, int lane, const struct decoder_question *question);

/* score[lane × n + k]: of the lane's node with node first + k, n ≤ BLOCK of them. Lanes that were not asked have any
 * score. */
void decoder_answer(const struct decoder_lanes *lanes, int64_t first, int64_t n, float *score);

#endif
