#include "partition/part/part.h"
#include "protocol/base/clock.h"
#include "tests/support/graphs/part_encode.h"
#include "tests/support/process/fleet_case.h"
#include "tests/support/process/patience.h"
#include "trainerd/coordinator/fleet/fleet.h"

#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* Real workers on loopback. A worker's end must be noticed, named and cleaned up, whatever it was. */

TestSuite(fleet, .timeout = 900);

static struct library_versions libraries[8]; /* what workers say of them */

/* A job's parts on their workers, everybody ready. */
static int64_t prepare(struct fleet *fleet, const struct job *job, struct partition *partition)
{
    struct dataset dataset;
    cr_assert_eq(dataset_load(job, &dataset), STATUS_OK, "%s", status_reason());
    cr_assert_eq(partition_build(&dataset, job, partition), STATUS_OK, "%s", status_reason());
    int32_t rank_of_part[16];
    for (int32_t part = 0; part < partition->n_part; part++) {
        rank_of_part[part] = (int32_t)(part * job->workers.count / partition->n_part);
    }
    cr_assert_eq(fleet_place(fleet, partition->n_part, rank_of_part), STATUS_OK, "%s", status_reason());
    for (int32_t part = 0; part < partition->n_part; part++) {
        void *bytes;
        size_t n;
        cr_assert_eq(part_encode(&dataset, partition, part, &bytes, &n), STATUS_OK, "%s", status_reason());
        cr_assert_eq(fleet_ship(fleet, part, bytes, n), STATUS_OK, "%s", status_reason());
        memory_release(MEMORY_OTHER, bytes, n, 1);
    }
    struct fleet_memory memory[8];
    int64_t n_weight = 0;
    cr_assert_eq(fleet_ready(fleet, memory, &n_weight, libraries), STATUS_OK, "%s", status_reason());
    for (int64_t rank = 0; rank < job->workers.count; rank++) {
        cr_assert_eq(libraries[rank].of[LIBRARY_BLAS], LIBRARY_UNKNOWN, "the cpu's bits depend on none");
        cr_assert_eq(libraries[rank].of[LIBRARY_SPARSE], LIBRARY_UNKNOWN);
    }
    cr_assert_gt(memory[job->workers.count - 1].planned.bytes[MEMORY_PLACE_HOST][MEMORY_PARAMETERS], 0);
    dataset_release(&dataset);
    return n_weight;
}

static struct fleet *start(const struct job *job)
{
    struct fleet *fleet;
    cr_assert_eq(fleet_open(job, NULL, &fleet), STATUS_OK, "%s", status_reason());
    cr_assert_eq(fleet_n_alive(fleet), (int)job->workers.count);
    return fleet;
}

Test(fleet, workers_come_and_go_and_leave_nothing)
{
    struct job job = fleet_case(3, 3);
    double taken_s = 2;
    for (int i = 0; i < 5 && taken_s > 1.5; i++) { /* a machine may be too slow for all of them once */
        struct fleet *fleet = start(&job);
        double begin = clock_s();
        fleet_close(fleet);
        taken_s = clock_s() - begin;
        fleet_check_childless();
    }
    cr_assert_lt(taken_s, 1.5, "they end by themselves when told, and are not killed after 2 s");
}

