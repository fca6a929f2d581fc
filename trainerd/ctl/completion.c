/* Completion scripts, made from the table. Names of jobs are requested from the daemon at completion time. */
#include "trainerd/ctl/base/arguments.h"
#include "trainerd/ctl/reference.h"

#include <string.h>

/* Runs at a keystroke: quick, and silent without a daemon. */
#define LIST_JOBS                                                                                                    \
    "trainctl status --json --limit 50 2>/dev/null | tr ',{' '\\n\\n' | sed -n 's/^ *\"name\": "                     \
    "*\"\\([^\"]*\\)\".*/\\1/p' | sort -u"

/* What completes a word, in each shell's terms. */
static const struct {
    const char *bash, *zsh, *fish;
} texts[] = {
    [CTL_WORDS_NONE] = {"", " ", "-f"},
    [CTL_WORDS_JOB] = {"_trainctl_jobs", "_trainctl_jobs", "-f -a '(__trainctl_jobs)'"},
    [CTL_WORDS_FILE] = {"COMPREPLY=($(compgen -f -- \"$word\"))", "_files", "-F"},
    [CTL_WORDS_FOLDER] = {"COMPREPLY=($(compgen -d -- \"$word\"))", "_files -/",
                          "-f -a '(__fish_complete_directories)'"},
    [CTL_WORDS_SHELL] = {"COMPREPLY=($(compgen -W \"bash zsh fish\" -- \"$word\"))", "(bash zsh fish)",
                         "-f -a 'bash zsh fish'"},
    [CTL_WORDS_COMMAND] = {"COMPREPLY=($(compgen -W \"$commands\" -- \"$word\"))", "_trainctl_commands",
                           "-f -a \"$__trainctl_commands\""},
};

static void print_commands(FILE *file)
{
    for (int i = 0; i < CTL_COMMAND_N; i++) {
        fprintf(file, "%s%s", i > 0 ? " " : "", ctl_commands[i].name);
    }
}

static void print_options(FILE *file, enum ctl_command command)
{
    const char *before = "";
    for (int i = 0; i < CTL_OPTION_N; i++) {
        if (ctl_takes(command, (enum ctl_option)i)) {
            fprintf(file, "%s--%s", before, ctl_options[i].name);
            before = " ";
        }
    }
}

/* --- bash --- */

static void print_bash(FILE *file)
{
    /* Names of jobs are other users' texts: compgen -W would run the commands in them. */
    fputs("# trainctl completion bash\n_trainctl_jobs() {\n    local name\n    while IFS= read -r name; do\n"
          "        [[ $name != \"$word\"* ]] || COMPREPLY+=(\"$name\")\n    done < <(" LIST_JOBS ")\n}\n"
          "_trainctl() {\n    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command= "
          "commands i\n    commands=\"",
          file);
    print_commands(file);
    fputs("\"\n    COMPREPLY=()\n    case $before in\n", file);
    for (int i = 0; i < CTL_OPTION_N; i++) {
        const struct ctl_option_row *row = &ctl_options[i];
        if (row->value[0] == '\0') {
            continue;
        }
        fprintf(file, "    --%s", row->name);
        if (row->letter != 0) {
            fprintf(file, " | -%c", row->letter);
        }
        fprintf(file, ") %s; return ;;\n", row->words == CTL_WORDS_NONE ? ":" : texts[row->words].bash);
    }
    fputs("    esac\n    for ((i = 1; i < COMP_CWORD; i++)); do\n        case \" $commands \" in\n"
          "        *\" ${COMP_WORDS[i]} \"*) command=${COMP_WORDS[i]}; break ;;\n        esac\n    done\n    case "
          "$command in\n",
          file);
    for (int i = 0; i < CTL_COMMAND_N; i++) {
        const struct ctl_command_row *row = &ctl_commands[i];
        fprintf(file, "    %s)\n        if [[ $word == -* ]]; then COMPREPLY=($(compgen -W \"", row->name);
        print_options(file, (enum ctl_command)i);
        fputs("\" -- \"$word\"))", file);
        fprintf(file, "%s%s; fi ;;\n", row->words != CTL_WORDS_NONE ? "; else " : "", texts[row->words].bash);
    }
    fputs("    *) COMPREPLY=($(compgen -W \"$commands --to --json --help\" -- \"$word\")) ;;\n    esac\n}\n"
          "complete -o filenames -o bashdefault -F _trainctl trainctl\n",
          file);
}

/* --- zsh --- */

/* Text between quotes and brackets of _arguments. */
static void print_zsh_text(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        if (strchr("[]:\\", *text) != NULL) {
            fputc('\\', file);
        }
        fputs(*text == '\'' ? "'\\''" : (char[2]){*text, '\0'}, file);
    }
}

