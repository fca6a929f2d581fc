/* A pass over pairs of nodes at work: rows that come and leave, pairs that own parts and others send each other, and
 * what a block of pairs adds to loss and gradients.
 *
 * links.c walks; link_rows.c, link_sent.c and link_blocks.c do one thing each and know nothing of the walk.
 */
#ifndef WORKER_LINK_PASS_H
#define WORKER_LINK_PASS_H

#include "worker/pairs/pairs_list.h"
#include "worker/pairs/pairs_routes.h"
#include "worker/run/links.h"
#include "worker/state/staging.h"

/* Rows on their way in. */
struct link_slot {
    int handle; /* of the exchange */
    struct staged rows;
};

/* A place of the walk and an own part that comes to it. */
struct link_place {
    int32_t place; /* part q at q and at n_part + q */
    int32_t i;
};

struct link_pass {
    struct trainer *trainer;
    const struct step *step;
    struct pairs_span ends;
    struct exchange_key key;
    struct random_key drawn; /* of pairs */
    int32_t n_part, width;
    int32_t next; /* the place up to which rows were asked for */
    int32_t n_begun, n_used;
    device_mark made;            /* when own rows are where they are sent from */
    device_mark pairs_unread;    /* when no operation reads pairs any more */
    bool sends_pairs;            /* pairs go to other parts, and come from them */
    struct link_place next_sent; /* the next pairs to ask for */
    int32_t n_sent_begun, n_sent_used;
    int sent_handle[MEMORY_LINKS_COME];
};

static inline float *link_own_rows(const struct link_pass *p, int32_t i)
{
    return trainer_operand(p->trainer, step_operand(p->step, OP_ROLE_IN_0), i);
}

static inline int32_t link_part_at(const struct link_pass *p, int32_t place)
{
    return place % p->n_part;
}

/* Are rows of another rank's part received at this place? */
bool link_is_received(const struct link_pass *p, int32_t place);

/* Does own part i come to this place? */
bool link_comes_to(const struct link_pass *p, int32_t i, int32_t place);

/* --- link_rows.c: begin to serve own rows, and pairs where the pass sends them; rows of a place, received in turn.
 * errors  STATUS_PEER; of the device --- */
enum status link_rows_begin(struct link_pass *p);
enum status link_rows_take(struct link_pass *p, const float **out);
enum status link_rows_end(struct link_pass *p);

/* --- link_sent.c: pairs of groups whose other ends are in another part, with slopes of their scores --- */
/* Serve part `to` what own part i sends it. false: not now */
bool link_sent_pack(struct link_pass *p, int32_t i, int32_t to, struct exchange_piece *out);
/* Ask ahead; what the part at this place sends own part i, in turn where it is another rank's. *n_out items.
 * errors  STATUS_PEER also of rows that there are not */
enum status link_sent_ahead(struct link_pass *p);
enum status link_sent_take(struct link_pass *p, struct link_place at, struct pairs_item **out, int64_t *n_out);

/* --- link_blocks.c: own part i's pairs with part q, whose rows are x. errors  of the device --- */
/* Uniform pairs: all of their loss and gradient. */
enum status link_block_uniform(struct link_pass *p, int32_t i, int32_t q, const float *x);
/* Groups: scores; slopes of all own parts' groups, when all scores are there; gradients of own and others' groups. */
enum status link_groups_begin(struct link_pass *p);
enum status link_block_scores(struct link_pass *p, int32_t i, int32_t q, const float *x);
enum status link_groups_slopes(struct link_pass *p);
enum status link_block_gradients(struct link_pass *p, struct link_place at, const float *x);

#endif
