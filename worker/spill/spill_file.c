#include "worker/spill/spill_file.h"

#include "protocol/base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define N_ORDER 1024
#define N_THREAD 2 /* one maps pages or writes while the other reads */
/* Orders that follow one another in memory and file are carried out as one, up to here. */
#define MOST_BYTES ((size_t)8 << 20)

struct order {
    enum spill_order kind;
    char *at;
    int64_t offset;
    size_t n_bytes;
};

/* Tickets count orders from 1: `given` were given, `begun` are under way, the first `done` of them carried out. */
struct spill_file {
    int fd;
    bool is_direct; /* past the page cache */
    int64_t n_bytes;
    char dir[PATH_MAX];
    pthread_t thread[N_THREAD];
    int n_thread;

    pthread_mutex_t lock;
    pthread_cond_t given_more, done_more;
    struct order ring[N_ORDER];
    uint64_t given, begun, done;
    uint64_t at_work[N_THREAD]; /* tickets; 0: none */
    bool is_closing;
    char failed[512]; /* the first failure; "": none */
};

/* --- the thread --- */

static void fail(struct spill_file *file, const char *what, int error)
{
    pthread_mutex_lock(&file->lock);
    if (file->failed[0] == '\0') {
        snprintf(file->failed, sizeof file->failed, "cannot %s in memory.spill = \"%.300s\": %s", what, file->dir,
                 strerror(error));
    }
    pthread_mutex_unlock(&file->lock);
}

static bool move(struct spill_file *file, const struct order *order)
{
    bool writes = order->kind != SPILL_ORDER_READ;
    for (size_t at = 0; at < order->n_bytes;) {
        size_t left = order->n_bytes - at;
        off_t offset = order->offset + (int64_t)at;
        ssize_t n = writes ? pwrite(file->fd, order->at + at, left, offset)
                           : pread(file->fd, order->at + at, left, offset);
        if (n == 0 || (n < 0 && errno != EINTR)) {
            fail(file, writes ? "write" : "read", n == 0 ? EIO : errno);
            return false;
        }
        at += n > 0 ? (size_t)n : 0;
    }
    if (!file->is_direct) {
        /* What was moved shall not stay in the page cache, which is memory too. */
        if (writes &&
            sync_file_range(file->fd, order->offset, (off_t)order->n_bytes,
                            SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) != 0 &&
            errno != ESPIPE && errno != ENOSYS) {
            fail(file, "write", errno);
            return false;
        }
        posix_fadvise(file->fd, order->offset, (off_t)order->n_bytes, POSIX_FADV_DONTNEED);
    }
    return true;
}

static bool takes(const struct order *order)
{
    return order->kind == SPILL_ORDER_FRESH || order->kind == SPILL_ORDER_READ;
}

static bool gives_back(const struct order *order)
{
    return order->kind == SPILL_ORDER_WRITE || order->kind == SPILL_ORDER_DROP;
}

static void carry_out(struct spill_file *file, const struct order *order)
{
    if (takes(order)) {
        if (mprotect(order->at, order->n_bytes, PROT_READ | PROT_WRITE) != 0) {
            fail(file, "take memory for what is kept", errno);
            return;
        }
        memory_count(MEMORY_SPILL, (int64_t)order->n_bytes);
    }
    bool moves = order->kind != SPILL_ORDER_FRESH && order->kind != SPILL_ORDER_DROP;
    if (moves && !move(file, order)) {
        return;
    }
    if (order->kind == SPILL_ORDER_FRESH) { /* here rather than page by page where it is touched */
        madvise(order->at, order->n_bytes, MADV_POPULATE_WRITE);
    }
    if (gives_back(order)) {
        madvise(order->at, order->n_bytes, MADV_DONTNEED);
        mprotect(order->at, order->n_bytes, PROT_NONE);
        memory_count(MEMORY_SPILL, -(int64_t)order->n_bytes);
    }
}

/* Must an order wait for one at work: for its bytes, or for memory that it gives back? */
static bool waits_for(const struct order *order, const struct order *other)
{
    return (takes(order) && gives_back(other)) ||
           (order->at < other->at + other->n_bytes && other->at < order->at + order->n_bytes);
}

static bool next_waits(const struct spill_file *file)
{
    bool waits = file->begun == file->given;
    for (int i = 0; i < N_THREAD && !waits; i++) {
        waits = file->at_work[i] > 0 &&
                waits_for(&file->ring[file->begun % N_ORDER], &file->ring[(file->at_work[i] - 1) % N_ORDER]);
    }
    return waits;
}

static void count_done(struct spill_file *file)
{
    file->done = file->begun;
    for (int i = 0; i < N_THREAD; i++) {
        file->done = file->at_work[i] > 0 && file->at_work[i] <= file->done ? file->at_work[i] - 1 : file->done;
    }
}

