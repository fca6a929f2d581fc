/* The man page. No line of troff begins with text of the table, since a point or quote there would be a request. */
#include "protocol/base/version.h"
#include "trainerd/ctl/reference.h"

/* Text with hyphens and backslashes escaped. */
static void print_text(FILE *file, const char *text)
{
    fputs("\\&", file);
    for (; *text != '\0'; text++) {
        if (*text == '-' || *text == '\\') {
            fputs(*text == '-' ? "\\-" : "\\e", file);
        } else {
            fputc(*text, file);
        }
    }
}

static void print_option(FILE *file, const struct ctl_option_row *option)
{
    fputs(".TP\n", file);
    if (option->letter != 0) {
        fprintf(file, "\\fB\\-%c\\fR, ", option->letter);
    }
    fputs("\\fB\\-\\-", file);
    print_text(file, option->name);
    fprintf(file, "\\fR%s\\fI%s\\fR\n", option->value[0] != '\0' ? " " : "", option->value);
    print_text(file, option->help);
    fputs(".\n", file);
}

static void print_command(FILE *file, enum ctl_command command)
{
    const struct ctl_command_row *row = &ctl_commands[command];
    fprintf(file, ".SS \"\\fB%s\\fR \\fI%s\\fR\"\n", row->name, row->operands);
    print_text(file, row->help);
    fputs(".\n", file);
    if (row->more[0] != '\0') {
        print_text(file, row->more);
        fputc('\n', file);
    }
    for (int i = 0; i < CTL_OPTION_N; i++) {
        if (ctl_owns(command, (enum ctl_option)i)) {
            print_option(file, &ctl_options[i]);
        }
    }
}

void reference_man(FILE *file)
{
    fputs(
        ".TH TRAINCTL 1 \"\" \"trainerd " TRAINERD_VERSION "\" \"User Commands\"\n"
        ".SH NAME\ntrainctl \\- submit, watch and control jobs of the training daemon\n"
        ".SH SYNOPSIS\n.B trainctl\n[\\fIOPTION\\fR ...] \\fICOMMAND\\fR ...\n"
        ".SH DESCRIPTION\n"
        "\\fBtrainctl\\fR is the client of a daemon started with \\fBtrainerd \\-\\-listen\\fR. JOB is a job's "
        "number, or a name,\n"
        "which means the newest job of that name. Answers go to standard output, everything else to standard error.\n"
        ".SH OPTIONS\n",
        file);
    for (int i = CTL_OPTION_TO; i <= CTL_OPTION_HELP; i++) {
        print_option(file, &ctl_options[i]);
    }
    fputs(".SH COMMANDS\n", file);
    for (int i = 0; i < CTL_COMMAND_N; i++) {
        print_command(file, (enum ctl_command)i);
    }
    fputs(
        ".SH \"EXIT STATUS\"\n.nf\n" CTL_EXIT_CODES ".fi\n"
        ".SH ENVIRONMENT\n.TP\n\\fBTRAINERD_TO\\fR\nThe daemon's address.\n"
        ".TP\n\\fBTRAINERD_SECRET_FILE\\fR\nThe file with the secret of a daemon on a TCP port.\n"
        ".TP\n\\fBTRAINERD_FINGERPRINT\\fR\nThe fingerprint of its certificate, or none: a connection without TLS.\n"
        ".TP\n\\fBTRAINERD_USER\\fR\nThe user to log in as there.\n"
        ".SH FILES\n.TP\n\\fI~/.config/trainerd/hosts.toml\\fR\nThe daemons on TCP ports that trainctl login has "
        "made known.\n"
        ".SH \"SEE ALSO\"\n\\fBtrainerd \\-\\-help\\fR, \\fBtrainerd \\-\\-describe\\-config\\fR\n",
        file);
}
