#include "trainerd/coordinator/contents.h"

#include "protocol/base/log.h"

#include <stdio.h>
#include <xxhash.h>

static const char *const titles[CHECKPOINT_N_CONTENT] = {
    [DATASET_CONTENT_LABELS] = "labels",        [DATASET_CONTENT_FEATURES] = "features",
    [DATASET_CONTENT_TRAIN] = "training nodes", [DATASET_CONTENT_VALID] = "validation nodes",
    [DATASET_CONTENT_TEST] = "test nodes",      [DATASET_CONTENT_CLASS_WEIGHTS] = "class weights",
    [CHECKPOINT_CONTENT_INIT] = "weights"};

static const char *title(const struct job *job, int content)
{
    bool links = job_predicts_links(job);
    return links && content == DATASET_CONTENT_VALID  ? "validation edges"
           : links && content == DATASET_CONTENT_TEST ? "test edges"
                                                      : titles[content];
}

/* 0: it cannot be read. */
static uint64_t file_hash(const char *path)
{
    char bytes[1 << 14];
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        return 0;
    }
    XXH3_state_t *state = XXH3_createState();
    ASSERT(state != NULL);
    XXH3_64bits_reset(state);
    for (size_t n = fread(bytes, 1, sizeof bytes, file); n > 0; n = fread(bytes, 1, sizeof bytes, file)) {
        XXH3_64bits_update(state, bytes, n);
    }
    uint64_t hash = ferror(file) ? 0 : XXH3_64bits_digest(state);
    XXH3_freeState(state);
    fclose(file);
    return hash;
}

void contents_find(const struct job *job, const struct dataset *dataset, uint64_t out[CHECKPOINT_N_CONTENT])
{
    dataset_contents(dataset, out);
    out[CHECKPOINT_CONTENT_INIT] = job->model.init[0] != '\0' ? file_hash(job->model.init) : 0;
}

enum status contents_match(const struct checkpoint *checkpoint, const struct job *job, const struct dataset *dataset,
                           const uint64_t content[CHECKPOINT_N_CONTENT])
{
    const uint64_t *then = checkpoint->state.content;
    for (int i = 0; i < CHECKPOINT_N_CONTENT; i++) {
        bool is_known = i != CHECKPOINT_CONTENT_INIT || (content[i] != 0 && then[i] != 0);
        if (is_known && content[i] != then[i]) {
            const char *file = i == CHECKPOINT_CONTENT_INIT  ? job->model.init
                               : dataset->file[i][0] != '\0' ? dataset->file[i]
                                                             : job->dataset.path;
            return status_fail(
                STATUS_DATA, "cannot resume: '%s' has other %s than checkpoint '%s' was made with: expected the same",
                file, title(job, i), checkpoint->path);
        }
    }
    return STATUS_OK;
}
