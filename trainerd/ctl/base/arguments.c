#include "trainerd/ctl/base/arguments.h"

#include "protocol/base/memory.h"
#include "protocol/base/mistakes.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define LONG_ONLY 256 /* above all letters */

/* getopt's tables. letters 3 · CTL_OPTION_N */
static void make_tables(struct option longs[CTL_OPTION_N + 1], char *letters)
{
    *letters++ = ':';
    for (int i = 0; i < CTL_OPTION_N; i++) {
        const struct ctl_option_row *row = &ctl_options[i];
        bool takes = row->value[0] != '\0';
        longs[i] = (struct option){row->name, takes ? required_argument : no_argument, NULL, LONG_ONLY + i};
        if (row->letter != 0) {
            *letters++ = row->letter;
            *letters = ':';
            letters += takes;
        }
    }
    longs[CTL_OPTION_N] = (struct option){NULL, 0, NULL, 0};
    *letters = '\0';
}

static enum ctl_option option_of(int found)
{
    int i = found - LONG_ONLY;
    if (found < LONG_ONLY) {
        for (i = 0; ctl_options[i].letter != found; i++) {
        }
    }
    return (enum ctl_option)i;
}

bool ctl_repeats(enum ctl_option option)
{
    return option == CTL_OPTION_SET || option == CTL_OPTION_FROM || option == CTL_OPTION_SWEEP ||
           option == CTL_OPTION_TAG || option == CTL_OPTION_ALLOW_HOST;
}

static enum status read_options(int argc, char **argv, struct ctl_arguments *out)
{
    struct option longs[CTL_OPTION_N + 1];
    char letters[3 * CTL_OPTION_N + 2];
    make_tables(longs, letters);
    opterr = 0;
    optind = 0; /* restart getopt */
    for (;;) {
        int found = getopt_long(argc, argv, letters, longs, NULL);
        if (found == -1) {
            break;
        }
        if (found == ':') {
            return status_fail(STATUS_USAGE, "%s needs a value; see trainctl --help", argv[optind - 1]);
        }
        if (found == '?') {
            return status_fail(STATUS_USAGE, "unknown option '%s'; see trainctl --help", argv[optind - 1]);
        }
        enum ctl_option option = option_of(found);
        out->value[option] = optarg != NULL ? optarg : "";
        out->list[option].value[out->list[option].n++] = optarg;
    }
    out->operand = argv + optind;
    out->n_operand = argc - optind;
    return STATUS_OK;
}

enum status ctl_command_named(const char *name, enum ctl_command *out)
{
    struct nearest nearest;
    nearest_init(name, &nearest);
    for (int i = 0; i < CTL_COMMAND_N; i++) {
        if (strcmp(ctl_commands[i].name, name) == 0) {
            *out = (enum ctl_command)i;
            return STATUS_OK;
        }
        nearest_offer(&nearest, ctl_commands[i].name);
    }
    return status_fail(STATUS_USAGE, "there is no command '%s'%s%s; see trainctl --help", name,
                       nearest.best != NULL ? ", did you mean " : "", nearest.best != NULL ? nearest.best : "");
}

static enum status find_command(struct ctl_arguments *out)
{
    bool wants_help = out->value[CTL_OPTION_HELP] != NULL || out->value[CTL_OPTION_VERSION] != NULL;
    if (out->n_operand == 0) {
        out->command = CTL_COMMAND_help;
        return wants_help ? STATUS_OK : status_fail(STATUS_USAGE, "no command is given; see trainctl --help");
    }
    enum status status = ctl_command_named(out->operand[0], &out->command);
    if (status == STATUS_OK &&
        out->value[CTL_OPTION_HELP] != NULL) { /* trainctl submit --help is trainctl help submit */
        out->command = CTL_COMMAND_help;
        out->n_operand = 1;
    } else if (status == STATUS_OK) {
        out->operand++;
        out->n_operand--;
    }
    return status;
}

static enum status check(const struct ctl_arguments *arguments)
{
    const struct ctl_command_row *row = &ctl_commands[arguments->command];
    for (int i = 0; i < CTL_OPTION_N; i++) {
        if (arguments->value[i] != NULL && !ctl_takes(arguments->command, (enum ctl_option)i)) {
            return status_fail(STATUS_USAGE, "--%s does not go with %s; see trainctl %s --help", ctl_options[i].name,
                               row->name, row->name);
        }
    }
    if (arguments->n_operand < row->n_least || arguments->n_operand > row->n_most) {
        return status_fail(STATUS_USAGE, "%s takes %s, %d given; see trainctl %s --help", row->name,
                           row->operands[0] != '\0' ? row->operands : "nothing more", arguments->n_operand,
                           row->name);
    }
    return STATUS_OK;
}

enum status ctl_arguments_read(int argc, char **argv, struct ctl_arguments *out)
{
    *out = (struct ctl_arguments){0};
    for (int i = 0; i < CTL_OPTION_N; i++) {
        out->list[i].value = memory_alloc((size_t)argc, sizeof *out->list[i].value);
    }
    enum status status = read_options(argc, argv, out);
    if (status != STATUS_OK || (status = find_command(out)) != STATUS_OK) {
        return status;
    }
    return check(out);
}

void ctl_arguments_release(struct ctl_arguments *arguments)
{
    for (int i = 0; i < CTL_OPTION_N; i++) {
        free(arguments->list[i].value);
    }
}

bool ctl_given(const struct ctl_arguments *arguments, enum ctl_option option)
{
    return arguments->value[option] != NULL;
}

enum status ctl_int(const struct ctl_arguments *arguments, enum ctl_option option, long long least, long long most,
                    long long otherwise, long long *out)
{
    const char *text = arguments->value[option];
    *out = otherwise;
    if (text == NULL) {
        return STATUS_OK;
    }
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || *out < least || *out > most) {
        return status_fail(STATUS_USAGE, "--%s is '%s', expected a whole number from %lld to %lld",
                           ctl_options[option].name, text, least, most);
    }
    return STATUS_OK;
}
