#include "trainerd/coordinator/records/hparams.h"

#include "protocol/base/clock.h"
#include "protocol/job/job_keys.h"

#include <string.h>

static bool is_setting(const struct job *job, enum job_key_id key)
{
    static const char *const others[] = {JOB_TOP_SECTION, "workers", "memory", "output"};
    bool is_other = false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        is_other = is_other || strcmp(job_keys[key].section, others[i]) == 0;
    }
    return !is_other && job_keys[key].type != JOB_TYPE_CHOICES &&
           job_key_applies(job, key); /* a column has no lists */
}

static struct tensorboard_hparam hparam_of(const struct job *job, const struct job_key *key, const char *name)
{
    const void *at = (const char *)job + key->offset;
    struct tensorboard_hparam out = {.name = name, .kind = TENSORBOARD_NUMBER};
    switch (key->type) {
    case JOB_TYPE_INT:
    case JOB_TYPE_INT_OR:
    case JOB_TYPE_SIZE:
        out.number = (double)*(const int64_t *)at;
        out.text = job_word(key, *(const int64_t *)at);
        out.kind = out.text != NULL ? TENSORBOARD_TEXT : TENSORBOARD_NUMBER;
        break;
    case JOB_TYPE_REAL:
        out.number = *(const double *)at;
        break;
    case JOB_TYPE_BOOL:
        out.kind = TENSORBOARD_BOOL;
        out.number = *(const bool *)at;
        break;
    case JOB_TYPE_TEXT:
    case JOB_TYPE_CHOICE:
    case JOB_TYPE_CHOICES:
        out.kind = TENSORBOARD_TEXT;
        out.text = key->type == JOB_TYPE_TEXT ? at : key->choice[*(const int *)at];
        break;
    }
    return out;
}

enum status hparams_write(const struct job *job, struct tensorboard *tensorboard)
{
    struct tensorboard_hparam all[JOB_KEY_N];
    char name[JOB_KEY_N][JOB_LABEL_BYTES];
    int n = 0;
    for (int i = 0; i < JOB_KEY_N; i++) {
        if (is_setting(job, (enum job_key_id)i)) {
            job_key_label(&job_keys[i], name[n]);
            all[n] = hparam_of(job, &job_keys[i], name[n]);
            n++;
        }
    }
    return tensorboard_begin(tensorboard, clock_wall_s(), all, n);
}
