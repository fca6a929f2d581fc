#include "trainerd/coordinator/machines/room.h"

#include "protocol/base/memory.h"
#include "protocol/files/file.h"
#include "protocol/transport/transport.h"
#include "trainerd/base/figure.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define FILES_OWN 40 /* of a coordinator without workers: 26, and its data, results and pipes */
#define FILES_EACH                                                                                                   \
    2 /* of a worker: its connection, and its log while it starts; as many of UCX's where it is elsewhere */
#define TASKS_OWN 2     /* of a coordinator: what cuts the graph, and a thread of UCX */
#define TASKS_EACH 2    /* of a worker, beside its threads */
#define SEGMENTS_EACH 5 /* of System V: a process's queue and four times BUFFERS of 8 KiB */
#define BUFFERS "256"   /* that UCX takes at a time, whose pages it touches at once: of its own accord 512 */
#define LEAST_BYTES ((int64_t)5 << 20) /* of shared memory for a process that no message waits in */
#define MIB(n) ((n) >> 20)             /* whole ones, for people */

static bool posix_may_be_written(void)
{
    return access(TRANSPORT_SHARED, W_OK) == 0;
}

static int64_t posix_free(void)
{
    struct statvfs about;
    return posix_may_be_written() && statvfs(TRANSPORT_SHARED, &about) == 0
               ? (int64_t)(about.f_bavail * about.f_bsize)
               : 0;
}

static bool sysv_has_room(int64_t n_process)
{
    struct shminfo most;
    struct shm_info now;
    if (shmctl(0, IPC_INFO, (struct shmid_ds *)&most) < 0 || shmctl(0, SHM_INFO, (struct shmid_ds *)&now) < 0) {
        return false;
    }
    unsigned long page = (unsigned long)sysconf(_SC_PAGESIZE),
                  need = (unsigned long)(n_process * TRANSPORT_SHARED_BYTES);
    return most.shmmax >= (unsigned long)TRANSPORT_SHARED_BYTES && most.shmall >= now.shm_tot &&
           most.shmall - now.shm_tot >= need / page &&
           most.shmmni >= (unsigned long)(now.used_ids + n_process * SEGMENTS_EACH);
}

/* All on one host: without TCP, UCX opens no port to the network, in this process and in the workers. */
static enum status segments_choose(int64_t n_process)
{
    if (getenv("UCX_TLS") != NULL) {
        return STATUS_OK;
    }
    int64_t has = posix_free(), needs = n_process * TRANSPORT_SHARED_BYTES;
    const char *why = posix_may_be_written() ? "" : " for this user, who may not write there";
    bool is_short = has < needs, has_other = is_short && sysv_has_room(n_process);
    if (is_short && !has_other && has < n_process * LEAST_BYTES) {
        return status_fail(
            STATUS_NOMEM,
            TRANSPORT_SHARED
            " has %lld MiB free%s, and %lld processes need %lld MiB of shared memory, which System V's has no "
            "room for either (ipcs -lmu): docker run --shm-size=%lldm, or fewer workers (workers.count)",
            (long long)MIB(has), why, (long long)n_process, (long long)MIB(needs), (long long)MIB(needs));
    }
    if (has_other) {
        fprintf(
            stderr,
            TRANSPORT_SHARED
            " has %lld MiB free%s, and %lld processes need %lld MiB of shared memory: they share System V's instead "
            "(docker run --shm-size=%lldm)\n",
            (long long)MIB(has), why, (long long)n_process, (long long)MIB(needs), (long long)MIB(needs));
    }
    setenv("UCX_MM_RX_BUFS_GROW", BUFFERS, 0);
    setenv("UCX_TLS", has_other ? "sysv,cma,self" : "sm,self", 0);
    return STATUS_OK;
}

static void *wait_for(void *lock)
{
    pthread_mutex_lock(lock);
    pthread_mutex_unlock(lock);
    return NULL;
}

/* Processes and threads that may still be started, up to n: they are, and end. A limit of the user counts others,
 * too, and one of a control group may be anywhere above. */
static int64_t tasks_start(int64_t n)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_attr_t small;
    pthread_t *thread = memory_alloc((size_t)n, sizeof *thread);
    int64_t n_started = 0;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    pthread_mutex_lock(&lock);
    while (n_started < n && pthread_create(&thread[n_started], &small, wait_for, &lock) == 0) {
        n_started++;
    }
    pthread_mutex_unlock(&lock);
    for (int64_t i = 0; i < n_started; i++) {
        pthread_join(thread[i], NULL);
    }
    pthread_attr_destroy(&small);
    free(thread);
    return n_started;
}

/* The libraries end a process that may start no thread: libgomp without a reason, UCX by an assertion. */
enum status room_for_tasks(const struct job *job)
{
    const int64_t n = job->workers.launcher == JOB_LAUNCHER_LOCAL ? job->workers.count : 0;
    const int64_t share = n > 0 ? sysconf(_SC_NPROCESSORS_ONLN) / n : 0;
    const int64_t threads = job->workers.threads > 0 ? job->workers.threads : share > 0 ? share : 1;
    const int64_t needs = TASKS_OWN + n * (TASKS_EACH + threads), may = tasks_start(needs);
    if (may == needs) {
        return STATUS_OK;
    }
    return status_fail(STATUS_NOMEM,
                       "this user, or control group, may start %lld more processes and threads, and the job needs "
                       "%lld: raise ulimit -u (LimitNPROC, TasksMax of a service; docker run --pids-limit), or set "
                       "fewer workers or workers.threads",
                       (long long)may, (long long)needs);
}

enum status room_check(const struct job *job)
{
    const int64_t n = job->workers.count;
    const bool is_local = job->workers.launcher == JOB_LAUNCHER_LOCAL;
    char what[96];
    snprintf(what, sizeof what, "the coordinator of %s", figure_count(n, "worker").text);
    enum status status = file_room(FILES_OWN + FILES_EACH * (is_local ? n : 2 * n), what);
    return status == STATUS_OK && is_local ? segments_choose(n + 1) : status;
}
