/* One halo pass at work; for the files of this folder alone. */
#ifndef WORKER_HALO_STATE_H
#define WORKER_HALO_STATE_H

#include "worker/halo/halo.h"
#include "worker/state/staging.h"

/* A payload on its way in. */
struct halo_slot {
    int handle; /* of the exchange */
    bool there; /* waited for */
    struct staged payload;
};

/* Rows that a payload of gradients is made of, asked of another rank. */
struct halo_asked {
    bool open, there;
    const struct halo_route *route; /* of the gradients */
    int handle;                     /* of the exchange */
    struct staged rows;
};

/* A piece of a payload that leaves, or that the device makes still. */
struct halo_packed {
    void *bytes; /* NULL: there is none */
    int64_t n_bytes;
    bool leaves;
    /* route of the payload; for requested rows: route of the gradients computed from them */
    const struct halo_route *route;
    int64_t at; /* from there on */
    device_mark made;
};

/* A block of own part i: its pair k, with part q, which is own part j (-1: of another rank). */
struct halo_pair {
    int32_t i, k, q, j;
};

/* Where a pass gets rows from: a part's own, other parts' of this rank, and other ranks' (source.h). */
struct payload_source;
struct halo_sources {
    const struct payload_source *own, *local, *remote;
};

/* How far an own part's walk over its blocks has come. */
struct halo_walk {
    int32_t s, last; /* the next block and the last one, counted from the diagonal */
};

/* Whose rows and blocks a pass is of, by hop. */
struct halo_hops {
    int32_t blocks;     /* of the op's output: which blocks are walked */
    int32_t rows;       /* of the rows that blocks are walked for */
    int32_t travelling; /* of the rows that travel */
    int32_t listed;     /* by which payloads are counted (halo_list_hop) */
};

/* Payloads on their way in. */
struct halo_fetches {
    int32_t n_credit; /* in flight or in use */
    int32_t n_begun;  /* of routes.take */
    int32_t n_used;
    int64_t n_row;          /* of those begun: places under the halo schedule */
    struct halo_slot *slot; /* n_fetch_slot */
};

/* Pieces of payloads that leave. */
struct halo_sends {
    device_mark ready;         /* rows that travel are made */
    struct halo_packed *piece; /* n_pack_slot */
    int64_t n_bytes;           /* halo schedule: of those slots */
};

/* The arrays are made once and used again. */
struct halo {
    struct trainer *trainer;
    struct halo_owners owners;
    const struct sample *sample;    /* whose rows travel in this pass; NULL: all do */
    const struct part_dedup *dedup; /* other ranks' rows come once for all own parts; NULL: for each part */
    struct halo_sources source;     /* of this pass */
    struct halo_walk *walk;         /* n_own */
    const struct step *step;
    const struct op *op;
    const struct halo_pass *pass;
    const struct memory_workspace *workspace; /* scratch, payloads received, payloads sent */
    const struct level *level;                /* what payloads lose; NULL: nothing */
    const struct level *level_asked;          /* what rows lost that gradients are made of */
    struct memory_payloads slots;
    struct exchange_key key;
    int64_t width[HALO_N_PIECE]; /* columns of each piece; 0: none */
    int64_t bytes[HALO_N_PIECE]; /* of a row of each piece as it travels */
    struct halo_hops hop;

    /* received */
    struct halo_routes routes;
    struct halo_fetches fetch;
    struct device_block block; /* at work */

    struct halo_asked *asked; /* n_ask_slot */

    /* sent */
    struct halo_sends sent;
};

/* What payloads lose from here on, and so their rows' bytes; NULL: nothing. */
void halo_level(struct halo *h, const struct level *level);

/* Rows that own part i takes from others, or gives to them, in this pass. */
struct part_rows halo_rows_received(const struct halo *h, int32_t i);
struct part_rows halo_rows_sent(const struct halo *h, int32_t i);

/* Pair k of those that own part i takes from. */
struct halo_pair halo_pair(const struct halo *h, int32_t i, int32_t k);

