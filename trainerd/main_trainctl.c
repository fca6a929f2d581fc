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
#define OPTION(...)
#define COMMAND(name, run, ...) run_##run,
#include "trainerd/ctl/base/commands.def"
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
enum status run_reference(const struct ctl_arguments *arguments)
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
        status = runs[arguments.command](&arguments);
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
