#include "trainerd/daemon/commands/readers.h"

#include "protocol/base/log.h"

#include <stdio.h>
#include <stdlib.h>

void readers_init(uv_loop_t *loop, struct readers *out)
{
    char text[16];
    *out = (struct readers){.loop = loop};
    out->waiting_end = &out->waiting;
    snprintf(text, sizeof text, "%d", READERS_N);
    setenv("UV_THREADPOOL_SIZE", text, 1); /* read by libuv at the first work */
}

static int n_running(const struct readers *readers, uid_t user)
{
    int n = 0;
    for (const struct reader_work *work = readers->running; work != NULL; work = work->next) {
        n += work->user == user;
    }
    return n;
}

static void run(uv_work_t *request)
{
    struct reader_work *work = (struct reader_work *)request;
    work->run(work);
}

static void finished(uv_work_t *request, int error);

static void start(struct readers *readers, struct reader_work *work)
{
    work->next = readers->running;
    readers->running = work;
    int error = uv_queue_work(readers->loop, &work->request, run, finished);
    ASSERT(error == 0);
}

/* The first of a user who may have a thread more takes its turn. */
static void start_next(struct readers *readers)
{
    for (struct reader_work **link = &readers->waiting; *link != NULL; link = &(*link)->next) {
        struct reader_work *work = *link;
        if (n_running(readers, work->user) < READERS_OF_USER) {
            *link = work->next;
            readers->waiting_end = work->next == NULL ? link : readers->waiting_end;
            start(readers, work);
            return;
        }
    }
}

static void finished(uv_work_t *request, int error)
{
    struct reader_work *work = (struct reader_work *)request, **link;
    struct readers *readers = work->readers;
    ASSERT(error == 0); /* no work is cancelled */
    for (link = &readers->running; *link != work; link = &(*link)->next) {
    }
    *link = work->next;
    start_next(readers);
    work->done(work);
}

void readers_begin(struct readers *readers, struct reader_work *work)
{
    work->readers = readers;
    work->next = NULL;
    if (n_running(readers, work->user) < READERS_OF_USER) {
        start(readers, work); /* where all threads are at work, libuv keeps it */
        return;
    }
    *readers->waiting_end = work;
    readers->waiting_end = &work->next;
}
