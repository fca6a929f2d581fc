/* Threads that read for users: libuv's pool; each user has only a part of it, since file systems may hang.
 *
 * Knows users and their work in its order, not what is read.
 */
#ifndef TRAINERD_DAEMON_READERS_H
#define TRAINERD_DAEMON_READERS_H

#include <sys/types.h>
#include <uv.h>

#define READERS_N 16      /* threads */
#define READERS_OF_USER 2 /* that one user's work may have */

/* The first member of what the caller allocates and frees. */
struct reader_work {
    uv_work_t request;
    uid_t user;                             /* whose files these are, whoever asks */
    void (*run)(struct reader_work *work);  /* on a thread */
    void (*done)(struct reader_work *work); /* from the loop, always; may free it, and begin other work */
    struct readers *readers;
    struct reader_work *next; /* in its list */
};

struct readers {
    uv_loop_t *loop;
    struct reader_work *waiting, **waiting_end, *running;
};

/* owns  borrows the loop; nothing is to be released, and no work is under way, when it ends */
void readers_init(uv_loop_t *loop, struct readers *out);

/* Do this work in the user's turn. cost  of those that wait */
void readers_begin(struct readers *readers, struct reader_work *work);

#endif
