#include "tests/support/process/machines.h"

#include "protocol/base/clock.h"
#include "tests/support/process/patience.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int end_of(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) != pid) {
        cr_assert_eq(errno, EINTR);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* --- machines --- */

static int namespace_of(pid_t pid, const char *kind)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, kind);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* Start a process in namespaces of its own, and open them here; the process keeps them alive until it is killed. 0: not allowed. */
static pid_t machine_start(struct machine *machine)
{
    int ready[2];
    char byte;
    if (pipe2(ready, O_CLOEXEC) != 0) {
        return 0;
    }
    pid_t self = getpid(), pid = fork();
    if (pid == 0) {
        die_with(self);
        if (unshare(CLONE_NEWNET | CLONE_NEWUTS) != 0 || sethostname(machine->name, strlen(machine->name)) != 0 ||
            write(ready[1], "", 1) != 1) {
            _exit(1);
        }
        for (;;) {
            pause();
        }
    }
    close(ready[1]);
    bool is_there = read(ready[0], &byte, 1) == 1;
    close(ready[0]);
    if (!is_there) {
        end_of(pid);
        return 0;
    }
    machine->net = namespace_of(pid, "net");
    machine->uts = namespace_of(pid, "uts");
    return pid;
}

/* Move this process to the machine. /sys is mounted anew: UCX looks for devices there, and a mount shows those of the namespace
 * that it was made in. */
static bool machine_enter(const struct machine *machine)
{
    return setns(machine->net, CLONE_NEWNET) == 0 && setns(machine->uts, CLONE_NEWUTS) == 0 &&
           unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", "/sys", "sysfs", 0, NULL) == 0;
}

int machine_run(const struct machine *machine, const char *command)
{
    pid_t self = getpid(), pid = fork();
    if (pid == 0) {
        die_with(self);
        if (machine_enter(machine)) {
            execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        }
        _exit(127);
    }
    return end_of(pid);
}

static bool machine_plug(const struct machine *machine)
{
    char command[256];
    snprintf(command, sizeof command, "ip addr add %s dev wire && ip link set wire up && ip link set lo up",
             machine->address);
    return machine_run(machine, command) == 0;
}

/* Wait until the kernel reports the cable as running, which takes up to a second: UCX ignores a device before that. */
static bool machine_is_plugged(const struct machine *machine)
{
    pid_t self = getpid(), pid = fork();
    if (pid == 0) {
        die_with(self);
        struct ifreq wire = {.ifr_name = "wire"};
        int any = setns(machine->net, CLONE_NEWNET) == 0 ? socket(AF_INET, SOCK_DGRAM, 0) : -1;
        double since = clock_s();
        while (patience_left(since) && ioctl(any, SIOCGIFFLAGS, &wire) == 0) {
            if ((wire.ifr_flags & IFF_RUNNING) != 0) {
                _exit(0);
            }
        }
        _exit(1);
    }
    return end_of(pid) == 0;
}

bool machines_open(struct machine machines[2])
{
    char command[128];
    bool done = false;
    pid_t here = machine_start(&machines[0]);
    pid_t there = here != 0 ? machine_start(&machines[1]) : 0;
    if (there != 0) {
        snprintf(command, sizeof command, "ip link add wire type veth peer name wire netns %d 2>/dev/null", there);
        done = machine_run(&machines[0], command) == 0 && machine_plug(&machines[0]) && machine_plug(&machines[1]) &&
               machine_is_plugged(&machines[0]) && machine_is_plugged(&machines[1]);
    }
    pid_t owners[] = {here, there};
    for (int i = 0; i < 2; i++) {
        if (owners[i] != 0) {
            kill(owners[i], SIGKILL);
            end_of(owners[i]);
        }
    }
    return done;
}

void machines_close(struct machine machines[2])
{
    for (int i = 0; i < 2; i++) {
        close(machines[i].net);
        close(machines[i].uts);
    }
}

/* --- programs --- */

/* Hide the folder's files from this process behind an empty file system with the token alone. */
static bool files_hide(const char *folder, const char *token)
{
    char path[256];
    if (mount("none", folder, "tmpfs", 0, "size=1m") != 0) {
        return false;
    }
    snprintf(path, sizeof path, "%s/token", folder);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    bool done = file >= 0 && write(file, token, strlen(token)) == (ssize_t)strlen(token);
    close(file);
    return done;
}

void process_start(struct process *process, const struct machine *machine, const char *folder, const char *alone,
                   const char *const arguments[])
{
    int err[2];
    cr_assert_eq(pipe2(err, O_CLOEXEC), 0);
    pid_t self = getpid(), pid = fork();
    if (pid == 0) {
        die_with(self);
        dup2(err[1], STDERR_FILENO);
        if (machine != NULL) {
            /* UCX takes both machines for one host; between hosts there is no shared memory. A test may say otherwise. */
            setenv("UCX_TLS", "tcp", 0);
        }
        if ((machine == NULL || machine_enter(machine)) && (alone == NULL || files_hide(folder, alone)) &&
            chdir(folder) == 0) {
            execv(arguments[0], (char *const *)arguments);
        }
        fprintf(stderr, "cannot start %s: %s\n", arguments[0], strerror(errno));
        _exit(127);
    }
    close(err[1]);
    *process = (struct process){.pid = pid, .err = fdopen(err[0], "r")};
}

static bool line_read(struct process *process, const char **out)
{
    size_t n = strlen(process->words);
    *out = process->words + n;
    return fgets(process->words + n, (int)(sizeof process->words - n), process->err) != NULL;
}

void process_await(struct process *process, const char *word)
{
    const char *line;
    while (line_read(process, &line)) {
        if (strncmp(line, word, strlen(word)) == 0) {
            return;
        }
    }
    cr_assert_fail("no line begins with '%s': %s", word, process->words);
}

void process_await_listening(struct process *process)
{
    do {
        process_await(process, "ts=");
    } while (strstr(process->words, "listening on") == NULL);
}

int process_finish(struct process *process)
{
    const char *line;
    while (line_read(process, &line)) {
    }
    fclose(process->err);
    return end_of(process->pid);
}
