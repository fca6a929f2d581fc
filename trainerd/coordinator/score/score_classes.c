/* Metrics class by class: macro F1, and which classes are taken for which. */
#include "trainerd/coordinator/score/score.h"

#include "protocol/base/memory.h"

#include <math.h>

/* Of a class: nodes that have it, that are given it, and both. */
struct counts {
    int64_t n_label, n_predicted, n_both;
};

static void count_node(const struct score_labels *labels, const float *logits, int64_t node, struct counts *counts)
{
    const float *row = logits + node * labels->n_class;
    if (!labels->multi_label) {
        int32_t label = labels->labels[node], predicted = score_class(labels->n_class, row);
        if (label >= 0) {
            counts[label].n_label++;
            counts[predicted].n_predicted++;
            counts[label].n_both += label == predicted;
        }
        return;
    }
    for (int32_t k = 0; k < labels->n_class; k++) {
        float label = labels->label_rows[node * labels->n_class + k];
        bool known = !isnan(label), truth = label > 0.5f, predicted = row[k] > 0.0f;
        counts[k].n_label += known && truth;
        counts[k].n_predicted += known && predicted;
        counts[k].n_both += known && truth && predicted;
    }
}

enum status score_macro_f1(const struct score_labels *labels, const float *logits, int split, double *out)
{
    struct counts *counts;
    size_t n_class = (size_t)labels->n_class;
    enum status status = memory_acquire(MEMORY_OTHER, n_class, sizeof *counts, &counts);
    if (status != STATUS_OK) {
        return status;
    }
    bool any = false;
    for (int64_t node = 0; node < labels->n_node; node++) {
        if (score_counts(labels, node, split)) {
            count_node(labels, logits, node, counts);
            any = true;
        }
    }
    double sum = 0.0;
    int32_t n = 0;
    for (size_t k = 0; k < n_class; k++) {
        int64_t both = counts[k].n_label + counts[k].n_predicted;
        sum += both > 0 ? 2.0 * (double)counts[k].n_both / (double)both : 0.0;
        n += both > 0 || (any && labels->multi_label);
    }
    memory_release(MEMORY_OTHER, counts, n_class, sizeof *counts);
    *out = n > 0 ? sum / n : NAN;
    return STATUS_OK;
}

enum status score_confusion_count(const struct score_labels *labels, const float *logits, int split,
                                  struct score_confusion *out)
{
    *out = (struct score_confusion){0};
    size_t n = (size_t)labels->n_class * (size_t)labels->n_class;
    enum status status = memory_acquire(MEMORY_OTHER, n, sizeof *out->count, &out->count);
    out->n_class = status == STATUS_OK ? labels->n_class : 0;
    for (int64_t node = 0; status == STATUS_OK && node < labels->n_node; node++) {
        int32_t label = labels->labels[node];
        if (label >= 0 && score_counts(labels, node, split)) {
            int64_t predicted = score_class(labels->n_class, logits + node * labels->n_class);
            out->count[label * (int64_t)labels->n_class + predicted]++;
            out->n_row++;
        }
    }
    return status;
}

void score_confusion_release(struct score_confusion *confusion)
{
    size_t n = (size_t)confusion->n_class * (size_t)confusion->n_class;
    memory_release(MEMORY_OTHER, confusion->count, n, sizeof *confusion->count);
    *confusion = (struct score_confusion){0};
}
