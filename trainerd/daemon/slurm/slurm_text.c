#include "trainerd/daemon/slurm/slurm_text.h"

#include "protocol/base/log.h"
#include "protocol/base/printable.h"
#include "trainerd/base/fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((int64_t)1 << 20)

/* --- options --- */

/* Options that say what the daemon relies on, or that are of the job. */
static const char *const own_options[] = {
    "array",      "chdir",  "clusters",  "comment",  "cpus-per-task", "error",       "export",      "export-file",
    "help",       "hold",   "input",     "job-name", "mem",           "mem-per-cpu", "mem-per-gpu", "nice",
    "no-requeue", "ntasks", "open-mode", "output",   "parsable",      "quiet",       "requeue",     "test-only",
    "uid",        "gid",    "usage",     "version",  "wait",          "wrap",
};

static enum status option_check(const char *word)
{
    if (strncmp(word, "--", 2) != 0 || word[2] == '\0' || word[2] == '=') {
        return status_fail(
            STATUS_CONFIG,
            "daemon.slurm_options: '%.64s' is no long option; expected --name=value or --name, between blanks: "
            "--partition=gpu --account=lab",
            word);
    }
    size_t n = strcspn(word + 2, "=");
    for (size_t i = 0; i < sizeof own_options / sizeof *own_options; i++) {
        if (strlen(own_options[i]) == n && strncmp(own_options[i], word + 2, n) == 0) {
            return status_fail(STATUS_CONFIG, "daemon.slurm_options: --%s is given by the daemon, for each job",
                               own_options[i]);
        }
    }
    return STATUS_OK;
}

enum status slurm_options_read(const char *text, char *copy, char **words, size_t *n_out)
{
    char *rest;
    enum status status = STATUS_OK;
    *n_out = 0;
    strcpy(copy, text);
    for (char *word = strtok_r(copy, " \t\n", &rest); word != NULL && status == STATUS_OK;
         word = strtok_r(NULL, " \t\n", &rest)) {
        if (*n_out == SLURM_OPTIONS_MOST) {
            return status_fail(STATUS_CONFIG, "daemon.slurm_options has more than %d options", SLURM_OPTIONS_MOST);
        }
        status = option_check(word);
        words[(*n_out)++] = word;
    }
    return status;
}

/* --- sbatch --- */

#define COMMENT_BEGIN "trainerd:"

void slurm_comment(const char *store_id, int64_t job, int32_t attempt, char out[SLURM_COMMENT_BYTES])
{
    int n = snprintf(out, SLURM_COMMENT_BYTES, COMMENT_BEGIN "%s:%" PRId64 ":%" PRId32, store_id, job, attempt);
    ASSERT(n > 0 && n < SLURM_COMMENT_BYTES);
}

char **slurm_arguments(const struct slurm_request *request)
{
    struct texts all = {0};
    texts_add(&all, "%s", request->sbatch);
    for (size_t i = 0; i < request->n_option; i++) { /* before the daemon's own, which override them */
        texts_add(&all, "%s", request->options[i]);
    }
    texts_add(&all, "--parsable");
    texts_add(&all, "--hold");
    texts_add(&all, "--no-requeue");
    texts_add(&all, "--comment=%s", request->comment);
    texts_add(&all, "--job-name=%s", request->name);
    texts_add(&all, "--chdir=%s", request->folder);
    texts_add(&all, "--output=%s", request->log);
    texts_add(&all, "--open-mode=append");
    texts_add(&all, "--export=ALL");
    texts_add(&all, "--ntasks=%" PRId32, request->n_task);
    texts_add(&all, "--cpus-per-task=%" PRId32, request->n_cpu);
    texts_add(&all, "--mem-per-cpu=%" PRId64 "M",
              (request->memory + request->n_cpu * MIB - 1) / (request->n_cpu * MIB));
    if (request->has_gpus) {
        texts_add(&all, "--gpus-per-task=1");
    }
    if (request->n_minute > 0) {
        texts_add(&all, "--time=%" PRId64, request->n_minute);
    }
    if (request->priority < 0) {
        texts_add(&all, "--nice=%" PRId64, -(int64_t)request->priority);
    }
    return all.text;
}

/* Print a text as one word of the shell. sbatch refuses scripts with carriage returns. */
static void print_quoted(FILE *file, const char *text)
{
    fputc('\'', file);
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            fputs("'\\''", file);
        } else if (*text == '\r') {
            fputs("'$'\\r''", file);
        } else {
            fputc(*text, file);
        }
    }
    fputc('\'', file);
}

