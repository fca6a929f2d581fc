#include "tests/support/process/folder.h"
#include "tests/system/attack/campaign.h"
#include "tests/system/attack/injection.h"
#include "tests/system/attack/processes.h"
#include "tests/system/attack/talk.h"
#include "tests/system/attack/target.h"
#include "tests/system/attack/work.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define N_OF(array) ((uint32_t)(sizeof(array) / sizeof *(array)))

bool faults_may_kill = true;
static bool disk_is_small;

/* Two faults of jobs' first attempts, or one of the daemon, or none. */
void faults_start_daemon(void)
{
    static const char *const of_jobs[] = {
        "coordinator.load=kill",  "coordinator.launch=kill",  "coordinator.ship=kill",
        "coordinator.epoch=kill", "coordinator.write=kill",   "coordinator.rename=kill",
        "coordinator.move=kill",  "coordinator.results=kill", "coordinator.finish=kill",
        "worker0.wire-up=kill",   "worker1.forward=kill",     "worker1.exchange=stop",
        "worker0.step=kill",      "worker1.reduce=kill",      "coordinator.epoch=kill-parent"};
    static const char *const of_daemon[] = {"daemon.admit=kill", "daemon.admitted=kill", "daemon.gate=kill",
                                            "daemon.clock=forward", "daemon.clock=back"};
    char faults[256] = "";
    uint32_t what = campaign_draw(5);
    if (what < 2) {
        snprintf(faults, sizeof faults, "%s@%u/1,%s@%u/1", of_jobs[campaign_draw(N_OF(of_jobs))],
                 1 + campaign_draw(4), of_jobs[campaign_draw(N_OF(of_jobs))], 1 + campaign_draw(12));
    } else if (what < 4 && faults_may_kill) {
        snprintf(faults, sizeof faults, "%s@%u", of_daemon[campaign_draw(N_OF(of_daemon))], 1 + campaign_draw(3));
    }
    campaign_note("daemon starts%s%s", faults[0] != '\0' ? " with " : "", faults);
    target_start(faults[0] != '\0' ? faults : NULL);
}

static void kill_daemon(bool outright)
{
    if (!faults_may_kill) {
        return;
    }
    if (outright) {
        target_kill();
    } else {
        target_end();
    }
    talk_drop_all();
}

void injection_daemon_killed(enum user who, enum user other)
{
    (void)who;
    (void)other;
    kill_daemon(true);
    if (faults_may_kill) {
        campaign_nap(campaign_draw(100));
        faults_start_daemon();
    }
}

void injection_daemon_ended(enum user who, enum user other)
{
    (void)who;
    (void)other;
    kill_daemon(false);
    if (faults_may_kill) {
        campaign_nap(campaign_draw(100));
        faults_start_daemon();
    }
}

void injection_daemon_stopped(enum user who, enum user other)
{
    (void)who;
    (void)other;
    if (!target_is_dead() && kill(target_pid(), SIGSTOP) == 0) {
        campaign_nap(10 + campaign_draw(200));
        kill(target_pid(), SIGCONT);
    }
}

void injection_daemon_hung_up(enum user who, enum user other)
{
    (void)who;
    (void)other;
    if (!target_is_dead()) {
        kill(target_pid(), SIGHUP);
    }
}

/* A process of that kind, where there is one. */
static pid_t draw_process(enum process_kind kind)
{
    pid_t found[64];
    size_t n = processes_find(kind, found, 64);
    return n > 0 ? found[campaign_draw((uint32_t)n)] : 0;
}

/* Jobs have to be at work for this. */
static pid_t find_process(enum process_kind kind)
{
    pid_t pid = draw_process(kind);
    if (pid == 0) {
        work_submit((enum user)campaign_draw(USER_ATTACKERS), WORK_KIND_LONG, NULL, NULL, false);
        for (int i = 0; pid == 0 && i < 300; i++) {
            campaign_nap(2);
            pid = draw_process(kind);
        }
    }
    campaign_nap(campaign_draw(20));
    return pid;
}

static void kill_one(enum process_kind kind)
{
    pid_t pid = find_process(kind);
    if (pid != 0) {
        kill(pid, SIGKILL);
    }
    campaign_note("%d", (int)pid);
}

