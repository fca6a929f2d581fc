/* Random sequences of what owners and fate do to jobs, held against a small model of what may become of each.
 *
 * The model knows of a job whether it was asked to end, how many of its processes were killed and whether the disk
 * was full: from that follows which ends are allowed, which answers a request may get, and which changes may be heard
 * of. TEST_SEED gives one seed instead of the kept ones; TEST_THOROUGH makes 1000 steps.
 */
#include "protocol/base/clock.h"
#include "protocol/base/random.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"
#include "tests/support/process/results.h"
#include "tests/system/daemon/daemon_case.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#define N_OPEN_MOST 4
#define N_RESTART_MOST 2

/* What the model knows of a job. */
struct fate {
    bool cancelled, resumed; /* asked for since its last beginning; being asked for */
    int n_kill;              /* of its coordinators and workers since then */
    bool met_full_disk;
    unsigned seen; /* its states during the present request, a bit each */
};

static struct fate fates[DAEMON_CASE_JOBS_MOST];
static int64_t n_job;
static bool disk_is_small, disk_is_full;
static uint64_t seed, n_drawn;
static char happened[4096]; /* the last steps, for people */

static uint32_t draw(uint32_t below)
{
    const struct random_key key = {.seed = seed};
    return random_u32(&key, n_drawn++, 0) % below;
}

static void note(const char *what, int64_t id)
{
    char step[64];
    size_t n = strlen(happened), n_step = (size_t)snprintf(step, sizeof step, "%s %lld, ", what, (long long)id);
    if (n + n_step >= sizeof happened) {
        memmove(happened, happened + sizeof happened / 2, n - sizeof happened / 2 + 1);
        n = strlen(happened);
    }
    strcpy(happened + n, step);
}

#define HOLDS(condition, ...)                                                                                        \
    do {                                                                                                             \
        char said[1200];                                                                                             \
        snprintf(said, sizeof said, __VA_ARGS__);                                                                    \
        cr_assert(condition, "%s\n  seed %llu: %s", said, (unsigned long long)seed, happened);                       \
    } while (0)

static bool is_open(const struct job_record *job)
{
    return !job_state_ended(job->state);
}

/* --- what may be heard --- */

static void heard(const struct job_record *before, const struct job_record *after)
{
    struct fate *fate = &fates[after->id];
    fate->seen |= 1u << after->state;
    if (before->id == 0) {
        return;
    }
    long long id = (long long)after->id;
    HOLDS(after->attempt >= before->attempt, "job %lld: attempt %d after %d", id, (int)after->attempt,
          (int)before->attempt);
    HOLDS(is_open(before) || after->state == before->state || fate->resumed, "job %lld: %s after %s", id,
          job_state_name(after->state), job_state_name(before->state));
    HOLDS(after->run.n_restart <= N_RESTART_MOST, "job %lld: %d restarts", id, (int)after->run.n_restart);
    HOLDS(fate->met_full_disk || after->run.n_restart <= fate->n_kill, "job %lld: %d restarts after %d kills: %s", id,
          (int)after->run.n_restart, fate->n_kill, after->reason_text);
    switch (after->state) {
    case JOB_STATE_CANCELLED:
        HOLDS(fate->cancelled, "job %lld is CANCELLED, and nobody asked", id);
        break;
    case JOB_STATE_FAILED:
        HOLDS(fate->n_kill > N_RESTART_MOST || fate->met_full_disk, "job %lld has failed after %d kills: %s: %s", id,
              fate->n_kill, job_reason_name(after->reason), after->reason_text);
        break;
    default:
        break;
    }
}

/* --- the disk --- */

static void disk_make_small(void)
{
    disk_is_small = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                    mount("none", folder, "tmpfs", 0, "size=48m") == 0;
}

