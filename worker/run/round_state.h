/* What round.c, round_spill.c and round_grads.c share, and nobody else. */
#ifndef WORKER_ROUND_STATE_H
#define WORKER_ROUND_STATE_H

#include "worker/run/round.h"

/* What one round works on; the arrays are made once and used again. */
struct round_state {
    struct trainer *trainer;
    const struct op *op;
    const struct aggregate_round *what;
    int op_index;
    int64_t width[AGGREGATE_N_PIECE]; /* columns of each piece; 0: none */
    const struct memory_room *room;   /* where its payloads and scratch lie */
    struct memory_round slots;
    struct exchange_key key;
    int32_t level;                    /* of the op's output: which blocks are walked */
    int32_t level_rows, level_travel; /* of the rows that blocks are walked for, of those that travel */

    const struct travel_list *list;
    int32_t n_credit;
    int32_t n_asked;        /* fetches begun */
    int32_t n_used;         /* fetches consumed */
    int64_t n_asked_row;    /* their rows: places of halo payloads */
    int *handle;            /* n_fetch_slot */
    float **payload;        /* n_fetch_slot: on the device */
    device_mark *free;      /* n_fetch_slot: when the transport may write there again */
    const void **packed;    /* n_pack_slot: the piece that lies there; NULL: free */
    size_t *n_packed;       /* n_pack_slot: bytes of that piece */
    int64_t n_packed_bytes; /* halo: of those slots */
    bool *given;            /* n_own × n_part: packed for that part in this round, or begun to be */
};

/* --- round.c --- */
/* RETURN: make the whole payload that part `to` takes from own part i. */
void round_payload_make(const struct round_state *r, uint32_t to, int32_t i, float *out);
/* Copy as many rows of the payload that part `to` takes from own part i, from byte `at` on, as fit n_most bytes: rows of its first
 * piece, then of the second, … Returns their bytes. */
int64_t round_rows_pack(const struct round_state *r, uint32_t to, int32_t i, int64_t at, int64_t n_most, float *out);

/* --- round_grads.c --- */
/* Gradients that were written in place go on to the end of their values' rows. */
void round_grads_end(struct trainer *t, int op, int32_t i);
/* Gradients that could not be written in place join what is there. */
enum status round_grads_add(struct trainer *t, int op);

/* --- round_spill.c --- */
/* The payload that part `to` takes from own part i. */
struct spill_range round_spilled(const struct round_state *r, int32_t i, int32_t to, enum spill_access access);
/* Before any block: write down what all others take from own parts, part after part. Without a spill, nothing. errors  STATUS_IO,
 * STATUS_PEER */
enum status round_spill_payloads(struct round_state *r);
/* What own part i takes next of its own rank's payloads after that of part q: begin to read it. */
void round_spill_ahead(const struct round_state *r, int32_t i, int32_t q);
/* exchange_offer's pack and sent. */
bool round_spill_send(struct round_state *r, uint32_t to, int32_t i, size_t at, struct exchange_piece *out);
void round_spill_sent(struct round_state *r, const void *bytes);

#endif
