/* A dataset for predictions: its features, relations and labels compared with the model's. */
#include "partition/files/dataset_store.h"
#include "partition/graph/dataset.h"
#include "partition/graph/dataset_build.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static enum status features_check(const struct dataset *dataset, const struct dataset_model *model)
{
    const struct {
        const char *what;
        int64_t n, expected;
        const char *where;
    } rows[] = {{"feature columns", dataset->facts.n_feature, model->n_feature, ""},
                {"feature columns of edges", dataset->facts.n_edge_feature, model->n_edge_feature, ""},
                {"relations", dataset->facts.n_relation, model->n_relation,
                 " (\"relations\" in meta.json says how many there are)"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].n != rows[i].expected) {
            return status_fail(STATUS_DATA,
                               "dataset '%s' has %" PRId64 " %s, expected %" PRId64
                               ", as many as the model in '%s' was trained with%s",
                               dataset->name, rows[i].n, rows[i].what, rows[i].expected, model->folder,
                               rows[i].where);
        }
    }
    return STATUS_OK;
}

/* Weights that belong to single nodes have no meaning on another graph. A model of links was trained without the
 * edges that were held out: its nodes are the same, and their edges are not. */
static enum status embeddings_check(const struct dataset *dataset, const struct dataset_model *model)
{
    char graph[33];
    int64_t n = dataset->features.embedded.n_run > 0 ? embedded_count(&dataset->features.embedded) : 0;
    if (n == 0 && model->n_embedded == 0) {
        return STATUS_OK;
    }
    if (model->of_links) {
        return n == model->n_embedded
                   ? STATUS_OK
                   : status_fail(STATUS_DATA,
                                 "dataset '%s' has %" PRId64 " nodes with embeddings, expected the %" PRId64
                                 " that the model in '%s' was trained with",
                                 dataset->name, n, model->n_embedded, model->folder);
    }
    dataset_fingerprint(dataset, true, graph);
    if (n == model->n_embedded && strcmp(graph, model->graph) == 0) {
        return STATUS_OK;
    }
    return status_fail(
        STATUS_DATA,
        "dataset '%s' is another graph than the model in '%s' was trained on, and the model has embeddings of "
        "%" PRId64 " nodes of that graph: expected the same graph",
        dataset->name, model->folder, model->n_embedded);
}

static enum status labels_make(struct dataset *dataset, const struct dataset_model *model)
{
    size_t n = (size_t)dataset->n_node;
    enum status status;
    dataset->facts.multi_label = model->multi_label || model->regression;
    if (!dataset->facts.multi_label) {
        status = dataset_store_block(dataset->store, MEMORY_OTHER, n, sizeof *dataset->labels.classes,
                                     &dataset->labels.classes);
        for (size_t i = 0; status == STATUS_OK && i < n; i++) {
            dataset->labels.classes[i] = -1;
        }
        return status;
    }
    n *= (size_t)model->n_class;
    status = dataset_store_block(dataset->store, MEMORY_OTHER, n, sizeof *dataset->labels.rows,
                                 &dataset->labels.rows);
    for (size_t i = 0; status == STATUS_OK && i < n; i++) {
        dataset->labels.rows[i] = NAN;
    }
    return status;
}

static enum status labels_check(const struct dataset *dataset, const struct dataset_model *model)
{
    const bool rows = model->multi_label || model->regression;
    if (dataset->facts.multi_label != rows) {
        return status_fail(STATUS_DATA, "dataset '%s' has %s, and the model in '%s' was trained for %s",
                           dataset->name,
                           dataset->facts.multi_label ? "several labels per node" : "one label per node",
                           model->folder, model->multi_label ? "several" : "one");
    }
    if (dataset->facts.multi_label && dataset->facts.n_class != model->n_class) {
        return status_fail(STATUS_DATA,
                           "dataset '%s' has %" PRId32 " label columns, expected the %" PRId32
                           " %sof the model in '%s'",
                           dataset->name, dataset->facts.n_class, model->n_class, model->regression ? "outputs " : "",
                           model->folder);
    }
    for (int64_t node = 0; !dataset->facts.multi_label && node < dataset->n_node; node++) {
        if (dataset->labels.classes[node] >= model->n_class) {
            return status_fail(STATUS_DATA,
                               "dataset '%s': node %" PRId64 " has label %" PRId32 ", expected one of the %" PRId32
                               " classes of the model in '%s'",
                               dataset->name, node, dataset->labels.classes[node], model->n_class, model->folder);
        }
    }
    return STATUS_OK;
}

/* A model with labels as input needs those of the training nodes. */
static enum status label_input_check(const struct dataset *dataset, const struct dataset_model *model)
{
    bool any = false;
    for (int64_t node = 0; model->label_input && node < dataset->n_node; node++) {
        if (dataset->labels.split[node] != DATASET_SPLIT_TRAIN) {
            continue;
        }
        any = true;
        if (!dataset_has_label(dataset, node)) {
            return status_fail(
                STATUS_DATA,
                "dataset '%s': training node %" PRId64
                " has no label, expected one: the model in '%s' takes them as input (model.label_input)",
                dataset->name, node, model->folder);
        }
    }
    return any || !model->label_input ? STATUS_OK
                                      : status_fail(STATUS_DATA,
                                                    "dataset '%s' has no training nodes, expected some with their "
                                                    "labels: the model in '%s' takes these "
                                                    "as input (model.label_input)",
                                                    dataset->name, model->folder);
}

/* Both store classes as numbers: another order of the names would change their meaning. */
static enum status names_check(const struct dataset *dataset, const struct dataset_model *model)
{
    if (dataset->labels.class_names == NULL || model->class_names == NULL ||
        strcmp(dataset->labels.class_names, model->class_names) == 0) {
        return STATUS_OK;
    }
    return status_fail(
        STATUS_DATA,
        "dataset '%s': class_names.json has %.200s, expected %.200s as in the training of the model in '%s'",
        dataset->name, dataset->labels.class_names, model->class_names, model->folder);
}

enum status dataset_fit_model(struct dataset *dataset, const struct dataset_model *model)
{
    bool has_labels = dataset->labels.classes != NULL || dataset->labels.rows != NULL;
    enum status status = features_check(dataset, model);
    if (status == STATUS_OK) {
        status = embeddings_check(dataset, model);
    }
    if (status == STATUS_OK) {
        status = names_check(dataset, model);
    }
    if (status == STATUS_OK && has_labels) {
        status = labels_check(dataset, model);
    }
    if (status == STATUS_OK && !has_labels) {
        status = labels_make(dataset, model);
    }
    dataset->facts.n_class = model->n_class;
    dataset->labels.class_names = model->class_names != NULL ? (char *)model->class_names
                                                             : dataset->labels.class_names;
    if (status != STATUS_OK) {
        return status;
    }
    return label_input_check(dataset, model);
}
