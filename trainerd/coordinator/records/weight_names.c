#include "trainerd/coordinator/records/weight_names.h"

#include "protocol/base/memory.h"
#include "protocol/base/mistakes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A name between dots that "*" stands for. */
struct star {
    const char *at;
    int n;
};

/* How many parts of the name the row has; 0: it does not fit. *rest_out: the name's end, or where a dot goes on. */
static int parts_match(const char *row, const char *name, struct star *star_out, const char **rest_out)
{
    int n_part = 0;
    for (;; row++, name++) {
        size_t n_row = strcspn(row, "."), n_name = strcspn(name, ".");
        if (n_row == 1 && row[0] == '*' && n_name > 0) {
            *star_out = (struct star){name, (int)n_name};
        } else if (n_row != n_name || strncmp(row, name, n_row) != 0) {
            return 0;
        }
        n_part++;
        row += n_row;
        name += n_name;
        if (*row == '\0') {
            *rest_out = name;
            return n_part;
        }
        if (*name == '\0') {
            return 0;
        }
    }
}

/* The row that counts for a name; NULL: no row fits. Sets fits[i] of each row that does. */
static const struct job_name *row_find(const struct job_names *names, const char *name, bool *fits)
{
    const struct job_name *best = NULL;
    int most = 0;
    for (int i = 0; i < names->n; i++) {
        const struct job_name *row = &names->of[i];
        struct star star;
        const char *rest;
        int n_part = parts_match(row->ours, name, &star, &rest);
        fits[i] |= n_part > 0;
        if (n_part > most || (n_part == most && n_part > 0 && strchr(row->ours, '*') == NULL)) {
            best = row;
            most = n_part;
        }
    }
    return best;
}

static enum status name_make(const struct parameter *param, const struct job_name *row, struct weight_name *out)
{
    struct star star = {"", 0};
    const char *rest = param->name;
    *out = (struct weight_name){0};
    if (row == NULL) {
        snprintf(out->text, sizeof out->text, "%s", param->name);
        return STATUS_OK;
    }
    parts_match(row->ours, param->name, &star, &rest);
    size_t before = strcspn(row->theirs, "*");
    bool has_star = row->theirs[before] == '*';
    snprintf(out->text, sizeof out->text, "%.*s%.*s%s%s", (int)before, row->theirs, has_star ? star.n : 0, star.at,
             has_star ? row->theirs + before + 1 : "", row->theirs[0] == '\0' && rest[0] == '.' ? rest + 1 : rest);
    size_t n = strlen(out->text);
    out->transposed = rest[0] == '\0' && n > 2 && strcmp(out->text + n - 2, ".T") == 0;
    if (out->transposed) {
        out->text[n - 2] = '\0';
    }
    if (out->transposed && param->n_dim != 2) {
        return status_fail(
            STATUS_CONFIG,
            "[model.names]: \"%s\" = \"%s\" transposes tensor '%s', which has %d dimensions: expected 2", row->ours,
            row->theirs, param->name, param->n_dim);
    }
    return STATUS_OK;
}

/* The nearest of the tensors' names, and of what comes before a dot in them. */
static enum status row_unknown(const struct program *program, const struct job_name *row)
{
    struct nearest nearest;
    char(*begin)[PROGRAM_NAME_BYTES] = memory_alloc((size_t)program->n_param * PROGRAM_NAME_BYTES, sizeof *begin);
    size_t n = 0;
    nearest_init(row->ours, &nearest);
    for (int p = 0; p < program->n_param; p++) {
        const char *name = program->param[p].name;
        nearest_offer(&nearest, name);
        for (const char *dot = strchr(name, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
            snprintf(begin[n], sizeof begin[n], "%.*s", (int)(dot - name), name);
            nearest_offer(&nearest, begin[n++]);
        }
    }
    enum status status = status_fail(STATUS_CONFIG, "[model.names]: the model has no tensor '%s'%s%s%s", row->ours,
                                     nearest.best != NULL ? "; did you mean '" : "",
                                     nearest.best != NULL ? nearest.best : "", nearest.best != NULL ? "'?" : "");
    free(begin);
    return status;
}

static enum status names_differ(const struct program *program, const struct weight_name *name)
{
    for (int p = 0; p < program->n_param; p++) {
        for (int other = 0; other < p; other++) {
            if (strcmp(name[p].text, name[other].text) == 0) {
                return status_fail(STATUS_CONFIG, "[model.names]: both '%s' and '%s' would be '%s' in the file",
                                   program->param[other].name, program->param[p].name, name[p].text);
            }
        }
    }
    return STATUS_OK;
}

enum status weight_names_find(const struct program *program, const struct job_names *names, struct weight_name **out)
{
    struct mistakes mistakes = {0};
    bool fits[JOB_TENSOR_MOST] = {false};
    struct weight_name *name = memory_alloc((size_t)program->n_param, sizeof *name);
    for (int p = 0; p < program->n_param; p++) {
        const struct parameter *param = &program->param[p];
        mistakes_take(&mistakes, name_make(param, row_find(names, param->name, fits), &name[p]));
    }
    for (int i = 0; i < names->n; i++) {
        mistakes_take(&mistakes, fits[i] ? STATUS_OK : row_unknown(program, &names->of[i]));
    }
    if (mistakes.n == 0) {
        mistakes_take(&mistakes, names_differ(program, name));
    }
    *out = name;
    if (mistakes.n > 0) {
        free(name);
        *out = NULL;
    }
    return mistakes_end(&mistakes);
}
