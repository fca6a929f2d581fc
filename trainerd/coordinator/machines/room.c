#include "trainerd/coordinator/machines/room.h"

#include "protocol/files/file.h"
#include "protocol/transport/transport.h"

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
#define SEGMENTS_EACH 4                /* of System V: a process's queue and its buffers, and as many again */
#define LEAST_BYTES ((int64_t)5 << 20) /* of shared memory for a process that no message waits in */
#define MIB(n) ((n) >> 20)             /* whole ones, for people */

static int64_t posix_free(void)
{
    struct statvfs about;
    return statvfs(TRANSPORT_SHARED, &about) == 0 ? (int64_t)(about.f_bavail * about.f_bsize) : 0;
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
    bool is_short = has < needs, has_other = is_short && sysv_has_room(n_process);
    if (is_short && !has_other && has < n_process * LEAST_BYTES) {
        return status_fail(
            STATUS_NOMEM,
            TRANSPORT_SHARED
            " has %lld MiB free, and %lld processes need %lld MiB of shared memory, which System V's has no "
            "room for either (ipcs -lmu): docker run --shm-size=%lldm, or fewer workers (workers.count)",
            (long long)MIB(has), (long long)n_process, (long long)MIB(needs), (long long)MIB(needs));
    }
    if (has_other) {
        fprintf(
            stderr,
            TRANSPORT_SHARED
            " has %lld MiB free, and %lld processes need %lld MiB of shared memory: they share System V's instead "
            "(docker run --shm-size=%lldm)\n",
            (long long)MIB(has), (long long)n_process, (long long)MIB(needs), (long long)MIB(needs));
    }
    setenv("UCX_TLS", has_other ? "sysv,cma,self" : "sm,self", 0);
    return STATUS_OK;
}

enum status room_check(const struct job *job)
{
    const int64_t n = job->workers.count;
    const bool is_local = job->workers.launcher == JOB_LAUNCHER_LOCAL;
    char what[96];
    snprintf(what, sizeof what, "the coordinator of %lld worker%s", (long long)n, n == 1 ? "" : "s");
    enum status status = file_room(FILES_OWN + FILES_EACH * (is_local ? n : 2 * n), what);
    return status == STATUS_OK && is_local ? segments_choose(n + 1) : status;
}