char *slurm_script(const char *program, char *const *argv, const char *input)
{
    char *text = NULL;
    size_t n;
    FILE *file = open_memstream(&text, &n);
    ASSERT(file != NULL);
    /* The first line that is no comment ends what sbatch looks for options in. */
    fputs("#!/bin/bash\njob=$(mktemp) || exit 73\nprintf %s ", file);
    print_quoted(file, input);
    fputs(" > \"$job\" && exec < \"$job\" && rm \"$job\" || exit 73\nexec ", file);
    print_quoted(file, program);
    for (size_t i = 1; argv[i] != NULL; i++) {
        fputc(' ', file);
        print_quoted(file, argv[i]);
    }
    fputc('\n', file);
    int error = fclose(file);
    ASSERT(error == 0);
    return text;
}

/* --- answers --- */

/* "123\n", or "123;cluster\n" */
enum status slurm_number_read(const char *text, int64_t *out)
{
    const char *at = text;
    int64_t number = digits_read(&at, SLURM_NUMBER_MOST);
    if (number > 0 && *at == ';') {
        at += 1 + strcspn(at + 1, "\n");
    }
    if (number <= 0 || strcmp(at, "\n") != 0) {
        char shown[64];
        printable_copy(text, shown, sizeof shown);
        return status_fail(STATUS_DATA, "sbatch printed '%s', expected the number of a job", shown);
    }
    *out = number;
    return STATUS_OK;
}

/* "trainerd:STORE:JOB:ATTEMPT", to the text's end */
static bool comment_read(const char *text, size_t n_begin, struct slurm_look *out)
{
    const char *at = text + n_begin;
    out->job = digits_read(&at, INT64_C(1000000000000000));
    if (out->job < 1 || *at++ != ':') {
        return false;
    }
    out->attempt = (int32_t)digits_read(&at, INT32_MAX);
    return out->attempt >= 1 && *at == '\0';
}

static enum slurm_state state_of(const char *name, const char *why)
{
    static const char *const ended[] = {"BOOT_FAIL", "CANCELLED", "COMPLETED",     "DEADLINE", "FAILED",
                                        "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "TIMEOUT",  "REVOKED"};
    if (strcmp(name, "PENDING") == 0) {
        return strcmp(why, "JobHeldUser") == 0 ? SLURM_STATE_HELD : SLURM_STATE_WAITS;
    }
    for (size_t i = 0; i < sizeof ended / sizeof *ended; i++) {
        if (strcmp(name, ended[i]) == 0) {
            return SLURM_STATE_ENDED;
        }
    }
    return SLURM_STATE_RUNS;
}

/* Cut a line into its fields. begin: how comments of this store begin. false: another store's line */
static enum status look_read(char *line, const char *begin, struct slurm_look *out, bool *is_ours_out)
{
    char *comment = strrchr(line, '|'), *name = strchr(line, '|'), *why;
    *is_ours_out = comment != NULL && strncmp(comment + 1, begin, strlen(begin)) == 0;
    if (!*is_ours_out) {
        return STATUS_OK;
    }
    const char *at = line;
    *out = (struct slurm_look){.number = digits_read(&at, SLURM_NUMBER_MOST)};
    why = name == comment ? NULL : strchr(name + 1, '|');
    bool is_job = out->number > 0 && at == name && why != NULL && why != comment && why > name + 1 &&
                  comment_read(comment + 1, strlen(begin), out);
    if (!is_job) {
        char shown[128];
        printable_copy(line, shown, sizeof shown);
        return status_fail(STATUS_DATA, "squeue printed '%s', expected NUMBER|STATE|REASON|COMMENT", shown);
    }
    *name = *why = *comment = '\0';
    printable_copy(name + 1, out->name, sizeof out->name);
    printable_copy(why + 1, out->why, sizeof out->why);
    out->state = state_of(out->name, out->why);
    return STATUS_OK;
}

enum status slurm_looks_read(const char *text, size_t n, const char *store_id,
                             void (*each)(void *context, const struct slurm_look *look), void *context)
{
    char begin[SLURM_COMMENT_BYTES];
    snprintf(begin, sizeof begin, COMMENT_BEGIN "%s:", store_id);
    enum status status = STATUS_OK;
    for (size_t at = 0; at < n && status == STATUS_OK;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t n_line = end == NULL ? n - at : (size_t)(end - text) - at;
        char *line = strndup(text + at, n_line);
        ASSERT(line != NULL);
        struct slurm_look look;
        bool is_ours = false;
        status = look_read(line, begin, &look, &is_ours);
        free(line);
        if (status == STATUS_OK && is_ours) {
            each(context, &look);
        }
        at += n_line + 1;
    }
    return status;
}