static void print_zsh_option(FILE *file, const struct ctl_option_row *row, const char *name)
{
    fprintf(file, " \\\n            '%s%s[", ctl_repeats((enum ctl_option)(row - ctl_options)) ? "*" : "", name);
    print_zsh_text(file, row->help);
    fputc(']', file);
    if (row->value[0] != '\0') {
        fprintf(file, ":%s:%s", row->value, texts[row->words].zsh);
    }
    fputc('\'', file);
}

static void print_zsh(FILE *file)
{
    fputs("#compdef trainctl\n# trainctl completion zsh\n_trainctl_jobs() {\n    local -a jobs\n    "
          "jobs=(${(f)\"$(" LIST_JOBS
          ")\"})\n    compadd -a jobs\n}\n_trainctl_commands() {\n    local -a commands\n    commands=(\n",
          file);
    for (int i = 0; i < CTL_COMMAND_N; i++) {
        fprintf(file, "        '%s:", ctl_commands[i].name);
        print_zsh_text(file, ctl_commands[i].help);
        fputs("'\n", file);
    }
    fputs("    )\n    _describe command commands\n}\n_trainctl() {\n    local line state\n"
          "    _arguments -C '--to[the address of the daemon]:ADDRESS: ' '--json[answer as JSON]' '--help[the list "
          "of commands]' '1:command:_trainctl_commands' '*::argument:->argument'\n    [[ $state == argument ]] || "
          "return\n    case $line[1] in\n",
          file);
    for (int i = 0; i < CTL_COMMAND_N; i++) {
        const struct ctl_command_row *row = &ctl_commands[i];
        fprintf(file, "    %s) _arguments", row->name);
        for (int j = 0; j < CTL_OPTION_N; j++) {
            char name[64];
            if (ctl_takes((enum ctl_command)i, (enum ctl_option)j)) {
                snprintf(name, sizeof name, "--%s", ctl_options[j].name);
                print_zsh_option(file, &ctl_options[j], name);
                snprintf(name, sizeof name, "-%c", ctl_options[j].letter);
                if (ctl_options[j].letter != 0) {
                    print_zsh_option(file, &ctl_options[j], name);
                }
            }
        }
        fprintf(file, " \\\n            '*:%s:%s' ;;\n", row->operands[0] != '\0' ? "operand" : "nothing more",
                texts[row->words].zsh);
    }
    fputs("    esac\n}\n[[ ${funcstack[1]} == _trainctl ]] && _trainctl \"$@\" || compdef _trainctl trainctl\n",
          file);
}

/* --- fish --- */

static void print_fish_text(FILE *file, const char *text)
{
    fputc('\'', file);
    for (; *text != '\0'; text++) {
        if (*text == '\'' || *text == '\\') {
            fputc('\\', file);
        }
        fputc(*text, file);
    }
    fputc('\'', file);
}

static void print_fish(FILE *file)
{
    fputs("# trainctl completion fish\nfunction __trainctl_jobs\n    " LIST_JOBS "\nend\nset -g __trainctl_commands ",
          file);
    print_commands(file);
    fputs("\ncomplete -c trainctl -f\n", file);
    for (int i = 0; i < CTL_COMMAND_N; i++) {
        const struct ctl_command_row *row = &ctl_commands[i];
        fprintf(file, "complete -c trainctl -n \"not __fish_seen_subcommand_from $__trainctl_commands\" -f -a %s -d ",
                row->name);
        print_fish_text(file, row->help);
        fprintf(file, "\ncomplete -c trainctl -n '__fish_seen_subcommand_from %s' %s\n", row->name,
                texts[row->words].fish);
        for (int j = 0; j < CTL_OPTION_N; j++) {
            const struct ctl_option_row *option = &ctl_options[j];
            if (!ctl_takes((enum ctl_command)i, (enum ctl_option)j)) {
                continue;
            }
            fprintf(file, "complete -c trainctl -n '__fish_seen_subcommand_from %s' -l %s", row->name, option->name);
            if (option->letter != 0) {
                fprintf(file, " -s %c", option->letter);
            }
            fprintf(file, "%s%s -d ", option->value[0] != '\0' ? " -r " : "",
                    option->value[0] != '\0' ? texts[option->words].fish : "");
            print_fish_text(file, option->help);
            fputc('\n', file);
        }
    }
}

enum status reference_completion(FILE *file, const char *shell)
{
    if (strcmp(shell, "bash") == 0) {
        print_bash(file);
    } else if (strcmp(shell, "zsh") == 0) {
        print_zsh(file);
    } else if (strcmp(shell, "fish") == 0) {
        print_fish(file);
    } else {
        return status_fail(STATUS_USAGE, "there is no completion for '%s', expected bash, zsh or fish", shell);
    }
    return STATUS_OK;
}
