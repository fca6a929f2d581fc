#include "trainerd/launch.h"

#include "protocol/base/cgroup.h"
#include "protocol/base/memory.h"
#include "protocol/base/program.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
enum { N_PASSED_ON = sizeof passed_on / sizeof *passed_on };

struct launch {
    uv_loop_t loop;
    uv_process_t process;
    uv_signal_t signals[N_PASSED_ON];
    int last_signal; /* forwarded, to end it; 0: none */
    int exit_code;
    int end_signal;
};

/* The program beside this one if it exists, else its bare name for the search in PATH. */
static void find_program(const char *name, char out[PATH_MAX])
{
    if (program_beside(name, out) != STATUS_OK || access(out, X_OK) != 0) {
        snprintf(out, PATH_MAX, "%s", name);
    }
}

/* Has the process a handler for this signal? */
static bool catches(int pid, int signal_number)
{
    char path[32], line[256];
    unsigned long long caught = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL && sscanf(line, "SigCgt: %llx", &caught) != 1) {
    }
    if (file != NULL) {
        fclose(file);
    }
    return (caught >> (signal_number - 1) & 1) != 0;
}

/* USR1 asks for a checkpoint. It would end a program that has no handler for it yet, and nothing to save. */
static void on_signal(uv_signal_t *handle, int signal_number)
{
    struct launch *launch = handle->data;
    bool ends = signal_number != SIGUSR1;
    launch->last_signal = ends ? signal_number : launch->last_signal;
    if (ends || catches(launch->process.pid, signal_number)) {
        uv_process_kill(&launch->process, signal_number);
    }
}

static void close_handle(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

static void on_exit(uv_process_t *process, int64_t exit_code, int end_signal)
{
    struct launch *launch = process->data;
    launch->exit_code = (int)exit_code;
    launch->end_signal = end_signal;
    uv_walk(&launch->loop, close_handle, NULL);
}

static int start(struct launch *launch, char *const argv[], int file)
{
    char program[PATH_MAX];
    find_program(argv[0], program);
    uv_stdio_container_t stdio[LAUNCH_FILE + 1];
    for (int fd = 0; fd <= LAUNCH_FILE; fd++) {
        stdio[fd] = (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = fd < LAUNCH_FILE ? fd : file};
    }
    uv_process_options_t options = {.file = program,
                                    .args = (char **)argv,
                                    .exit_cb = on_exit,
                                    .flags = UV_PROCESS_DETACHED,
                                    .stdio = stdio,
                                    .stdio_count = file >= 0 ? LAUNCH_FILE + 1 : LAUNCH_FILE};
    /* Signals are watched before the start: one in between waits in the loop. */
    for (int i = 0; i < N_PASSED_ON; i++) {
        if (program_ignores(passed_on[i])) {
            continue;
        }
        launch->signals[i].data = launch;
        int error = uv_signal_init(&launch->loop, &launch->signals[i]);
        if (error == 0) {
            error = uv_signal_start(&launch->signals[i], on_signal, passed_on[i]);
        }
        if (error != 0) {
            return error;
        }
    }
    launch->process.data = launch;
    return uv_spawn(&launch->loop, &launch->process, &options);
}

enum status launch_run(char *const argv[], int file, int *exit_code_out, bool *died_out)
{
    struct launch launch = {0};
    int error = uv_loop_init(&launch.loop);
    if (error != 0) {
        return status_fail(STATUS_PEER, "cannot start %s: %s", argv[0], uv_strerror(error));
    }
    int64_t n_oom_kill = cgroup_oom_kills("");
    error = start(&launch, argv, file);
    if (error != 0) {
        uv_walk(&launch.loop, close_handle, NULL);
    }
    uv_run(&launch.loop, UV_RUN_DEFAULT);
    uv_loop_close(&launch.loop);
    if (error != 0) {
        return status_fail(STATUS_PEER, "cannot start %s, neither beside this program nor from PATH: %s", argv[0],
                           uv_strerror(error));
    }
    if (launch.end_signal != 0 && launch.end_signal == launch.last_signal) {
        return status_fail(STATUS_INTERRUPTED, "%s was ended by signal %d (%s) before it could save anything",
                           argv[0], launch.end_signal, strsignal(launch.end_signal));
    }
    if (launch.end_signal == SIGKILL && cgroup_oom_kills("") > n_oom_kill) {
        return status_fail(STATUS_NOMEM, "%s was killed (signal %d), since memory ran out: %s is %lld bytes", argv[0],
                           SIGKILL, memory_machine_name(), (long long)memory_machine());
    }
    *died_out = launch.end_signal != 0 && launch.last_signal == 0;
    if (launch.end_signal == SIGKILL) { /* from outside */
        return status_fail(STATUS_PEER, "%s was killed (signal %d), by a user or because memory ran out", argv[0],
                           SIGKILL);
    }
    if (launch.end_signal != 0) {
        return status_fail(program_is_fault(launch.end_signal) ? STATUS_BUG : STATUS_PEER,
                           "%s was ended by signal %d (%s)", argv[0], launch.end_signal,
                           strsignal(launch.end_signal));
    }
    *exit_code_out = launch.exit_code;
    return STATUS_OK;
}
