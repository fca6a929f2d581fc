#include "protocol/base/version.h"
#include "trainerd/ctl/reference.h"

#include <stdbool.h>
#include <string.h>

#define WIDTH 118
#define INDENT 26

/* "  name      text", folded at WIDTH. */
static void print_item(FILE *file, const char *name, const char *text)
{
    size_t column = (size_t)fprintf(file, "  %s", name);
    if (column >= INDENT) {
        fputc('\n', file);
        column = 0;
    }
    for (bool is_first = true; *text != '\0'; is_first = false) {
        size_t n = strcspn(text, " ");
        bool is_full = column + 1 + n > WIDTH;
        if (is_full) {
            fputc('\n', file);
            column = 0;
        }
        size_t pad = is_full || is_first ? INDENT - column : 1;
        column += (size_t)fprintf(file, "%*s%.*s", (int)pad, "", (int)n, text);
        text += n + strspn(text + n, " ");
    }
    fputc('\n', file);
}

static void print_option(FILE *file, const struct ctl_option_row *option)
{
    char name[64], letter[8] = "";
    if (option->letter != 0) {
        snprintf(letter, sizeof letter, "-%c, ", option->letter);
    }
    snprintf(name, sizeof name, "%s--%s%s%s", letter, option->name, option->value[0] != '\0' ? " " : "",
             option->value);
    print_item(file, name, option->help);
}

void reference_help(FILE *file)
{
    fputs("usage: trainctl [--to ADDRESS] [--json] COMMAND ...\n\n", file);
    for (int i = 0; i < CTL_COMMAND_N; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s %s", ctl_commands[i].name, ctl_commands[i].operands);
        print_item(file, name, ctl_commands[i].help);
    }
    fputs("\nJOB is a job's number, or a name, which means the newest job of that name.\n\n", file);
    for (int i = CTL_OPTION_TO; i <= CTL_OPTION_HELP; i++) {
        print_option(file, &ctl_options[i]);
    }
    fputs("\n" CTL_EXIT_CODES, file);
}

void reference_help_command(FILE *file, enum ctl_command command)
{
    const struct ctl_command_row *row = &ctl_commands[command];
    fprintf(file, "usage: trainctl %s%s%s [OPTION ...]\n\n", row->name, row->operands[0] != '\0' ? " " : "",
            row->operands);
    print_item(file, row->name, row->help);
    if (row->more[0] != '\0') {
        print_item(file, "", row->more);
    }
    fputc('\n', file);
    for (int i = 0; i < CTL_OPTION_N; i++) {
        if (ctl_owns(command, (enum ctl_option)i)) {
            print_option(file, &ctl_options[i]);
        }
    }
    fputs("Options of every command, see trainctl --help:", file);
    for (int i = CTL_OPTION_TO; i <= CTL_OPTION_HELP; i++) {
        fprintf(file, " --%s", ctl_options[i].name);
    }
    fputc('\n', file);
}

json_t *reference_json(void)
{
    json_t *commands = json_array();
    for (int i = 0; i < CTL_COMMAND_N; i++) {
        const struct ctl_command_row *row = &ctl_commands[i];
        json_t *options = json_array();
        for (int j = 0; j < CTL_OPTION_N; j++) {
            if (ctl_takes((enum ctl_command)i, (enum ctl_option)j)) {
                json_array_append_new(options, json_pack("{s:s, s:s, s:s}", "name", ctl_options[j].name, "value",
                                                         ctl_options[j].value, "help", ctl_options[j].help));
            }
        }
        json_array_append_new(commands,
                              json_pack("{s:s, s:s, s:s, s:s, s:o}", "name", row->name, "operands", row->operands,
                                        "help", row->help, "more", row->more, "options", options));
    }
    return json_pack("{s:s, s:o}", "version", TRAINERD_VERSION, "commands", commands);
}