static void disk_fill(void)
{
    static const char block[4096];
    int file = open(folder_path("fill"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    while (write(file, block, sizeof block) > 0) {
    }
    close(file);
    disk_is_full = true;
    for (int64_t id = 1; id <= n_job; id++) {
        fates[id].met_full_disk = true;
    }
}

static void disk_free(void)
{
    unlink(folder_path("fill"));
    disk_is_full = false;
}

/* --- what is done --- */

/* Ask, and look at the answer: a request is good when the job was in a state for it at some time between asking and
 * hearing. */
static enum status ask(char what, int64_t id, int32_t n, unsigned states_for_it)
{
    struct fate *fate = &fates[id];
    fate->seen = 1u << daemon_job(id)->state;
    enum status status = daemon_command(what, id, n);
    bool refused_for_its_state = status == STATUS_USAGE;
    HOLDS(status == STATUS_OK || refused_for_its_state || (disk_is_full && status == STATUS_IO),
          "'%c' of job %lld: %s", what, (long long)id, daemon_reason);
    HOLDS(status != STATUS_OK || (fate->seen & states_for_it) != 0, "'%c' of job %lld was taken in state %s", what,
          (long long)id, job_state_name(daemon_job(id)->state));
    HOLDS(!refused_for_its_state || (fate->seen & ~states_for_it) != 0, "'%c' of job %lld was refused: %s", what,
          (long long)id, daemon_reason);
    return status;
}

#define BIT(state) (1u << JOB_STATE_##state)
#define OPEN (BIT(QUEUED) | BIT(PREPARING) | BIT(STARTING) | BIT(RUNNING))

static void submit(void)
{
    int64_t n_open = 0, id = 0;
    for (int64_t i = 1; i <= n_job; i++) {
        n_open += is_open(daemon_job(i));
    }
    if (n_open >= N_OPEN_MOST || n_job + 1 >= DAEMON_CASE_JOBS_MOST) {
        return;
    }
    char lines[512];
    snprintf(lines, sizeof lines,
             "parts = 3\n[workers]\ncount = %u\nthreads = 1\n[train]\nepochs = 300\ncheckpoint_every = 25\n"
             "[output]\ndir = \"o%lld\"\n",
             1 + draw(3), (long long)n_job + 1);
    note("submit", n_job + 1);
    /* What is heard of it before the answer comes counts, too. */
    fates[n_job + 1] = (struct fate){.met_full_disk = disk_is_full};
    enum status status = daemon_try_submit(
        &(struct daemon_job){.lines = lines, .max_restarts = N_RESTART_MOST, .priority = (int32_t)draw(2)}, &id);
    HOLDS(status == STATUS_OK || (disk_is_full && status == STATUS_IO), "submit: %s", daemon_reason);
    if (status == STATUS_OK) {
        HOLDS(id == n_job + 1, "job %lld follows job %lld", (long long)id, (long long)n_job);
        n_job = id;
    }
}

static void cancel(int64_t id)
{
    note("cancel", id);
    bool was = fates[id].cancelled;
    fates[id].cancelled = true;
    fates[id].cancelled = ask('c', id, 0, OPEN) == STATUS_OK || was;
}

static void resume(int64_t id)
{
    note("resume", id);
    fates[id].resumed = true; /* it may end before the request is heard */
    if (ask('r', id, 0, BIT(FAILED) | BIT(CANCELLED)) == STATUS_OK) {
        fates[id] = (struct fate){.met_full_disk = disk_is_full};
    }
    fates[id].resumed = false;
}

static void scale(int64_t id)
{
    int32_t n_worker = 1 + (int32_t)draw(3);
    note("scale", id);
    /* A job that is being cancelled may be refused another number, whatever its state. */
    enum status status = daemon_command('s', id, n_worker);
    HOLDS(status == STATUS_OK || status == STATUS_USAGE || disk_is_full, "scale of job %lld: %s", (long long)id,
          daemon_reason);
    HOLDS(status == STATUS_OK || disk_is_full || !is_open(daemon_job(id)) || fates[id].cancelled,
          "scale of job %lld: %s", (long long)id, daemon_reason);
}

static void restart_daemon(void)
{
    note("kill daemon", 0);
    daemon_kill();
    daemon_start();
}

static void step(void)
{
    int64_t id = n_job > 0 ? 1 + (int64_t)draw((uint32_t)n_job) : 0;
    if (n_job > N_OPEN_MOST && draw(4) > 0) { /* the newest see most of it */
        id = n_job - (int64_t)draw(N_OPEN_MOST);
    }
    uint32_t what = draw(100);
    if (disk_is_full && draw(6) == 0) { /* full for a few steps at a time */
        note("free disk", 0);
        disk_free();
    } else if (id == 0 || what < 12) {
        submit();
    } else if (what < 18) {
        cancel(id);
    } else if (what < 23) {
        resume(id);
    } else if (what < 32) {
        restart_daemon();
    } else if (what < 38) {
        note("kill coordinator", id);
        fates[id].n_kill += daemon_kill_coordinator(id);
    } else if (what < 44) {
        note("kill worker", id);
        fates[id].n_kill += daemon_kill_worker(id, (int)draw(2));
    } else if (what < 49) {
        scale(id);
    } else if (what < 51 && disk_is_small && !disk_is_full) {
        note("fill disk", 0);
        disk_fill();
    } else {
        daemon_listen((int)draw(150));
    }
    HOLDS(id == 0 || daemon_n_coordinator(id) <= 1, "job %lld has two coordinators", (long long)id);
}

/* --- the end --- */

static void expect_end(int64_t id, const char *plain)
{
    double since = clock_s();
    while (is_open(daemon_job(id))) {
        daemon_listen(1000);
        HOLDS(clock_s() - since < PATIENCE_S, "job %lld never ends: %s, %s: %s", (long long)id,
              job_state_name(daemon_job(id)->state), job_reason_name(daemon_job(id)->reason),
              daemon_job(id)->reason_text);
    }
    char name[32];
    snprintf(name, sizeof name, "o%lld", (long long)id);
    if (daemon_job(id)->state == JOB_STATE_SUCCEEDED) {
        results_expect_same_file(plain, folder_path(name), "model.safetensors");
    }
}

static void run_steps(int n_step)
{
    char plain[PATH_MAX];
    folder_make();
    disk_make_small();
    daemon_run_plain("parts = 3\n[train]\nepochs = 300\n");
    snprintf(plain, sizeof plain, "%s/plain", folder);
    daemon_options.capacity.n_slot = 5;
    daemon_options.kill_s = 10;
    daemon_heard = heard;
    daemon_start();
    for (int i = 0; i < n_step; i++) {
        step();
    }
    disk_free();
    restart_daemon();
    int n_end[JOB_STATE_N] = {0};
    for (int64_t id = 1; id <= n_job; id++) {
        expect_end(id, plain);
        n_end[daemon_job(id)->state]++;
    }
    daemon_heard = NULL;
    daemon_end();
    daemon_expect_nobody();
    printf("seed %llu, %d steps: %lld jobs, %d succeeded, %d cancelled, %d failed\n", (unsigned long long)seed,
           n_step, (long long)n_job, n_end[JOB_STATE_SUCCEEDED], n_end[JOB_STATE_CANCELLED], n_end[JOB_STATE_FAILED]);
    if (disk_is_small) {
        cr_assert_eq(umount(folder), 0, "%s", strerror(errno));
    }
    folder_remove();
}

/* The second once found a daemon kept out by a child of the one before. */
ParameterizedTestParameters(random, whatever_owners_and_fate_do_each_job_ends_as_it_may_and_with_the_same_bits)
{
    static uint64_t seeds[] = {1, 5};
    size_t n = sizeof seeds / sizeof *seeds;
    if (getenv("TEST_SEED") != NULL) {
        seeds[0] = strtoull(getenv("TEST_SEED"), NULL, 10);
        n = 1;
    }
    return cr_make_param_array(uint64_t, seeds, n);
}

ParameterizedTest(const uint64_t *one, random,
                  whatever_owners_and_fate_do_each_job_ends_as_it_may_and_with_the_same_bits, .timeout = 2400)
{
    seed = *one;
    run_steps(getenv("TEST_THOROUGH") != NULL ? 1000 : 60);
}
