#include "trainerd/coordinator/records/tensorboard.h"

#include "protocol/base/program.h"
#include "protocol/files/python.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define END_MS 20000
#define LATER                                                                                                        \
    "; without output.tensorboard, 'python3 -m trainerd tensorboard RUN' writes the files later, also elsewhere"

extern char **environ;

enum status tensorboard_find(struct tensorboard *tensorboard)
{
    char folder[PATH_MAX];
    enum status status = program_beside("", folder);
    if (status != STATUS_OK) {
        return status;
    }
    python_path_set(folder);
    if (python_find("from trainerd.tensorboard import library; library()", tensorboard->python)) {
        return STATUS_OK;
    }
    return python_find("import trainerd.tensorboard", tensorboard->python)
               ? status_fail(STATUS_NO_INPUT,
                             "output.tensorboard needs the Python package tensorboardX, which '%s' cannot import: "
                             "install it ('%s -m pip install tensorboardX')" LATER,
                             tensorboard->python, tensorboard->python)
               : status_fail(STATUS_NO_INPUT,
                             "output.tensorboard needs Python with the packages trainerd and tensorboardX, and no "
                             "python3 finds the first: " PYTHON_ADVICE LATER);
}

/* It inherits its end of the socket and standard error. In a group of its own it gets no signals of a terminal. */
static int spawn(struct tensorboard *tensorboard, const struct dir *folder, int input)
{
    const char *const argv[] = {tensorboard->python, "-P", "-m", "trainerd", "tensorboard", "--beside", ".", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addfchdir_np(&actions, folder->file);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    int error = posix_spawn(&tensorboard->process, argv[0], &actions, &attributes, (char *const *)argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

enum status tensorboard_begin(struct tensorboard *tensorboard, const struct dir *folder, const char *job_text)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return status_fail(STATUS_PEER, "cannot make a socket for '%s': %s", tensorboard->python, strerror(errno));
    }
    int error = spawn(tensorboard, folder, ends[1]);
    close(ends[1]);
    if (error != 0) {
        tensorboard->process = 0;
        close(ends[0]);
        return status_fail(STATUS_PEER, "cannot start '%s': %s", tensorboard->python, strerror(error));
    }
    tensorboard->input = ends[0];
    send(tensorboard->input, job_text, strlen(job_text) + 1, MSG_NOSIGNAL); /* where it has died: tensorboard_end */
    return STATUS_OK;
}

void tensorboard_end(struct tensorboard *tensorboard, bool is_whole, char *failure, size_t capacity)
{
    int n, how = 0;
    failure[0] = '\0';
    if (tensorboard->process == 0) {
        return;
    }
    if (is_whole) {
        send(tensorboard->input, "\n", 1, MSG_NOSIGNAL);
    }
    shutdown(tensorboard->input, SHUT_WR);
    struct pollfd ended = {.fd = tensorboard->input, .events = POLLIN};
    while ((n = poll(&ended, 1, END_MS)) < 0 && errno == EINTR) {
    }
    if (n == 0) {
        kill(tensorboard->process, SIGKILL);
    }
    while (waitpid(tensorboard->process, &how, 0) < 0 && errno == EINTR) {
    }
    close(tensorboard->input);
    tensorboard->process = 0;
    if (WIFSIGNALED(how) || WEXITSTATUS(how) != 0) {
        snprintf(failure, capacity, "'%s', which writes tb/, %s %d", tensorboard->python,
                 WIFSIGNALED(how) ? "was killed by signal" : "ended with exit code",
                 WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how));
    }
}
