/* trainctl's command line against its table, and what is made of the table. */
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "trainerd/ctl/base/arguments.h"
#include "trainerd/ctl/reference.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct ctl_arguments arguments;

/* Read a command line; argv[0] is added. */
#define READ(...) read_line((const char *[]){"trainctl", __VA_ARGS__, NULL})

static enum status read_line(const char **argv)
{
    int argc = 0;
    static char *copy[32]; /* getopt changes the order */
    while (argv[argc] != NULL) {
        copy[argc] = (char *)argv[argc];
        argc++;
    }
    copy[argc] = NULL;
    ctl_arguments_release(&arguments);
    return ctl_arguments_read(argc, copy, &arguments);
}

static void release(void)
{
    ctl_arguments_release(&arguments);
}

TestSuite(arguments, .fini = release);

static void expect_refusal(enum status status, const char *part)
{
    cr_assert_eq(status, STATUS_USAGE);
    cr_assert_not_null(strstr(status_reason(), part), "'%s' is not in: %s", part, status_reason());
}

Test(arguments, options_may_stand_before_and_behind_the_command_and_its_operands)
{
    expect_done(READ("--to", "unix:x", "submit", "-s", "a=1", "job.toml", "--set=b=2", "-jw"));
    cr_assert_eq(arguments.command, CTL_COMMAND_submit);
    cr_assert_str_eq(arguments.value[CTL_OPTION_TO], "unix:x");
    cr_assert_eq(arguments.n_operand, 1);
    cr_assert_str_eq(arguments.operand[0], "job.toml");
    cr_assert_eq(arguments.list[CTL_OPTION_SET].n, 2);
    cr_assert_str_eq(arguments.list[CTL_OPTION_SET].value[1], "b=2");
    cr_assert(ctl_given(&arguments, CTL_OPTION_JSON));
    cr_assert(ctl_given(&arguments, CTL_OPTION_WAIT));
    cr_assert_not(ctl_given(&arguments, CTL_OPTION_NAME));
}

Test(arguments, what_does_not_go_together_is_refused_with_what_does)
{
    expect_refusal(READ("status", "--wait"), "--wait does not go with status");
    expect_refusal(READ("format"), "there is no command 'format'; see");
    expect_refusal(READ("submitt"), "there is no command 'submitt', did you mean submit");
    expect_refusal(READ("--json"), "no command is given");
    expect_refusal(READ("submit"), "submit takes FILE, 0 given");
    expect_refusal(READ("status", "1", "2"), "status takes [JOB], 2 given");
    expect_refusal(READ("version", "1"), "version takes nothing more");
    expect_refusal(READ("status", "--version"), "--version does not go with status");
    expect_refusal(READ("submit", "--prio", "1x", "--nam"), "needs a value");
    expect_refusal(READ("submit", "--colour"), "unknown option '--colour'");
    expect_refusal(READ("submit", "-z"), "unknown option '-z'");
}

Test(arguments, every_option_goes_with_some_commands_and_the_first_six_with_all)
{
    for (int option = 0; option < CTL_OPTION_N; option++) {
        int n = 0;
        for (int command = 0; command < CTL_COMMAND_N; command++) {
            n += ctl_takes((enum ctl_command)command, (enum ctl_option)option);
        }
        bool is_for_all = option <= CTL_OPTION_HELP;
        cr_assert(n > 0 && (n == CTL_COMMAND_N) == is_for_all, "--%s goes with %d commands", ctl_options[option].name,
                  n);
    }
    cr_assert(ctl_takes(CTL_COMMAND_help, CTL_OPTION_VERSION), "the last of them");
}

Test(arguments, help_is_help_wherever_it_stands)
{
    cr_assert_eq(READ("--help"), STATUS_OK);
    cr_assert_eq(arguments.command, CTL_COMMAND_help);
    cr_assert_eq(arguments.n_operand, 0);
    expect_done(READ("submit", "-h"));
    cr_assert_eq(arguments.command, CTL_COMMAND_help);
    cr_assert_str_eq(arguments.operand[0], "submit");
}

Test(arguments, numbers_out_of_range_are_refused)
{
    long long value;
    cr_assert_eq(READ("logs", "1", "--tail", "5", "-r", "7x"), STATUS_OK);
    cr_assert_eq(ctl_int(&arguments, CTL_OPTION_TAIL, 0, 10, -1, &value), STATUS_OK);
    cr_assert_eq(value, 5);
    expect_refusal(ctl_int(&arguments, CTL_OPTION_TAIL, 0, 4, -1, &value),
                   "--tail is '5', expected a whole number from 0 to 4");
    expect_refusal(ctl_int(&arguments, CTL_OPTION_RANK, 0, 10, -1, &value), "--rank is '7x'");
    cr_assert_eq(ctl_int(&arguments, CTL_OPTION_LIMIT, 0, 10, 3, &value), STATUS_OK);
    cr_assert_eq(value, 3);
}

/* --- the reference --- */

static char *written(void (*print)(FILE *file))
{
    char *text = NULL;
    size_t n;
    FILE *file = open_memstream(&text, &n);
    print(file);
    fclose(file);
    return text;
}

