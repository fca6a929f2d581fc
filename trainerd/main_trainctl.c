/* The command line of trainctl: the table lists the commands, ctl/base/run.h their functions. */
#include "protocol/base/program.h"
#include "protocol/base/status.h"
#include "protocol/base/version.h"
#include "trainerd/ctl/base/run.h"
#include "trainerd/ctl/base/text.h"
#include "trainerd/ctl/reference.h"
#include "trainerd/socket/requests.h"

#include <stdio.h>
#include <stdlib.h>

static ctl_run *const runs[CTL_COMMAND_N] = {
    [CTL_COMMAND_submit] = run_submit,   [CTL_COMMAND_status] = run_status,
    [CTL_COMMAND_show] = run_show,       [CTL_COMMAND_logs] = run_stream,
    [CTL_COMMAND_watch] = run_watch,     [CTL_COMMAND_cancel] = run_control,
    [CTL_COMMAND_resume] = run_control,  [CTL_COMMAND_checkpoint] = run_control,
    [CTL_COMMAND_scale] = run_scale,     [CTL_COMMAND_workers] = run_workers,
    [CTL_COMMAND_metrics] = run_stream,  [CTL_COMMAND_plot] = run_plot,
    [CTL_COMMAND_audit] = run_audit,     [CTL_COMMAND_drain] = run_drain,
    [CTL_COMMAND_undrain] = run_drain,   [CTL_COMMAND_backup] = run_backup,
    [CTL_COMMAND_restore] = run_restore, [CTL_COMMAND_repair] = run_restore,
    [CTL_COMMAND_compare] = run_compare, [CTL_COMMAND_gpus] = run_gpus,
    [CTL_COMMAND_users] = run_users,     [CTL_COMMAND_doctor] = run_doctor,
    [CTL_COMMAND_login] = run_login,     [CTL_COMMAND_fingerprint] = run_fingerprint,
    [CTL_COMMAND_logout] = run_logout,   [CTL_COMMAND_version] = run_version,
    [CTL_COMMAND_predict] = run_predict, [CTL_COMMAND_sweep] = run_sweep,
    [CTL_COMMAND_web] = run_web,
};

static enum status print_help(FILE *file, const struct ctl_arguments *arguments)
{
    if (ctl_given(arguments, CTL_OPTION_VERSION)) {
        fputs("trainctl " TRAINERD_VERSION "\n", file);
        return STATUS_OK;
    }
    if (arguments->n_operand == 0) {
        reference_help(file);
        return STATUS_OK;
    }
    enum ctl_command command;
    enum status status = ctl_command_named(arguments->operand[0], &command);
    if (status == STATUS_OK) {
        reference_help_command(file, command);
    }
    return status;
}

static enum status print_reference(FILE *file, const struct ctl_arguments *arguments)
{
    switch (arguments->command) {
    case CTL_COMMAND_completion:
        return reference_completion(file, arguments->operand[0]);
    case CTL_COMMAND_man:
        reference_man(file);
        return STATUS_OK;
    case CTL_COMMAND_protocol:
        requests_describe(file);
        return STATUS_OK;
    default:
        return print_help(file, arguments);
    }
}

/* Commands that the table answers; as JSON, help is the table, and the others a text. */
static enum status run_reference(const struct ctl_arguments *arguments)
{
    if (!ctl_given(arguments, CTL_OPTION_JSON)) {
        return print_reference(stdout, arguments);
    }
    char *text = NULL;
    size_t n;
    FILE *memory = open_memstream(&text, &n);
    enum status status = memory == NULL ? status_fail(STATUS_NOMEM, "no memory for the text")
                                        : print_reference(memory, arguments);
    if (memory != NULL) {
        fclose(memory);
    }
    if (status == STATUS_OK) {
        json_t *value = ctl_given(arguments, CTL_OPTION_VERSION) ? json_pack("{s:s}", "version", TRAINERD_VERSION)
                        : arguments->command == CTL_COMMAND_help ? reference_json()
                                                                 : json_pack("{s:s}", "text", text);
        text_print_json(value);
        json_decref(value);
    }
    free(text);
    return status;
}

int main(int argc, char **argv)
{
    program_begin();
    struct ctl_arguments arguments;
    int exit_code = 0;
    enum status status = ctl_arguments_read(argc, argv, &arguments);
    arguments.exit_code_out = &exit_code;
    if (status == STATUS_OK) {
        ctl_run *run = runs[arguments.command];
        status = run != NULL ? run(&arguments) : run_reference(&arguments);
    }
    if (status == STATUS_OK && (fflush(stdout) != 0 || ferror(stdout) != 0)) {
        status = status_fail(STATUS_IO, "cannot write to standard output");
    }
    ctl_arguments_release(&arguments);
    if (status != STATUS_OK) {
        status_print("trainctl");
        return status_exit_code(status);
    }
    return exit_code;
}
