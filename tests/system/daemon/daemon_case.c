#include "tests/system/daemon/daemon_case.h"

#include "protocol/base/clock.h"
#include "protocol/base/fault.h"
#include "tests/support/daemon/jobs_submit.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"
#include "tests/support/process/process_look.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

struct supervisor_options daemon_options = {.pass_environment = "",
                                            .n_log_most = 64 << 20,
                                            .plan_s = 600,
                                            .capacity = {.n_slot = 16, .memory = INT64_C(1) << 40},
                                            .kill_s = 20,
                                            .backoff = {0.05, 0.2}};
int64_t daemon_reserve_bytes;
const char *daemon_isolation;
bool daemon_memory;
struct jobs_options daemon_jobs;
char daemon_reason[512];
void (*daemon_heard)(const struct job_record *before, const struct job_record *after);

struct request {
    char what; /* 'S' submit, 'e' end, and those of daemon_command */
    int64_t id;
    int32_t n;
    struct job_record record;
    char config[1024], folder[64];
};

struct message {
    bool is_answer;
    enum status status;
    int64_t id;
    char reason[512];
    struct job_record record;
};

static pid_t daemon_pid;
static int line = -1; /* to the daemon: a socket that keeps messages whole */
static struct job_record known[DAEMON_CASE_JOBS_MOST];

/* --- the daemon's side --- */

struct inside {
    uv_loop_t loop;
    uv_poll_t requests;
    struct jobs *jobs;
    struct supervisor *supervisor;
    int line;
};

static void say(int to, const struct message *message)
{
    if (send(to, message, sizeof *message, MSG_NOSIGNAL) != (ssize_t)sizeof *message) {
        _exit(90);
    }
}

static void tell(void *context, const struct job_record *record)
{
    const struct inside *inside = context;
    say(inside->line, &(struct message){.record = *record});
}

static enum status obey(struct inside *inside, struct request *request, int64_t *id_out)
{
    int64_t existing;
    const struct store_submission submission = {
        .submission_id = "", .config = request->config, .folder = request->folder};
    enum status status;
    *id_out = request->id;
    switch (request->what) {
    case 'S':
        status = jobs_submit(inside->jobs, &request->record, &submission, 1, &existing);
        *id_out = request->record.id;
        return status;
    case 'c':
        return supervisor_cancel(inside->supervisor, request->id);
    case 'r':
        return supervisor_resume(inside->supervisor, request->id);
    case 'R':
        return supervisor_resume_by_admin(inside->supervisor, request->id);
    case 'k':
        return supervisor_checkpoint(inside->supervisor, request->id);
    case 's':
        return supervisor_scale(inside->supervisor, request->id, request->n);
    default:
        supervisor_close(inside->supervisor);
        inside->supervisor = NULL;
        uv_close((uv_handle_t *)&inside->requests, NULL);
        return STATUS_OK;
    }
}

static void on_request(uv_poll_t *poll, int error, int events)
{
    (void)error;
    (void)events;
    struct inside *inside = poll->data;
    struct request request;
    if (recv(inside->line, &request, sizeof request, 0) != (ssize_t)sizeof request) {
        _exit(91);
    }
    struct message answer = {.is_answer = true};
    answer.status = obey(inside, &request, &answer.id);
    snprintf(answer.reason, sizeof answer.reason, "%.*s", (int)sizeof answer.reason - 1, status_reason());
    say(inside->line, &answer);
}

static void run_inside(int to)
{
    struct inside *inside = calloc(1, sizeof *inside);
    inside->line = to;
    char state[PATH_MAX];
    snprintf(state, sizeof state, "%s/state", folder);
    if (fault_arm("daemon", 0) != STATUS_OK || uv_loop_init(&inside->loop) != 0 ||
        jobs_open(state, &daemon_jobs, &inside->jobs) != STATUS_OK) {
        fprintf(stderr, "daemon: %s\n", status_reason());
        _exit(92);
    }
    jobs_reserve(inside->jobs, state, daemon_reserve_bytes);
    if (daemon_isolation != NULL &&
        job_cgroups_open("", daemon_isolation, daemon_memory, store_id(jobs_store(inside->jobs)),
                         &daemon_options.groups) != STATUS_OK) {
        fprintf(stderr, "daemon: %s\n", status_reason());
        _exit(95);
    }
    int64_t highest = 0;
    (void)store_highest(jobs_store(inside->jobs), &highest);
    for (int64_t id = 1; id <= highest; id++) {
        if (jobs_get(inside->jobs, id) != NULL) {
            tell(inside, jobs_get(inside->jobs, id));
        }
    }
    jobs_listen(inside->jobs, tell, inside);
    if (supervisor_open(&inside->loop, inside->jobs, &daemon_options, &inside->supervisor) != STATUS_OK ||
        uv_poll_init(&inside->loop, &inside->requests, to) != 0) {
        _exit(93);
    }
    inside->requests.data = inside;
    uv_poll_start(&inside->requests, UV_READABLE, on_request);
    uv_run(&inside->loop, UV_RUN_DEFAULT);
    jobs_close(inside->jobs);
    int error = uv_loop_close(&inside->loop);
    free(inside);
    exit(error == 0 ? 0 : 94);
}