/* Train some epochs; loss of the last and all weights. */
static double train(int n_worker, float **weights_out, int64_t *n_out)
{
    struct job job = fleet_case(n_worker, 4);
    struct fleet *fleet = start(&job);
    struct partition partition;
    int64_t n_weight = prepare(fleet, &job, &partition);
    struct fleet_report report;
    double first = 0;
    for (uint32_t epoch = 0; epoch < 10; epoch++) {
        cr_assert_eq(fleet_epoch(fleet, epoch, true, true, &report), STATUS_OK, "%s", status_reason());
        first = epoch == 0 ? report.loss : first;
    }
    cr_assert_lt(report.loss, first);
    cr_assert_eq(report.n_call, 0u, "an epoch allocates nothing");
    cr_assert_eq(report.bytes_sent, report.bytes_received);
    cr_assert_eq(report.bytes_sent > 0, n_worker > 1);
    size_t n_bytes = (size_t)n_weight * sizeof(float);
    float *weights = malloc(n_bytes), *again = malloc(n_bytes);
    cr_assert_eq(fleet_get(fleet, WORKER_STATE_WEIGHTS, 0, weights, n_bytes), STATUS_OK, "%s", status_reason());

    cr_assert_eq(fleet_keep_best(fleet), STATUS_OK, "%s", status_reason());
    cr_assert_eq(fleet_get(fleet, WORKER_STATE_BEST, 0, again, n_bytes), STATUS_OK, "%s", status_reason());
    cr_assert_eq(memcmp(weights, again, n_bytes), 0, "the best are the present ones");
    again[0] += 1;
    cr_assert_eq(fleet_put(fleet, WORKER_STATE_WEIGHTS, 0, again, n_bytes), STATUS_OK, "%s", status_reason());
    cr_assert_eq(fleet_get(fleet, WORKER_STATE_WEIGHTS, 0, again, n_bytes), STATUS_OK, "%s", status_reason());
    cr_assert_eq(again[0], weights[0] + 1, "what was put is what is got");

    for (int32_t part = 0; part < partition.n_part; part++) {
        size_t n_own = (size_t)(partition.part_begin[part + 1] - partition.part_begin[part]);
        float logits[256];
        cr_assert_eq(fleet_get(fleet, WORKER_STATE_LOGITS, part, logits, n_own * 2 * sizeof *logits), STATUS_OK, "%s",
                     status_reason());
        cr_assert(isfinite(logits[0]));
    }
    struct fleet_memory memory[4];
    cr_assert_eq(fleet_memory(fleet, memory), STATUS_OK, "%s", status_reason());
    cr_assert_gt(memory[n_worker - 1].resident_peak, 1 << 20);
    cr_assert_gt(memory[n_worker - 1].measured.bytes[MEMORY_PLACE_HOST][MEMORY_PARAMETERS], 0);
    partition_release(&partition);
    fleet_close(fleet);
    fleet_check_childless();
    free(again);
    *weights_out = weights;
    *n_out = n_weight;
    return report.loss;
}

Test(fleet, a_job_trains_to_the_same_bits_on_one_two_and_three_workers)
{
    float *alone, *shared;
    int64_t n_alone, n_shared;
    double loss = train(1, &alone, &n_alone);
    for (int n_worker = 2; n_worker <= 3; n_worker++) {
        cr_assert_eq(train(n_worker, &shared, &n_shared), loss);
        cr_assert_eq(n_shared, n_alone);
        cr_assert_eq(memcmp(shared, alone, (size_t)n_alone * sizeof *alone), 0);
        free(shared);
    }
    free(alone);
}

/* --- workers that die --- */

Test(fleet, a_killed_worker_ends_the_epoch_with_its_name_and_signal)
{
    struct job job = fleet_case(2, 2);
    job.workers.heartbeat_timeout = 600; /* it is not its silence that tells */
    struct fleet *fleet = start(&job);
    struct partition partition;
    struct fleet_report report;
    pid_t pids[2];
    prepare(fleet, &job, &partition);
    cr_assert_eq(fleet_epoch(fleet, 0, true, true, &report), STATUS_OK);
    cr_assert_eq(fleet_workers(getpid(), pids, 2), 2);
    kill(pids[1], SIGKILL);
    enum status status = STATUS_OK;
    for (uint32_t epoch = 1; status == STATUS_OK; epoch++) {
        status = fleet_epoch(fleet, epoch, true, false, &report);
    }
    cr_assert_eq(status, STATUS_PEER);
    char who[32];
    snprintf(who, sizeof who, "worker 1 (pid %d)", pids[1]);
    const char *const words[] = {who, "was killed by signal 9 (SIGKILL) in epoch ", NULL};
    fleet_check_reason(words);
    cr_assert_eq(fleet_n_alive(fleet), 0);
    fleet_check_childless();
    cr_assert_eq(fleet_epoch(fleet, 5, true, false, &report), STATUS_PEER, "the failure sticks");
    fleet_check_reason(words);
    partition_release(&partition);
    fleet_close(fleet);
}

static pid_t alarm_victim;

static void alarm_kill(int signal)
{
    (void)signal;
    kill(alarm_victim, SIGKILL);
}

Test(fleet, a_worker_killed_while_its_memory_is_read_takes_nobody_along)
{
    struct job job = fleet_case(1, 1);
    job.model.hidden = 65536; /* megabytes of weights */
    struct fleet *fleet = start(&job);
    struct partition partition;
    int64_t n_weight = prepare(fleet, &job, &partition);
    size_t n_bytes = (size_t)n_weight * sizeof(float);
    float *weights = malloc(n_bytes);
    cr_assert_eq(fleet_workers(getpid(), &alarm_victim, 1), 1);
    signal(SIGALRM, alarm_kill);
    alarm(1);
    enum status status = STATUS_OK;
    while (status == STATUS_OK) {
        status = fleet_get(fleet, WORKER_STATE_WEIGHTS, 0, weights, n_bytes);
    }
    cr_assert_eq(status, STATUS_PEER);
    fleet_check_reason((const char *const[]){"worker 0", "SIGKILL", "while sending the weights", NULL});
    free(weights);
    partition_release(&partition);
    fleet_close(fleet);
    fleet_check_childless();
}

