#include "worker/exchange/traffic.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "worker/exchange/exchange.h"

#include <stdlib.h>
#include <string.h>

struct traffic {
    int n_layer, n_op;
    uint32_t n_rank;
    int32_t *layer_of_op;      /* n_op; -1: its rows do not travel in an epoch */
    struct traffic_head *head; /* one piece: the head, all epochs' numbers, the present epoch's */
    uint64_t *all;             /* traffic_n_row × n_rank */
    uint64_t *now;             /* n_layer × TRAFFIC_N_WHAT */
    enum step_phase phase;
};

static size_t content_bytes(int n_layer, uint32_t n_rank)
{
    return sizeof(struct traffic_head) + (size_t)traffic_n_row(n_layer) * n_rank * sizeof(uint64_t);
}

static size_t tables_bytes(int n_layer, uint32_t n_rank)
{
    return content_bytes(n_layer, n_rank) + (size_t)n_layer * TRAFFIC_N_WHAT * sizeof(uint64_t);
}

int64_t traffic_bytes(const struct program *program, uint32_t n_rank)
{
    return (int64_t)tables_bytes(program_n_layer(program), n_rank);
}

enum status traffic_open(const struct program *program, uint32_t n_rank, struct traffic **out)
{
    struct traffic *t = memory_alloc(1, sizeof *t);
    *t = (struct traffic){
        .n_layer = program_n_layer(program), .n_op = program->n_op, .n_rank = n_rank, .phase = STEP_PHASE_STATIC};
    enum status status = memory_acquire(MEMORY_OTHER, tables_bytes(t->n_layer, n_rank), 1, &t->head);
    if (status != STATUS_OK) {
        free(t);
        return status;
    }
    memset(t->head, 0, tables_bytes(t->n_layer, n_rank));
    t->all = (uint64_t *)(void *)(t->head + 1);
    t->now = t->all + (size_t)traffic_n_row(t->n_layer) * n_rank;
    t->layer_of_op = memory_alloc((size_t)program->n_op, sizeof *t->layer_of_op);
    for (int i = 0; i < program->n_op; i++) {
        t->layer_of_op[i] = program_layer(program, i);
    }
    *out = t;
    return STATUS_OK;
}

void traffic_close(struct traffic *t)
{
    if (t != NULL) {
        memory_release(MEMORY_OTHER, t->head, tables_bytes(t->n_layer, t->n_rank), 1);
        free(t->layer_of_op);
        free(t);
    }
}

void traffic_epoch(struct traffic *t)
{
    memset(t->now, 0, (size_t)t->n_layer * TRAFFIC_N_WHAT * sizeof *t->now);
}

void traffic_phase(struct traffic *t, enum step_phase phase, bool tentative)
{
    t->phase = phase;
    t->head->n_train += phase == STEP_PHASE_TRAIN && !tentative;
    t->head->n_evaluate += phase == STEP_PHASE_EVALUATE;
}

/* What a halo pass of this phase moves. */
static enum traffic_what what_of(uint32_t phase)
{
    bool forward = phase == EXCHANGE_PHASE_FORWARD || phase == EXCHANGE_PHASE_STALE_ROWS;
    return forward ? TRAFFIC_FORWARD : phase == EXCHANGE_PHASE_EVALUATE ? TRAFFIC_EVALUATE : TRAFFIC_BACKWARD;
}

void traffic_add(struct traffic *t, uint32_t phase, uint16_t op, uint32_t peer, size_t n_bytes)
{
    if (phase == EXCHANGE_PHASE_STATIC || t->phase == STEP_PHASE_STATIC) {
        return;
    }
    int row = traffic_row_sums(t->n_layer, t->phase == STEP_PHASE_EVALUATE);
    if (phase != EXCHANGE_PHASE_REDUCE && phase != EXCHANGE_PHASE_BROADCAST && t->n_layer > 0) {
        ASSERT(op < t->n_op && t->layer_of_op[op] >= 0);
        row = traffic_row(t->layer_of_op[op], what_of(phase));
        t->now[row] += n_bytes;
    }
    ASSERT(peer < t->n_rank);
    t->all[(size_t)row * t->n_rank + peer] += n_bytes;
}

const uint64_t *traffic_layers(const struct traffic *t, int *n_layer_out)
{
    *n_layer_out = t->n_layer;
    return t->now;
}

const void *traffic_content(const struct traffic *t, size_t *n_bytes_out)
{
    *n_bytes_out = content_bytes(t->n_layer, t->n_rank);
    return t->head;
}
