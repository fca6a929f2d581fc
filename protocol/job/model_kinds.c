/* See model_kinds.h. */
#include "protocol/job/model_kinds.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* configs/programs/NAME.gnn and configs/decoders/NAME.gnn as the Makefile quotes them, by folder/NAME */
static const struct {
    const char *name, *text;
} texts[] = {
#define TEXT(name, text) {name, text},
#include KIND_TEXTS
#undef TEXT
};

#define PROGRAMS "programs/"
#define DECODERS "decoders/"

static struct model_kind model_kinds[JOB_KIND_N];
static pthread_once_t read_once = PTHREAD_ONCE_INIT;

_Static_assert(JOB_KIND_N <= 32, "a set of kinds is a uint32_t");
_Static_assert(JOB_KEY_train_epochs - JOB_KEY_model_kind <= 64, "a set of keys of [model] is a uint64_t");

static const char *text_of(const char *folder, const char *name)
{
    const char *out = NULL;
    const size_t n = strlen(folder);
    for (size_t i = 0; i < sizeof texts / sizeof *texts && out == NULL; i++) {
        const bool is_in = strncmp(texts[i].name, folder, n) == 0;
        out = is_in && strcmp(texts[i].name + n, name) == 0 ? texts[i].text : NULL;
    }
    return out;
}

const char *model_text(const struct job *job)
{
    if (job->model.kind == JOB_KIND_PROGRAM) {
        return job->program.text;
    }
    return text_of(PROGRAMS, job_keys[JOB_KEY_model_kind].choice[job->model.kind]); /* each kind has one */
}

const char *decoder_text(const struct job *job)
{
    return job->decoder[0] != '\0' ? job->decoder : text_of(DECODERS, job->task.decoder);
}

const char *decoder_name(int i)
{
    int at = 0;
    for (size_t k = 0; i > 0 && k < sizeof texts / sizeof *texts; k++) {
        at += strncmp(texts[k].name, DECODERS, strlen(DECODERS)) == 0;
        if (at == i) {
            return texts[k].name + strlen(DECODERS);
        }
    }
    return i == 0 ? "dot" : NULL;
}

bool decoder_is_known(const struct job *job)
{
    return job->decoder[0] == '\0' && (strcmp(job->task.decoder, decoder_name(0)) == 0 || decoder_text(job) != NULL);
}

bool decoder_takes(const struct job *job, enum job_key_id key)
{
    const char *name = key == JOB_KEY_task_decoder_layers   ? "layers"
                       : key == JOB_KEY_task_decoder_hidden ? "hidden"
                                                            : NULL,
               *text = decoder_text(job);
    struct vertex_tree tree;
    bool takes = name == NULL;
    if (!takes && text != NULL && vertex_tree_parse(text, strlen(text), "", &tree) == STATUS_OK) {
        takes = vertex_takes(&tree, name);
        vertex_tree_release(&tree);
    }
    return takes;
}

void decoder_args(const struct job *job, const struct vertex_tree *tree, struct vertex_args *out)
{
    const struct vertex_arg all[] = {{.name = "layers", .number = (double)job->task.decoder_layers},
                                     {.name = "hidden", .number = (double)job->task.decoder_hidden}};
    out->n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        out->of[out->n] = all[i];
        out->n += vertex_takes(tree, all[i].name);
    }
}

bool job_scores_relations(const struct job *job)
{
    struct vertex_tree tree;
    const char *text = job_predicts_links(job) ? decoder_text(job) : NULL;
    bool reads = false;
    if (text != NULL && vertex_tree_parse(text, strlen(text), "task.decoder", &tree) == STATUS_OK) {
        reads = vertex_reads(&tree, "relation") > 0;
        vertex_tree_release(&tree);
    }
    return reads;
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