/* --- the test's side --- */

void daemon_start(void)
{
    int ends[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    int room = 8 << 20;
    setsockopt(ends[1], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
    setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    pid_t parent = getpid();
    fflush(NULL);
    daemon_pid = fork();
    cr_assert_geq(daemon_pid, 0);
    if (daemon_pid == 0) {
        die_with(parent);
        close(ends[0]);
        run_inside(ends[1]);
    }
    close(ends[1]);
    line = ends[0];
}

/* Take one message; false: the daemon is gone, or nothing came in time. */
static bool hear(struct message *out, int wait_ms)
{
    struct pollfd news = {.fd = line, .events = POLLIN};
    if (poll(&news, 1, wait_ms) != 1 || recv(line, out, sizeof *out, 0) != (ssize_t)sizeof *out) {
        return false;
    }
    if (!out->is_answer) {
        cr_assert_lt(out->record.id, DAEMON_CASE_JOBS_MOST);
        struct job_record before = known[out->record.id];
        known[out->record.id] = out->record;
        if (daemon_heard != NULL) {
            daemon_heard(&before, &out->record);
        }
    }
    return true;
}

void daemon_kill(void)
{
    struct message rest;
    cr_assert_eq(kill(daemon_pid, SIGKILL), 0);
    cr_assert_eq(waitpid(daemon_pid, NULL, 0), daemon_pid);
    daemon_pid = 0;
    while (hear(&rest, 0)) { /* what it said before counts */
    }
    close(line);
    line = -1;
}

void daemon_signal(int number)
{
    cr_assert_eq(kill(daemon_pid, number), 0);
}

bool daemon_has_died(void)
{
    if (waitpid(daemon_pid, NULL, WNOHANG) != daemon_pid) {
        return false;
    }
    daemon_pid = 0;
    close(line);
    line = -1;
    return true;
}

static enum status ask(const struct request *request, int64_t *id_out)
{
    struct message answer = {0};
    cr_assert_eq(send(line, request, sizeof *request, MSG_NOSIGNAL), (ssize_t)sizeof *request, "%s", strerror(errno));
    do {
        cr_assert(hear(&answer, PATIENCE_S * 1000), "the daemon says nothing");
    } while (!answer.is_answer);
    snprintf(daemon_reason, sizeof daemon_reason, "%s", answer.reason);
    *id_out = answer.id;
    return answer.status;
}

void daemon_end(void)
{
    int64_t id;
    int status;
    cr_assert_eq(ask(&(struct request){.what = 'e'}, &id), STATUS_OK);
    cr_assert_eq(waitpid(daemon_pid, &status, 0), daemon_pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%d", status);
    daemon_pid = 0;
    close(line);
    line = -1;
}

enum status daemon_try_submit(const struct daemon_job *job, int64_t *id_out)
{
    uid_t uid = job->uid != 0 ? job->uid : geteuid();
    gid_t gid = job->uid != 0 ? (gid_t)job->uid : getegid();
    struct request request = {.what = 'S',
                              .record = {.uid = uid,
                                         .gid = gid,
                                         .priority = job->priority,
                                         .max_restarts = job->max_restarts,
                                         .time_limit_s = job->time_limit_s}};
    snprintf(request.folder, sizeof request.folder, "%s", folder);
    snprintf(request.config, sizeof request.config, "[dataset]\n%s\n[partition]\ncache = \"off\"\n%s",
             job->graph != NULL ? job->graph : "generator = \"karate\"", job->lines);
    return ask(&request, id_out);
}

int64_t daemon_submit(const struct daemon_job *job)
{
    int64_t id;
    enum status status = daemon_try_submit(job, &id);
    cr_assert_eq(status, STATUS_OK, "%s", daemon_reason);
    return id;
}

void daemon_run_plain(const char *lines)
{
    char program[PATH_MAX], command[3 * PATH_MAX], config[1024];
    program_find("trainerd", program, sizeof program);
    snprintf(config, sizeof config, "[dataset]\ngenerator = \"karate\"\n[partition]\ncache = \"off\"\n%s", lines);
    folder_write("plain.toml", config);
    snprintf(command, sizeof command, "cd '%s' && '%s' --config plain.toml --set output.dir=plain 2>plain.err",
             folder, program);
    cr_assert_eq(system(command), 0);
}

enum status daemon_command(char what, int64_t id, int32_t n)
{
    return ask(&(struct request){.what = what, .id = id, .n = n}, &id);
}

const struct job_record *daemon_job(int64_t id)
{
    return &known[id];
}

bool daemon_hear(void)
{
    struct message message;
    return hear(&message, PATIENCE_S * 1000);
}

bool daemon_listen(int wait_ms)
{
    struct message message;
    bool any = hear(&message, wait_ms);
    while (hear(&message, 0)) {
        any = true;
    }
    return any;
}

#define AWAIT(id, condition, what)                                                                                   \
    do {                                                                                                             \
        while (!(condition)) {                                                                                       \
            cr_assert(daemon_hear(), "job %lld %s: it is %s, %s, attempt %d, %s", (long long)(id), what,             \
                      job_state_name(known[id].state), job_reason_name(known[id].reason), (int)known[id].attempt,    \
                      known[id].reason_text);                                                                        \
        }                                                                                                            \
    } while (0)

void daemon_await(int64_t id, enum job_state state)
{
    AWAIT(id, known[id].id == id && known[id].state == state, job_state_name(state));
}

enum job_state daemon_await_end(int64_t id)
{
    AWAIT(id, known[id].id == id && job_state_ended(known[id].state), "never ends");
    return known[id].state;
}

void daemon_await_epoch(int64_t id, int32_t attempt, int64_t epoch)
{
    AWAIT(id,
          known[id].id == id && known[id].attempt >= attempt && known[id].progress.epoch >= epoch &&
              known[id].state == JOB_STATE_RUNNING,
          "does not get there");
}

/* --- processes --- */

void daemon_await_stopped(int64_t id, int32_t attempt)
{
    AWAIT(id, known[id].id == id && known[id].attempt >= attempt && known[id].run.pid > 0, "is not started");
    double since_s = clock_s();
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)known[id].run.pid);
    while (state != 'T') {
        FILE *file = fopen(path, "r");
        cr_assert(file != NULL && fscanf(file, "%*d (%*[^)]) %c", &state) == 1 && fclose(file) == 0, "%s",
                  known[id].reason_text);
        cr_assert(patience_left(since_s), "its coordinator does not stop: %s", known[id].reason_text);
    }
}

void daemon_continue(int64_t id)
{
    cr_assert_eq(kill(known[id].run.pid, SIGCONT), 0, "%s", strerror(errno));
}

bool daemon_kill_coordinator(int64_t id)
{
    pid_t parent;
    char name[64];
    pid_t pid = known[id].run.pid;
    return pid > 0 && process_look(pid, &parent, name) && strncmp(name, "trainer-coord", 13) == 0 &&
           kill(pid, SIGKILL) == 0;
}

bool daemon_kill_worker(int64_t id, int which)
{
    DIR *all = opendir("/proc");
    bool found = false;
    for (struct dirent *one = readdir(all); one != NULL && !found; one = readdir(all)) {
        pid_t parent, pid = isdigit((unsigned char)one->d_name[0]) ? atoi(one->d_name) : 0;
        char name[64];
        if (pid > 0 && known[id].run.pid > 0 && process_look(pid, &parent, name) && parent == known[id].run.pid &&
            which-- == 0) {
            found = kill(pid, SIGKILL) == 0;
        }
    }
    closedir(all);
    return found;
}

int daemon_n_coordinator(int64_t id)
{
    char wanted[PATH_MAX];
    int n_found = 0;
    snprintf(wanted, sizeof wanted, "%s/state/jobs/%lld", folder, (long long)id);
    DIR *all = opendir("/proc");
    for (struct dirent *one = readdir(all); one != NULL; one = readdir(all)) {
        pid_t parent, pid = isdigit((unsigned char)one->d_name[0]) ? atoi(one->d_name) : 0;
        char name[64], path[64], text[4096] = "";
        /* Leaders of their session: what a coordinator has forked looks like it until it is a worker. */
        if (pid == 0 || !process_look(pid, &parent, name) || strncmp(name, "trainer-coord", 13) != 0 ||
            getsid(pid) != pid) {
            continue;
        }
        snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
        FILE *file = fopen(path, "r");
        size_t n = file == NULL ? 0 : fread(text, 1, sizeof text - 1, file);
        if (file != NULL) {
            fclose(file);
        }
        for (size_t at = 0; at < n; at += strlen(text + at) + 1) {
            n_found += strcmp(text + at, wanted) == 0;
        }
    }
    closedir(all);
    return n_found;
}

/* A process with our folder as its working folder. */
static bool is_ours(pid_t pid)
{
    char path[64], text[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/cwd", (int)pid);
    ssize_t n = readlink(path, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    return strcmp(text, folder) == 0;
}

void daemon_expect_nobody(void)
{
    double since = clock_s();
    pid_t somebody;
    char name[64] = "";
    do {
        somebody = 0;
        DIR *all = opendir("/proc");
        for (struct dirent *one = readdir(all); one != NULL; one = readdir(all)) {
            pid_t parent, pid = isdigit((unsigned char)one->d_name[0]) ? atoi(one->d_name) : 0;
            if (pid > 0 && process_look(pid, &parent, name) && is_ours(pid)) {
                somebody = pid;
                break;
            }
        }
        closedir(all);
    } while (somebody != 0 && patience_left(since));
    cr_assert_eq(somebody, 0, "process %d, %s, is left", (int)somebody, name);
}

void daemon_case_end(void)
{
    if (daemon_pid != 0) {
        daemon_end();
    }
    daemon_expect_nobody();
    folder_remove();
}
