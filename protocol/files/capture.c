#include "protocol/files/capture.h"

#include "protocol/base/clock.h"
#include "protocol/base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void child_run(const char *const *argv, int output)
{
    char found[PATH_MAX];
    int nothing = open("/dev/null", O_RDWR);
    dup2(nothing, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(nothing, STDERR_FILENO);
    program_in_path(argv[0], found);
    execv(found, (char *const *)argv);
    _exit(127);
}

/* Read to the end of the output; bytes beyond `capacity` are discarded. false: the time is over. */
static bool read_all(int input, double most_s, char *out, size_t capacity)
{
    double until_s = clock_s() + most_s;
    for (size_t n = 0;;) {
        char rest[4096];
        struct pollfd ready = {.fd = input, .events = POLLIN};
        double left_s = until_s - clock_s();
        if (left_s <= 0 || poll(&ready, 1, (int)(1000 * left_s) + 1) == 0) {
            return false;
        }
        ssize_t got = read(input, rest, sizeof rest);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got == 0;
        }
        size_t n_kept = (size_t)got < capacity - 1 - n ? (size_t)got : capacity - 1 - n;
        memcpy(out + n, rest, n_kept);
        n += n_kept;
        out[n] = '\0';
    }
}

bool capture(const char *const *argv, double most_s, char *out, size_t capacity)
{
    int ends[2], status = 0;
    out[0] = '\0';
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    pid_t child = fork();
    if (child == 0) {
        child_run(argv, ends[1]);
    }
    close(ends[1]);
    bool is_whole = child > 0 && read_all(ends[0], most_s, out, capacity);
    close(ends[0]);
    if (child > 0) {
        if (!is_whole) {
            kill(child, SIGKILL);
        }
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
    }
    return is_whole && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
