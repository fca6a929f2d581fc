/* What a prediction leaves: each node's class or labels, their logits, and the output of a layer. */
#include "partition/files/npy_header.h"
#include "trainerd/coordinator/coordinator_state.h"

#include <string.h>

enum status coordinator_spare_model(struct coordinator *c)
{
    const struct run_folder *run = &c->run;
    if (!job_predicts(&c->job) || run->has_link ||
        !(run_folder_has(run->home, "model.safetensors") || run_folder_has(run->home, "best.safetensors"))) {
        return STATUS_OK;
    }
    return status_fail(
        STATUS_CONFIG,
        "output.dir = '%s' has the results of a training, which those of a prediction would replace: expected "
        "another folder, as in --set output.dir=%s-predict",
        run->home, run->home);
}

struct predictions_file {
    struct training *training;
    char header[256];
    size_t n_header; /* a multiple of 64 */
    char *values;    /* behind it */
};

static void classes_put(void *context, const uint32_t *node, int64_t n, const float *rows)
{
    const struct predictions_file *file = context;
    int64_t *out = (int64_t *)(void *)file->values;
    int32_t n_class = file->training->n_class;
    for (int64_t r = 0; r < n; r++) {
        out[node[r]] = score_class(n_class, rows + r * n_class);
    }
}

/* Labels of a probability above 1/2, as F1 counts. */
static void labels_put(void *context, const uint32_t *node, int64_t n, const float *rows)
{
    const struct predictions_file *file = context;
    size_t n_class = (size_t)file->training->n_class;
    for (int64_t r = 0; r < n; r++) {
        for (size_t k = 0; k < n_class; k++) {
            file->values[node[r] * n_class + k] = (char)(rows[(size_t)r * n_class + k] > 0.0F);
        }
    }
}

static enum status predictions_fill(void *context, char *bytes)
{
    struct predictions_file *file = context;
    struct training *training = file->training;
    memcpy(bytes, file->header, file->n_header);
    file->values = bytes + file->n_header;
    if (job_regresses(training->job)) { /* numbers as they are */
        return training_logits(training, (float *)(void *)file->values);
    }
    const struct training_rows rows = {.what = WORKER_STATE_LOGITS,
                                       .width = training->n_class,
                                       .take = training->multi_label ? labels_put : classes_put,
                                       .context = file};
    return training_rows_each(training, &rows);
}

/* predictions.npy: int64 [N]; several labels per node: uint8 [N, C]; numbers: float32 [N] or [N, C]. */
static enum status predictions_write(struct coordinator *c)
{
    struct predictions_file file = {.training = &c->training};
    bool numbers = c->sizes.regression, rows = c->sizes.facts.multi_label;
    const int64_t shape[2] = {c->sizes.n_node, rows ? c->sizes.facts.n_class : 1};
    enum npy_type type = numbers ? NPY_TYPE_F32 : rows ? NPY_TYPE_U8 : NPY_TYPE_I64;
    int rank = rows && !(numbers && shape[1] == 1) ? 2 : 1;
    file.n_header = npy_header_write(type, rank, shape, file.header, sizeof file.header);
    size_t one = numbers ? sizeof(float) : rows ? 1 : sizeof(int64_t);
    size_t n = file.n_header + (size_t)shape[0] * (size_t)shape[1] * one;
    return dir_replace_mapped(&c->output.dir, "predictions.npy", n, predictions_fill, &file);
}

enum status coordinator_write_predictions(struct coordinator *c)
{
    int kept = c->program.kept;
    enum status status = coordinator_write_logits(c);
    if (status == STATUS_OK && !c->sizes.of_links) {
        status = predictions_write(c);
    }
    if (status != STATUS_OK || kept < 0) {
        return status;
    }
    return coordinator_write_rows(c, "embeddings.npy", WORKER_STATE_LAYER, c->program.value[kept].width, NULL);
}
