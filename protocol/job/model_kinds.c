/* See model_kinds.h. */
#include "protocol/job/model_kinds.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* configs/programs/NAME.gnn as the Makefile quotes it */
static const struct {
    const char *name, *text;
} texts[] = {
#define TEXT(name, text) {name, text},
#include KIND_TEXTS
#undef TEXT
};

static struct model_kind model_kinds[JOB_KIND_N];
static pthread_once_t read_once = PTHREAD_ONCE_INIT;

_Static_assert(JOB_KIND_N <= 32, "a set of kinds is a uint32_t");
_Static_assert(JOB_KEY_train_epochs - JOB_KEY_model_kind <= 64, "a set of keys of [model] is a uint64_t");

const char *model_text(const struct job *job)
{
    if (job->model.kind == JOB_KIND_PROGRAM) {
        return job->program.text;
    }
    const char *name = job_keys[JOB_KEY_model_kind].choice[job->model.kind];
    size_t i = 0;
    while (strcmp(texts[i].name, name) != 0) { /* each kind has one */
        i++;
    }
    return texts[i].text;
}

void model_args(const struct job *job, const struct vertex_tree *tree, struct vertex_args *out)
{
    if (job->model.kind == JOB_KIND_PROGRAM) {
        *out = job->program.args;
        return;
    }
    out->n = 0;
    for (int key = JOB_KEY_model_kind; key < JOB_KEY_train_epochs; key++) {
        const struct job_key *row = &job_keys[key];
        const void *at = (const char *)job + row->offset;
        struct vertex_arg *arg = &out->of[out->n];
        const char *name = key == JOB_KEY_model_dropout ? "p" : row->name;
        if (!vertex_takes(tree, name)) {
            continue;
        }
        *arg = (struct vertex_arg){.kind = row->type == JOB_TYPE_BOOL     ? VERTEX_ARG_BOOL
                                           : row->type == JOB_TYPE_CHOICE ? VERTEX_ARG_TEXT
                                                                          : VERTEX_ARG_NUMBER};
        snprintf(arg->name, sizeof arg->name, "%s", name);
        if (row->type == JOB_TYPE_CHOICE) {
            snprintf(arg->text, sizeof arg->text, "%s", row->choice[*(const int *)at]);
        } else {
            arg->number = row->type == JOB_TYPE_BOOL   ? *(const bool *)at
                          : row->type == JOB_TYPE_REAL ? *(const double *)at
                                                       : (double)*(const int64_t *)at;
        }
        out->n++;
    }
}

static void kinds_read(void)
{
    struct job *job = memory_alloc(1, sizeof *job);
    job_defaults(job);
    for (int kind = 0; kind < JOB_KIND_N; kind++) {
        job->model.kind = kind;
        if (kind == JOB_KIND_PROGRAM) {
            model_kinds[kind].keys = MODEL_KEY(program) | MODEL_KEY(embedding);
            continue;
        }
        enum status status = job_program_check(job, job_keys[JOB_KEY_model_kind].choice[kind], true);
        ASSERT(status == STATUS_OK);
        model_kinds[kind] = job->program.kind;
    }
    free(job);
}

static const struct model_kind *kinds(void)
{
    pthread_once(&read_once, kinds_read);
    return model_kinds;
}

const struct model_kind *model_kind_of(const struct job *job)
{
    return job->model.kind == JOB_KIND_PROGRAM ? &job->program.kind : &kinds()[job->model.kind];
}

bool model_is_sum(const struct job *job)
{
    bool is_max = job->model.kind == JOB_KIND_SAGE && job->model.aggregator == JOB_AGGREGATOR_MAX;
    return model_kind_of(job)->is_sum && !is_max;
}

uint32_t model_kinds_with_key(enum job_key_id key)
{
    int bit = (int)key - (int)JOB_KEY_model_kind;
    uint32_t set = 0;
    if (bit < 0 || bit >= 64) {
        return 0;
    }
    for (int kind = 0; kind < JOB_KIND_N; kind++) {
        set |= (uint32_t)(kinds()[kind].keys >> bit & 1) << kind;
    }
    return set;
}

uint32_t model_kinds_of_sums(void)
{
    uint32_t set = 0;
    for (int kind = 0; kind < JOB_KIND_N; kind++) {
        set |= (uint32_t)kinds()[kind].is_sum << kind;
    }
    return set;
}

uint32_t model_kinds_with_edge_features(void)
{
    uint32_t set = 0;
    for (int kind = 0; kind < JOB_KIND_N; kind++) {
        set |= (uint32_t)kinds()[kind].takes_edge_features << kind;
    }
    return set;
}
