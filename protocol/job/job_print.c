/* A job as canonical TOML: every key that applies, in the list's order. Equal jobs give equal text. */
#include "protocol/base/log.h"
#include "protocol/job/job.h"
#include "protocol/job/job_keys.h"
#include "protocol/toml/toml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ["a", "b"] */
static void print_choices(FILE *file, const struct job_key *key, const struct job_choices *choices)
{
    fputc('[', file);
    for (int i = 0; i < choices->n; i++) {
        fprintf(file, "%s\"%s\"", i > 0 ? ", " : "", key->choice[choices->of[i]]);
    }
    fputc(']', file);
}

void job_print_value(FILE *file, const struct job *job, const struct job_key *key)
{
    const void *at = (const char *)job + key->offset;
    char real[JOB_REAL_BYTES];
    char *text;
    switch (key->type) {
    case JOB_TYPE_TEXT:
        text = toml_quote(job_key_text(job, key));
        fputs(text, file);
        free(text);
        break;
    case JOB_TYPE_INT_OR:
        if (job_word(key, *(const int64_t *)at) != NULL) {
            fprintf(file, "\"%s\"", job_word(key, *(const int64_t *)at));
            break;
        }
        /* fallthrough */
    case JOB_TYPE_INT:
    case JOB_TYPE_SIZE:
        fprintf(file, "%lld", (long long)*(const int64_t *)at);
        break;
    case JOB_TYPE_REAL:
        job_real_text(*(const double *)at, real);
        fputs(real, file);
        break;
    case JOB_TYPE_BOOL:
        fputs(*(const bool *)at ? "true" : "false", file);
        break;
    case JOB_TYPE_CHOICE:
        fprintf(file, "\"%s\"", key->choice[*(const int *)at]);
        break;
    case JOB_TYPE_CHOICES:
        print_choices(file, key, at);
        break;
    }
}

void job_print_args(FILE *file, const struct job *job)
{
    for (int i = 0; i < job->program.args.n; i++) {
        const struct vertex_arg *arg = &job->program.args.of[i];
        char number[JOB_REAL_BYTES], *text;
        switch (arg->kind) {
        case VERTEX_ARG_NUMBER:
            job_real_text(arg->number, number);
            fprintf(file, "%s = %s\n", arg->name, number);
            break;
        case VERTEX_ARG_BOOL:
            fprintf(file, "%s = %s\n", arg->name, arg->number != 0.0 ? "true" : "false");
            break;
        case VERTEX_ARG_TEXT:
            text = toml_quote(arg->text);
            fprintf(file, "%s = %s\n", arg->name, text);
            free(text);
            break;
        }
    }
}

char *job_print(const struct job *job)
{
    char *out = NULL;
    size_t n_out = 0;
    FILE *file = open_memstream(&out, &n_out);
    ASSERT(file != NULL);
    const char *section = JOB_TOP_SECTION;
    for (int i = 0; i < JOB_KEY_N; i++) {
        const struct job_key *key = &job_keys[i];
        if (strcmp(key->section, section) != 0) {
            section = key->section;
            fprintf(file, "\n[%s]\n", section);
        }
        if (job_key_applies(job, (enum job_key_id)i)) {
            fprintf(file, "%s = ", key->name);
            job_print_value(file, job, key);
            fputc('\n', file);
        }
        bool is_last = i + 1 == JOB_KEY_N || strcmp(job_keys[i + 1].section, section) != 0;
        if (is_last && strcmp(section, "model") == 0 && job->program.args.n > 0) {
            fputs("\n[model.args]\n", file);
            job_print_args(file, job);
        }
        if (is_last && strcmp(section, "model") == 0 && job->names.n > 0) {
            fputs("\n[model.names]\n", file);
            job_print_names(file, job);
        }
    }
    fclose(file);
    return out;
}