static void *serve(void *arg)
{
    struct spill_file *file = arg;
    pthread_mutex_lock(&file->lock);
    for (;;) {
        while (next_waits(file) && !file->is_closing) {
            pthread_cond_wait(&file->given_more, &file->lock);
        }
        if (file->is_closing) {
            break;
        }
        int me = 0;
        while (file->at_work[me] > 0) {
            me++;
        }
        const struct order order = file->ring[file->begun % N_ORDER];
        file->at_work[me] = ++file->begun;
        bool failed = file->failed[0] != '\0';
        pthread_mutex_unlock(&file->lock);
        if (!failed) {
            carry_out(file, &order);
        }
        pthread_mutex_lock(&file->lock);
        file->at_work[me] = 0;
        count_done(file);
        pthread_cond_broadcast(&file->done_more);
        pthread_cond_broadcast(&file->given_more);
    }
    pthread_mutex_unlock(&file->lock);
    return NULL;
}

/* --- orders --- */

/* The last order given, when it has not begun and this one only makes it longer. */
static bool lengthen(struct spill_file *file, enum spill_order kind, const char *at, int64_t offset, size_t n_bytes)
{
    if (file->given == file->begun) {
        return false;
    }
    struct order *last = &file->ring[(file->given - 1) % N_ORDER];
    if (last->kind != kind || last->at + last->n_bytes != at || last->offset + (int64_t)last->n_bytes != offset ||
        last->n_bytes + n_bytes > MOST_BYTES) {
        return false;
    }
    last->n_bytes += n_bytes;
    return true;
}

uint64_t spill_file_order(struct spill_file *file, enum spill_order kind, void *at, int64_t offset, size_t n_bytes)
{
    pthread_mutex_lock(&file->lock);
    if (!lengthen(file, kind, at, offset, n_bytes)) {
        while (file->given - file->done == N_ORDER) {
            pthread_cond_wait(&file->done_more, &file->lock);
        }
        file->ring[file->given++ % N_ORDER] = (struct order){
            .kind = kind, .at = at, .offset = offset, .n_bytes = n_bytes};
        pthread_cond_signal(&file->given_more);
    }
    uint64_t ticket = file->given;
    pthread_mutex_unlock(&file->lock);
    return ticket;
}

enum status spill_file_wait(struct spill_file *file, uint64_t ticket)
{
    pthread_mutex_lock(&file->lock);
    while (file->done < ticket) {
        pthread_cond_wait(&file->done_more, &file->lock);
    }
    enum status status = file->failed[0] == '\0' ? STATUS_OK : status_fail(STATUS_IO, "%s", file->failed);
    pthread_mutex_unlock(&file->lock);
    return status;
}

/* --- life --- */

/* A file without a name; where the file system knows none, one that loses its name at once. */
static int nameless(const char *dir, int flags)
{
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) {
        return fd;
    }
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/.spill-XXXXXX", dir) >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkostemp(path, O_CLOEXEC | flags);
    if (fd >= 0) {
        unlink(path);
    }
    return fd;
}

static int threads_start(struct spill_file *file)
{
    /* Signals are for the thread that has always taken them. */
    sigset_t all, before;
    int error = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (file->n_thread < N_THREAD && error == 0) {
        error = pthread_create(&file->thread[file->n_thread], NULL, serve, file);
        file->n_thread += error == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

enum status spill_file_open(const char *dir, struct spill_file **out)
{
    struct spill_file *file = memory_alloc(1, sizeof *file);
    pthread_mutex_init(&file->lock, NULL);
    pthread_cond_init(&file->given_more, NULL);
    pthread_cond_init(&file->done_more, NULL);
    snprintf(file->dir, sizeof file->dir, "%s", dir);
    file->fd = nameless(dir, O_DIRECT);
    file->is_direct = file->fd >= 0;
    if (file->fd < 0 && errno == EINVAL) {
        file->fd = nameless(dir, 0);
    }
    if (file->fd < 0) {
        enum status status = status_fail(STATUS_IO,
                                         "cannot make a file in memory.spill = \"%s\": %s; expected a folder on "
                                         "this worker's machine that it may write to",
                                         dir, strerror(errno));
        spill_file_close(file);
        return status;
    }
    int error = threads_start(file);
    if (error != 0) {
        spill_file_close(file);
        return status_fail(STATUS_NOMEM, "cannot start a thread for memory.spill: %s", strerror(error));
    }
    *out = file;
    return STATUS_OK;
}

void spill_file_close(struct spill_file *file)
{
    if (file == NULL) {
        return;
    }
    pthread_mutex_lock(&file->lock);
    file->is_closing = true;
    pthread_cond_broadcast(&file->given_more);
    pthread_mutex_unlock(&file->lock);
    for (int i = 0; i < file->n_thread; i++) {
        pthread_join(file->thread[i], NULL);
    }
    if (file->fd >= 0) {
        close(file->fd);
    }
    pthread_cond_destroy(&file->given_more);
    pthread_cond_destroy(&file->done_more);
    pthread_mutex_destroy(&file->lock);
    free(file);
}

enum status spill_file_grow(struct spill_file *file, int64_t n_bytes, int64_t *offset_out)
{
    int error = n_bytes > 0 ? posix_fallocate(file->fd, file->n_bytes, n_bytes) : 0;
    if (error != 0) {
        return status_fail(STATUS_IO,
                           "cannot reserve %lld bytes in memory.spill = \"%s\", %lld more than are there: %s",
                           (long long)(file->n_bytes + n_bytes), file->dir, (long long)n_bytes, strerror(error));
    }
    *offset_out = file->n_bytes;
    file->n_bytes += n_bytes;
    return STATUS_OK;
}