Test(fleet, a_stopped_worker_is_noticed_by_its_silence_and_killed)
{
    struct job job = fleet_case(2, 2);
    job.workers.heartbeat_timeout = 2;
    struct fleet *fleet = start(&job);
    struct fleet_memory memory[2];
    int64_t n_weight;
    pid_t pids[2];
    cr_assert_eq(fleet_workers(getpid(), pids, 2), 2);
    kill(pids[0], SIGSTOP);
    cr_assert_eq(fleet_ready(fleet, memory, &n_weight, libraries), STATUS_PEER);
    fleet_check_reason((const char *const[]){"worker 0", "while it made itself ready", "heartbeat_timeout", NULL});
    fleet_check_silence(2);
    fleet_check_childless();
    fleet_close(fleet);
}

static volatile sig_atomic_t alarm_rang;

static void alarm_note(int signal)
{
    alarm_rang = signal;
}

Test(fleet, workers_that_only_wait_are_not_taken_for_silent)
{
    struct job job = fleet_case(2, 2);
    job.workers.heartbeat_timeout = 2; /* they speak four times as often */
    struct fleet *fleet;
    struct fleet_memory memory[2];
    int64_t n_weight;
    cr_assert_eq(fleet_open(&job, &(struct fleet_setup){.stop = &alarm_rang}, &fleet), STATUS_OK, "%s",
                 status_reason());
    signal(SIGALRM, alarm_note);
    alarm(5);
    cr_assert_eq(fleet_ready(fleet, memory, &n_weight, libraries), STATUS_INTERRUPTED, "%s", status_reason());
    fleet_close(fleet);
    fleet_check_childless();
}

Test(fleet, a_worker_that_fails_ends_the_call_with_its_own_words_and_status)
{
    struct job job = fleet_case(2, 2);
    struct fleet *fleet = start(&job);
    struct fleet_memory memory[2];
    int64_t n_weight;
    uint8_t rubbish[200] = {1};
    cr_assert_eq(fleet_place(fleet, 2, (const int32_t[]){0, 1}), STATUS_OK);
    cr_assert_eq(fleet_ship(fleet, 1, rubbish, sizeof rubbish), STATUS_OK, "%s", status_reason());
    cr_assert_eq(fleet_ready(fleet, memory, &n_weight, libraries), STATUS_DATA);
    fleet_check_reason(
        (const char *const[]){"worker 1 (pid ", "failed while it made itself ready: encoded part: 200 bytes", NULL});
    fleet_check_childless();
    fleet_close(fleet);
}

/* The coordinator of a test: it opens a fleet, tells who its workers are, and does no more. */
static _Noreturn void coordinator_run(int words)
{
    struct job job = fleet_case(2, 2);
    struct fleet *fleet;
    pid_t pids[2];
    job.workers.heartbeat_timeout = 600; /* it is not its silence that tells */
    if (fleet_open(&job, NULL, &fleet) == STATUS_OK && fleet_workers(getpid(), pids, 2) == 2 &&
        write(words, pids, sizeof pids) == sizeof pids) {
        for (;;) {
            pause();
        }
    }
    _exit(1);
}

Test(fleet, workers_end_when_their_coordinator_is_killed)
{
    int words[2], workers[2];
    pid_t pids[2], self = getpid();
    cr_assert_eq(pipe(words), 0);
    pid_t coordinator = fork();
    if (coordinator == 0) {
        die_with(self);
        coordinator_run(words[1]);
    }
    close(words[1]);
    cr_assert_eq(read(words[0], pids, sizeof pids), (ssize_t)sizeof pids);
    for (int i = 0; i < 2; i++) {
        workers[i] = pidfd_open(pids[i], 0);
        cr_assert_geq(workers[i], 0, "worker %d ended before its coordinator", i);
    }
    kill(coordinator, SIGKILL);
    cr_assert_eq(waitpid(coordinator, NULL, 0), coordinator);
    for (int i = 0; i < 2; i++) {
        cr_assert(process_ends(workers[i]), "worker %d is left", i);
    }
}

Test(fleet, a_stop_signal_ends_the_wait_for_workers)
{
    struct job job = fleet_case(1, 1);
    volatile sig_atomic_t stop = SIGTERM;
    struct fleet *fleet;
    cr_assert_eq(fleet_open(&job, &(struct fleet_setup){.stop = &stop}, &fleet), STATUS_INTERRUPTED);
    fleet_check_reason((const char *const[]){"signal 15", NULL});
    fleet_check_childless();
}