static void stop_one(enum process_kind kind)
{
    pid_t pid = find_process(kind);
    if (pid != 0 && kill(pid, SIGSTOP) == 0) {
        campaign_nap(10 + campaign_draw(300));
        kill(pid, SIGCONT);
    }
}

#define ON_A_PROCESS(name, what, kind)                                                                               \
    void injection_##name(enum user who, enum user other)                                                            \
    {                                                                                                                \
        (void)who;                                                                                                   \
        (void)other;                                                                                                 \
        what(kind);                                                                                                  \
    }
ON_A_PROCESS(coordinator_killed, kill_one, PROCESS_COORDINATOR)
ON_A_PROCESS(coordinator_stopped, stop_one, PROCESS_COORDINATOR)
ON_A_PROCESS(worker_killed, kill_one, PROCESS_WORKER)
ON_A_PROCESS(worker_stopped, stop_one, PROCESS_WORKER)
ON_A_PROCESS(planner_killed, kill_one, PROCESS_PLANNER)

void injection_all_killed(enum user who, enum user other)
{
    (void)who;
    (void)other;
    pid_t found[256];
    kill_daemon(true);
    size_t n = processes_find(PROCESS_ANY, found, 256);
    for (size_t i = 0; i < n; i++) {
        if (found[i] != target_pid()) {
            kill(found[i], SIGKILL);
        }
    }
    if (faults_may_kill) {
        faults_start_daemon();
    }
}

/* --- the disk --- */

void faults_disk_begin(void)
{
    cr_assert_eq(mkdir(folder_path("state"), 0755), 0);
    disk_is_small = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                    mount("none", folder_path("state"), "tmpfs", 0, "size=256m,mode=0755") == 0;
}

void faults_disk_end(void)
{
    if (disk_is_small) {
        umount2(folder_path("state"), MNT_DETACH);
        disk_is_small = false;
    }
}

static bool reserve_is_held(void)
{
    struct stat about;
    return stat(folder_path("state/reserve"), &about) == 0 && about.st_size > 0;
}

/* What jobs write there is lost meanwhile, so that jobs that are open may fail. With its reserve the daemon accepts a
 * job and keeps it; while that is given away, which it takes again within a minute, it may refuse. */
void injection_disk_filled(enum user who, enum user other)
{
    (void)other;
    static const char block[1 << 16];
    if (!disk_is_small) {
        campaign_note("no small disk");
        return;
    }
    works_foul_open();
    bool is_held = reserve_is_held();
    int file = open(folder_path("state/fill"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    while (write(file, block, sizeof block) > 0) {
    }
    if (is_held) {
        struct work *work = work_submit(who, 0, NULL, NULL, true);
        work->is_cancelled = true;
        json_decref(talk_ask(who, "{\"v\":1,\"id\":1,\"cmd\":\"cancel\",\"job\":%lld}", (long long)work->id));
    }
    json_t *answer = talk_ask(who, "{\"v\":1,\"id\":1,\"cmd\":\"status\"}");
    HOLDS(talk_is_ok(answer), "status on a full disk: %s", talk_error(answer));
    json_decref(answer);
    close(file);
    unlink(folder_path("state/fill"));
}

/* --- the store --- */

static void run_in_folder(const char *command)
{
    char line[512];
    snprintf(line, sizeof line, "cd '%s' && %s", folder, command);
    HOLDS(system(line) == 0, "%s", line);
}

/* The store forgets what a daemon did for a moment, as a disk that has not written all: no job was submitted
 * meanwhile, so that none is lost. */
void injection_store_set_back(enum user who, enum user other)
{
    (void)who;
    (void)other;
    if (!faults_may_kill) {
        return;
    }
    kill_daemon(true);
    run_in_folder("rm -rf older && mkdir older && cp -p state/jobs.sqlite* older/");
    target_start(NULL);
    campaign_nap(campaign_draw(400));
    target_kill();
    run_in_folder("rm state/jobs.sqlite* && cp -p older/* state/");
    faults_start_daemon();
    works_reopen();
}
