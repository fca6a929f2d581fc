#include "tests/support/process/terminal.h"

#include "protocol/base/clock.h"
#include "tests/support/process/command.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"

#include <limits.h>
#include <pty.h>
#include <stdlib.h>
#include <unistd.h>

pid_t terminal_start(const char *name, const char *const arguments[], int *master_out)
{
    char program[PATH_MAX];
    const char *argv[16] = {name};
    struct winsize size = {.ws_col = 90, .ws_row = 26};
    program_find(name, program, sizeof program);
    for (int i = 0; arguments[i] != NULL; i++) {
        cr_assert_lt(i, 14);
        argv[i + 1] = arguments[i];
    }
    pid_t parent = getpid(), child = forkpty(master_out, NULL, NULL, &size);
    if (child == 0) {
        die_with(parent);
        setenv("TERM", "xterm", 1);
        if (chdir(folder) == 0) {
            execv(program, (char *const *)argv);
        }
        _exit(99);
    }
    return child;
}

void terminal_await(int master, const char *words)
{
    size_t n = 0;
    double since_s = clock_s();
    output[0] = '\0';
    while (strstr(output, words) == NULL) {
        ssize_t got = read(master, output + n, sizeof output - 1 - n);
        cr_assert(got > 0 && patience_left(since_s), "'%s' is never shown: %s", words, output);
        n += (size_t)got;
        for (size_t i = 0; i < n; i++) {
            output[i] = output[i] == '\0' ? ' ' : output[i];
        }
        output[n] = '\0';
        if (n > sizeof output / 2) {
            memmove(output, output + n - 1000, 1001);
            n = 1000;
        }
    }
}

void terminal_type(int master, const char *keys)
{
    cr_assert_eq(write(master, keys, strlen(keys)), (ssize_t)strlen(keys));
}
