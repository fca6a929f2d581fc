#include "tests/support/process/command.h"

#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

char printed[COMMAND_BYTES];
char output[2 * COMMAND_BYTES];

pid_t command_start(const char *program, const char *const arguments[])
{
    return command_start_closed(program, 0, arguments);
}

pid_t command_start_closed(const char *program, unsigned closed, const char *const arguments[])
{
    char found[PATH_MAX];
    if (strchr(program, '/') == NULL) {
        program_find(program, found, sizeof found);
        program = found;
    }
    const char *argv[32] = {basename(program)};
    for (int i = 0; arguments[i] != NULL; i++) {
        cr_assert_lt(i, 30);
        argv[i + 1] = arguments[i];
    }
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        die_with(parent);
        if (chdir(folder) != 0) {
            _exit(99);
        }
        dup2(open("out", O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
        dup2(open("err", O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
        if (closed != 0) {
            closefrom(STDERR_FILENO + 1);
        }
        for (int number = 0; number < 3; number++) {
            if ((closed >> number & 1) != 0) {
                close(number);
            }
        }
        execv(program, (char *const *)argv);
        _exit(99);
    }
    return child;
}

int command_finish(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) != child) {
        cr_assert_eq(errno, EINTR);
    }
    folder_read("out", printed, sizeof printed);
    strcpy(output, printed);
    folder_read("err", output + strlen(output), sizeof output - strlen(output));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

json_t *command_json(void)
{
    json_t *value = json_loads(printed, 0, NULL);
    cr_assert_not_null(value, "no JSON: %s", printed);
    return value;
}