static void print_all_help(FILE *file)
{
    reference_help(file);
    for (int i = 0; i < CTL_COMMAND_N; i++) {
        reference_help_command(file, (enum ctl_command)i);
    }
}

Test(reference, every_command_and_option_is_in_help_man_page_and_json)
{
    char *help = written(print_all_help), *man = written(reference_man), name[64];
    json_t *json = reference_json();
    cr_assert_eq(json_array_size(json_object_get(json, "commands")), CTL_COMMAND_N);
    json_decref(json);
    for (int i = 0; i < CTL_COMMAND_N; i++) {
        snprintf(name, sizeof name, "\n  %s ", ctl_commands[i].name);
        cr_assert_not_null(strstr(help, name), "%s", name);
        snprintf(name, sizeof name, ".SS \"\\fB%s\\fR", ctl_commands[i].name);
        cr_assert_not_null(strstr(man, name), "%s", name);
    }
    for (int i = 0; i < CTL_OPTION_N; i++) {
        snprintf(name, sizeof name, "--%s", ctl_options[i].name);
        cr_assert_not_null(strstr(help, name), "%s", name);
    }
    for (const char *line = help; line != NULL && *line != '\0'; line = strchr(line, '\n'), line += line != NULL) {
        cr_assert_leq(strcspn(line, "\n"), 120, "%.130s", line);
    }
    free(help);
    free(man);
}

static enum ctl_command command_wanted;

static void print_help(FILE *file)
{
    reference_help_command(file, command_wanted);
}

/* An option that is another command's, or every command's, is not told there. */
Test(reference, the_help_of_a_command_tells_its_own_options_alone)
{
    for (command_wanted = 0; command_wanted < CTL_COMMAND_N; command_wanted++) {
        char *help = written(print_help), alone[64], lettered[64];
        for (int i = 0; i < CTL_OPTION_N; i++) {
            snprintf(alone, sizeof alone, "\n  --%s ", ctl_options[i].name);
            snprintf(lettered, sizeof lettered, "\n  -%c, --%s ", ctl_options[i].letter, ctl_options[i].name);
            bool is_told = strstr(help, ctl_options[i].letter != 0 ? lettered : alone) != NULL;
            cr_expect_eq(is_told, ctl_owns(command_wanted, (enum ctl_option)i), "%s: %s\n%s",
                         ctl_commands[command_wanted].name, alone, help);
        }
        cr_expect_not_null(strstr(help, "Options of every command, see trainctl --help: --to "));
        free(help);
    }
    cr_expect(ctl_owns(CTL_COMMAND_login, CTL_OPTION_USER) && !ctl_owns(CTL_COMMAND_status, CTL_OPTION_USER));
}

static const char *shell_wanted;
static enum status shell_status;

static void print_completion(FILE *file)
{
    shell_status = reference_completion(file, shell_wanted);
}

/* The shell itself reads the script, where it is installed. */
static void expect_good_script(const char *shell)
{
    char command[128];
    shell_wanted = shell;
    char *script = written(print_completion);
    cr_assert_eq(shell_status, STATUS_OK);
    for (int i = 0; i < CTL_OPTION_N; i++) {
        cr_assert_not_null(strstr(script, ctl_options[i].name), "%s: %s", shell, ctl_options[i].name);
    }
    snprintf(command, sizeof command, "command -v %s >/dev/null", shell);
    if (system(command) == 0) {
        snprintf(command, sizeof command, "%s -n", shell);
        FILE *reader = popen(command, "w");
        fputs(script, reader);
        cr_assert_eq(pclose(reader), 0, "%s finds a mistake", shell);
    }
    free(script);
}

Test(reference, the_shells_read_their_completions)
{
    expect_good_script("bash");
    expect_good_script("zsh");
    expect_good_script("fish");
    shell_wanted = "csh";
    free(written(print_completion));
    expect_fails(shell_status, STATUS_USAGE, "expected bash, zsh or fish");
}

Test(reference, bash_completes_commands_options_and_shells, .init = folder_make, .fini = folder_remove)
{
    char command[256], said[256] = "";
    shell_wanted = "bash";
    char *script = written(print_completion);
    folder_write("completion", script);
    free(script);
    folder_write("try",
                 "try() { COMP_WORDS=(trainctl \"$@\"); COMP_CWORD=$#; _trainctl; echo \"${COMPREPLY[*]}\"; }\n"
                 "try sub\ntry submit --se\ntry completion f\ntry --json help sc\ntry submit --name x\n"
                 "trainctl() { echo '{\"name\": \"$(echo ran)\"},{\"name\": \"two `echo ran` words\"}'; }\n"
                 "try show ''\ntry show two\n");
    snprintf(command, sizeof command, "bash -c '. %s/completion && . %s/try'", folder, folder);
    FILE *file = popen(command, "r");
    cr_assert_gt(fread(said, 1, sizeof said - 1, file), 0);
    cr_assert_eq(pclose(file), 0);
    cr_assert_str_eq(said, "submit\n--secret-file --set --seeds\nfish\nscale\n\n"
                           "$(echo ran) two `echo ran` words\ntwo `echo ran` words\n"); /* names of others' jobs */
}
