#include "partition/graph/class_weights.h"

#include "partition/files/dataset_store.h"
#include "partition/files/npy.h"
#include "partition/graph/dataset_build.h"

#include <float.h>
#include <inttypes.h>
#include <string.h>

/* Training nodes of each class, or with a known label; and among the latter those where it is 0. */
struct counts {
    int64_t *n, *n_negative;
};

static void count_node(const struct dataset *dataset, int64_t node, struct counts *counts)
{
    if (!dataset->facts.multi_label) {
        counts->n[dataset->labels.classes[node]]++; /* a training node has one */
        return;
    }
    for (int32_t c = 0; c < dataset->facts.n_class; c++) {
        float label = dataset->labels.rows[node * dataset->facts.n_class + c];
        counts->n[c] += label > 0.5f;
        counts->n_negative[c] += label <= 0.5f;
    }
}

static void balance(const struct dataset *dataset, const struct counts *counts)
{
    int32_t n_class = 0;
    for (int32_t c = 0; c < dataset->facts.n_class; c++) {
        n_class += counts->n[c] > 0;
    }
    for (int32_t c = 0; c < dataset->facts.n_class; c++) {
        double n = (double)counts->n[c];
        double all = dataset->facts.multi_label
                         ? (double)counts->n_negative[c]
                         : (double)dataset->labels.n_split[DATASET_SPLIT_TRAIN] / (double)n_class;
        dataset->labels.class_weights[c] = n > 0.0 ? (float)(all / n) : 1.0f;
    }
}

static enum status read_weights(const struct job *job, struct dataset *dataset)
{
    struct npy npy;
    enum status status = npy_open(job->train.class_weights, &npy);
    if (status != STATUS_OK) {
        return status;
    }
    dataset_file_note(dataset, DATASET_CONTENT_CLASS_WEIGHTS, npy.name);
    status = npy_expect(&npy, NPY_KIND_NUMBER, 1, dataset->facts.n_class, 0);
    for (int32_t c = 0; status == STATUS_OK && c < dataset->facts.n_class; c++) {
        double weight = npy_real(&npy, c);
        if (!(weight >= 0.0 && weight <= (double)FLT_MAX)) {
            status = status_fail(STATUS_DATA,
                                 "%s: class %" PRId32 " has weight %g, expected a finite number that is not negative",
                                 npy.name, c, weight);
        }
        dataset->labels.class_weights[c] = (float)weight;
    }
    npy_close(&npy);
    return status;
}

/* Σ of the training nodes' weights, class after class. */
static enum status loss_weigh(const struct counts *counts, struct dataset *dataset)
{
    double sum = 0.0;
    for (int32_t c = 0; c < dataset->facts.n_class; c++) {
        sum += dataset->labels.class_weights[c] * (double)counts->n[c];
    }
    if (!(sum > 0.0)) {
        return status_fail(
            STATUS_DATA,
            "train.class_weights: all training nodes of dataset '%s' have weight 0, expected a class among theirs "
            "with a weight above 0",
            dataset->name);
    }
    dataset->labels.loss_weight = sum;
    return STATUS_OK;
}

enum status class_weights_build(const struct job *job, struct dataset *dataset)
{
    const char *how = job->train.class_weights;
    size_t n_class = (size_t)dataset->facts.n_class;
    int64_t *count;
    if (strcmp(how, "none") == 0 || dataset->predicts) {
        return STATUS_OK;
    }
    enum status status = dataset_store_block(dataset->store, MEMORY_OTHER, n_class,
                                             sizeof *dataset->labels.class_weights, &dataset->labels.class_weights);
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, 2 * n_class, sizeof *count, &count);
    }
    if (status != STATUS_OK) {
        return status;
    }
    struct counts counts = {count, count + n_class};
    for (int64_t node = 0; node < dataset->n_node; node++) {
        if (dataset->labels.split[node] == DATASET_SPLIT_TRAIN) {
            count_node(dataset, node, &counts);
        }
    }
    if (strcmp(how, "balanced") == 0) {
        balance(dataset, &counts);
    } else {
        status = read_weights(job, dataset);
    }
    /* The weights of positives do not change the mean over the labels. */
    if (status == STATUS_OK && !dataset->facts.multi_label) {
        status = loss_weigh(&counts, dataset);
    }
    memory_release(MEMORY_OTHER, count, 2 * n_class, sizeof *count);
    return status;
}
