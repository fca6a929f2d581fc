/* Back up the records of a running daemon; trainerd itself restores and repairs them while it is stopped. */
#include "protocol/base/program.h"
#include "trainerd/ctl/base/run.h"
#include "trainerd/ctl/base/text.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum status run_backup(const struct ctl_arguments *arguments)
{
    char path[2 * PATH_MAX], here[PATH_MAX] = "";
    const char *name = arguments->operand[0];
    if (name[0] != '/' && getcwd(here, sizeof here) == NULL) {
        return status_fail(STATUS_IO, "cannot find the current folder: %s", strerror(errno));
    }
    snprintf(path, sizeof path, "%s%s%s", here, name[0] != '/' ? "/" : "", name);
    json_t *answer, *text = json_string(path);
    json_t *request = json_pack("{s:s, s:o}", "cmd", "backup", "path", text != NULL ? text : json_null());
    enum status status = ctl_ask(arguments, request, &answer);
    if (status != STATUS_OK) {
        return status;
    }
    ctl_print(arguments, answer, NULL);
    if (!ctl_given(arguments, CTL_OPTION_JSON)) {
        printf("%lld jobs in %s\n", (long long)field_integer(answer, "jobs"), path);
    }
    json_decref(answer);
    return STATUS_OK;
}

enum status ctl_become_trainerd(const struct ctl_arguments *arguments, const char *flag, const char *operand)
{
    char program[PATH_MAX];
    const char *argv[8];
    size_t n = 0;
    enum status status = program_beside("trainerd", program);
    if (status != STATUS_OK) {
        return status;
    }
    argv[n++] = "trainerd";
    argv[n++] = flag;
    if (operand != NULL) {
        argv[n++] = operand;
    }
    if (ctl_given(arguments, CTL_OPTION_STATE)) {
        argv[n++] = "--state";
        argv[n++] = arguments->value[CTL_OPTION_STATE];
    }
    if (ctl_given(arguments, CTL_OPTION_JSON)) {
        argv[n++] = "--json";
    }
    argv[n] = NULL;
    execv(program, (char *const *)argv);
    return status_fail(STATUS_PEER, "cannot start '%s': %s", program, strerror(errno));
}

enum status run_restore(const struct ctl_arguments *arguments)
{
    bool restores = arguments->command == CTL_COMMAND_restore;
    return ctl_become_trainerd(arguments, restores ? "--restore" : "--repair",
                               restores ? arguments->operand[0] : NULL);
}
