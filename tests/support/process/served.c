#include "tests/support/process/served.h"

#include "tests/support/process/folder.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

struct process served_process;
char served_address[128];

void served_address_set(void)
{
    snprintf(served_address, sizeof served_address, "unix:%s/socket", folder);
    setenv("TRAINERD_TO", served_address, 1);
}

void served_begin_with(const char *const settings[])
{
    char program[PATH_MAX];
    program_find("trainerd", program, sizeof program);
    const char *arguments[16] = {program, "--listen", served_address, "--state", "state"};
    for (size_t i = 0, n = 5; settings[i] != NULL; i++) {
        arguments[n++] = "--set";
        arguments[n++] = settings[i];
    }
    process_start(&served_process, NULL, folder, NULL, arguments);
    process_await_listening(&served_process);
}

void served_begin(void)
{
    served_begin_with((const char *const[]){"slots=4", NULL});
}

void served_end(void)
{
    kill(served_process.pid, SIGTERM);
    process_finish(&served_process);
}
