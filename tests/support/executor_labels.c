/* Labels of an executor's parts, as its objective takes them. */
#include "tests/support/executor_parts.h"

#include <stdlib.h>
#include <string.h>

static int64_t n_class_of(const struct executor *x)
{
    return x->setup.program->value[x->setup.program->logits].width;
}

static void label_rows_open(struct executor *x, struct executor_part *part, const float *label_rows)
{
    size_t n_class = (size_t)n_class_of(x), n_row = (size_t)part->n_own;
    float *rows = memory_alloc(n_row * n_class, sizeof *rows);
    for (size_t r = 0; r < n_row; r++) {
        memcpy(rows + r * n_class, label_rows + part->node[r] * n_class, n_class * sizeof *rows);
    }
    part->labels.label_rows = executor_upload(x, rows, n_row * n_class * sizeof *rows);
    free(rows);
}

void executor_labels_open(struct executor *x, struct executor_part *part)
{
    const struct objective *objective = x->setup.objective;
    int32_t *labels = memory_alloc((size_t)part->n_own, sizeof *labels);
    uint8_t *split = memory_alloc((size_t)part->n_own, sizeof *split);
    for (int64_t r = 0; r < part->n_own; r++) {
        labels[r] = x->setup.labels[part->node[r]];
        split[r] = x->setup.split[part->node[r]];
    }
    if (objective != NULL && objective->label_rows != NULL) {
        label_rows_open(x, part, objective->label_rows);
    } else {
        part->labels.labels = executor_upload(x, labels, (size_t)part->n_own * sizeof *labels);
    }
    if (objective != NULL && objective->weights != NULL) {
        part->class_weights = executor_upload(x, objective->weights,
                                              (size_t)n_class_of(x) * sizeof *objective->weights);
    }
    part->labels.train = DATASET_SPLIT_TRAIN;
    part->labels.split = executor_upload(x, split, (size_t)part->n_own * sizeof *split);
    part->node_device = executor_upload(x, part->node, (size_t)(part->n_own + part->n_halo) * sizeof *part->node);
    free(labels);
    free(split);
}

double executor_loss_weight(const struct executor *x)
{
    return objective_weight(x->setup.objective, x->setup.graph->n_node, n_class_of(x), x->setup.labels,
                            x->setup.split);
}