/* Bytes of the workspace from `offset` on. */
char *halo_workspace(const struct halo *h, int64_t offset);

/* Own rows of piece k of own part i. */
const float *halo_own_rows(const struct halo *h, int k, int32_t i);

/* What the rows of this pass are multiplied by: 1/p where they are sampled and the aggregate is a sum; and what is
 * added to their scores. */
float halo_factor(const struct halo *h);
float halo_shift(const struct halo *h);

/* Point the call at own part i's block with its pair k, payload rows as columns, and at their scales and node ids; in
 * a sampled pass at those of the sample, which are made in scratch. */
void halo_block(struct halo *h, int32_t i, enum part_direction d, int32_t k, struct op_call *call);

/* --- walk.c --- */
/* All own parts' blocks. errors  STATUS_PEER, STATUS_IO */
enum status halo_walk(struct halo *h);
/* Own part i's blocks with parts up to the one that a walk around the circle has come to; h->walk begins with
 * halo_walk_begin. */
void halo_walk_begin(struct halo *h);
enum status halo_walk_part(struct halo *h, int32_t i, int32_t at);
/* Everything about own part i that no block changes. */
struct op_call halo_call_begin(const struct halo *h, int32_t i);

/* --- walk_groups.c --- */
/* May own parts of a spill walk together: are all here, and nothing is returned, lossy or summed in the workspace, of
 * which there is one? */
bool halo_groups(const struct halo *h);
/* Rows that such a walk reads: those of each part once for each group that takes some. */
int64_t halo_group_rows(const struct halo *h);
enum status halo_group_walk(struct halo *h);

/* --- pack.c --- */
/* The route of own part i's rows to its pair k, wherever that lies. */
struct halo_route halo_route_at(const struct halo *h, int32_t i, int32_t k);
/* Places of a maximum in own part i's pair k: behind own rows and the payload rows of the parts in between. */
uint32_t halo_arg_base(const struct halo *h, int32_t i, int32_t k);
/* How rows in this role travel in this pass; FP32: as they lie. */
enum device_codec halo_role_codec(const struct halo *h, enum op_role role);
/* Pieces of a payload of n_row rows that has arrived: where they lie, or where they are written down in low precision
 * decoded at `to`. */
void halo_payload_open(const struct halo *h, int64_t n_row, const void *payload, float *to,
                       const float *piece_out[HALO_N_PIECE]);
/* A route's payload, from byte `at` on: as many rows as fit n_most bytes, of its first piece, then of the second, …;
 * or of a RETURN pass the whole payload of finished gradients, for which `asked` has the rows that it asks for. */
struct halo_packing {
    struct halo_route route;
    int64_t at, n_most;
    const void *asked;
    void *out;
};

/* Make them; returns their bytes. */
int64_t halo_pack(struct halo *h, const struct halo_packing *what);
/* Of a route's payload from byte `at` on, rows that a near receiver may gather itself: as many of one piece as lie as
 * they travel. false: there are none there, or they are not lent. */
bool halo_rows_lend(const struct halo *h, const struct halo_route *route, int64_t at, struct exchange_piece *out);
/* All rows that a RETURN pass asks own part i for, for the gradients that its pair k makes. */
void halo_pack_asked(const struct halo *h, int32_t i, int32_t k, void *out);

/* --- serve.c --- */
/* Let other ranks fetch this pass's payloads. */
void halo_serve(struct halo *h);

/* --- asked.c --- */
/* The rows that a route's gradients are made of, which another rank has: asked for when they are first wanted. NULL:
 * not yet there, or the exchange failed. `open` is false once the gradients are made. */
struct halo_asked *halo_asked_rows(struct halo *h, const struct halo_route *route);
/* Likewise, waiting for them; where every payload is made before others fetch any. They hold until others are asked
 * for.
 * errors  STATUS_PEER */
enum status halo_asked_wait(struct halo *h, const struct halo_route *route, const void **rows_out);

/* --- gradients.c --- */
/* Gradients that a step made in place go on to the end of their values' rows. */
void halo_gradients_end(const struct trainer *t, const struct step *step, int32_t i);

#endif
