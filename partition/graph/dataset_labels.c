/* Storing of labels and splits: classes or rows of several labels; training, validation and test nodes. */
#include "partition/files/dataset_store.h"
#include "partition/graph/dataset_build.h"
#include "protocol/base/log.h"
#include "protocol/base/random.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define CLASS_MOST (1 << 24) /* above it float class numbers are not exact, and logits do not fit anywhere */

static const char *const split_names[] = {"none", "train", "valid", "test", "valid and test"};

/* A class number, or -1 for no label; -2 for anything else. */
static int64_t class_at(const struct npy *npy, int64_t i)
{
    if (npy_is_integer(npy)) {
        int64_t label = npy_int(npy, i);
        return label < -1 || label >= CLASS_MOST ? -2 : label;
    }
    double label = npy_real(npy, i);
    if (isnan(label)) {
        return -1;
    }
    return label >= -1 && label < CLASS_MOST && label == floor(label) ? (int64_t)label : -2;
}

/* A large number that means "no label" elsewhere makes a class here, with empty classes below it. */
static enum status empty_classes_remark(const struct npy *npy, const struct dataset *out)
{
    uint8_t *is_used = NULL;
    int32_t n_used = 0;
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)out->facts.n_class, sizeof *is_used, &is_used);
    for (int64_t node = 0; status == STATUS_OK && node < out->n_node; node++) {
        int32_t label = out->labels.classes[node];
        n_used += label >= 0 && !is_used[label];
        is_used[label >= 0 ? label : 0] |= label >= 0;
    }
    if (status == STATUS_OK && n_used < out->facts.n_class) {
        log_warn("%s: the largest label is %" PRId32 ", which makes %" PRId32 " classes, %" PRId32
                 " of them without a node; a node without a label has -1",
                 npy->name, out->facts.n_class - 1, out->facts.n_class, out->facts.n_class - n_used);
    }
    memory_release(MEMORY_OTHER, is_used, (size_t)out->facts.n_class, sizeof *is_used);
    return status;
}

static enum status classes_set(const struct npy *npy, int64_t n_class, struct dataset *out)
{
    enum status status = dataset_store_block(out->store, MEMORY_OTHER, (size_t)out->n_node,
                                             sizeof *out->labels.classes, &out->labels.classes);
    if (status != STATUS_OK) {
        return status;
    }
    int64_t most = n_class > 0 ? n_class : CLASS_MOST, largest = -1;
    for (int64_t node = 0; node < out->n_node; node++) {
        int64_t label = class_at(npy, node);
        if (label < -1 || label >= most) {
            return status_fail(
                STATUS_DATA,
                "%s: node %" PRId64 " has label %g, expected -1 (none) or a class from 0 to %" PRId64 "%s", npy->name,
                node, npy_real(npy, node), most - 1,
                npy_real(npy, node) < -1 ? "; numbers to be predicted need train.loss = \"mse\", \"mae\" or \"huber\""
                                         : "");
        }
        out->labels.classes[node] = (int32_t)label;
        largest = label > largest ? label : largest;
    }
    if (largest < 0 && !out->predicts) {
        return status_fail(STATUS_DATA, "%s: no node has a label, expected at least one class", npy->name);
    }
    out->facts.n_class = (int32_t)(n_class > 0 ? n_class : largest + 1);
    return n_class > 0 || out->predicts ? STATUS_OK : empty_classes_remark(npy, out);
}

/* Does each node with labels have exactly one 1, and otherwise zeros? */
static bool is_one_hot(const struct dataset *out)
{
    bool is = out->facts.n_class > 1, any = false;
    for (int64_t node = 0; node < out->n_node && is; node++) {
        const float *row = out->labels.rows + node * out->facts.n_class;
        int32_t n_one = 0, n_unknown = 0;
        for (int32_t c = 0; c < out->facts.n_class; c++) {
            n_one += row[c] == 1.0f;
            n_unknown += isnan(row[c]);
        }
        is = n_unknown == out->facts.n_class || (n_unknown == 0 && n_one == 1);
        any = any || n_one == 1;
    }
    return is && any;
}

static enum status rows_set(const struct npy *npy, int64_t n_class, struct dataset *out)
{
    if (n_class > 0 && n_class != npy->shape[1]) {
        return status_fail(STATUS_DATA, "%s: has %" PRId64 " label columns, expected %" PRId64, npy->name,
                           npy->shape[1], n_class);
    }
    if (npy->shape[1] < 1 || npy->shape[1] > CLASS_MOST) {
        return status_fail(STATUS_DATA, "%s: has %" PRId64 " label columns, expected 1 to %d", npy->name,
                           npy->shape[1], CLASS_MOST);
    }
    enum status status = dataset_store_block(out->store, MEMORY_OTHER, (size_t)npy->n_value, sizeof *out->labels.rows,
                                             &out->labels.rows);
    if (status != STATUS_OK) {
        return status;
    }
    for (int64_t i = 0; i < npy->n_value; i++) {
        double label = npy_real(npy, i);
        if (label == -1) {
            label = NAN;
        }
        if (label != 0 && label != 1 && !isnan(label)) {
            return status_fail(STATUS_DATA,
                               "%s: row %" PRId64 ", column %" PRId64
                               " is %g, expected 0, 1 or %s (unknown), of several labels a node; "
                               "classes, one a node, are integers%s",
                               npy->name, i / npy->shape[1], i % npy->shape[1], label,
                               npy_is_integer(npy) ? "-1" : "NaN or -1",
                               npy_is_integer(npy) ? " in one column" : ", as labels.astype(\"int64\") makes them");
        }
        out->labels.rows[i] = (float)label;
    }
    out->facts.n_class = (int32_t)npy->shape[1];
    out->facts.multi_label = true;
    if (!out->predicts && is_one_hot(out)) {
        log_warn("%s: each row with labels has one 1, as one-hot labels have, and is taken for %" PRId32
                 " labels of a node, each 0 or 1 (train.loss = \"bce\"); one label a node is an array of [%" PRId64
                 "] integers, numpy.argmax(labels, 1)",
                 npy->name, out->facts.n_class, out->n_node);
    }
    return STATUS_OK;
}

/* Regression targets, [n_node] or [n_node, C]; NaN marks a missing one. */
static enum status numbers_set(const struct npy *npy, int64_t n_class, struct dataset *out)
{
    int64_t n_column = npy->rank == 2 ? npy->shape[1] : 1;
    enum status status = npy_expect(npy, NPY_KIND_NUMBER, npy->rank == 2 ? 2 : 1, out->n_node,
                                    npy->rank == 2 ? -1 : 0);
    if (status != STATUS_OK) {
        return status;
    }
    if (n_column < 1 || n_column > CLASS_MOST || (n_class > 0 && n_class != n_column)) {
        return status_fail(STATUS_DATA, "%s: has %" PRId64 " label columns, expected %" PRId64 "%s", npy->name,
                           n_column, n_class > 0 ? n_class : 1,
                           n_class > 0 ? ", the \"classes\" of meta.json" : " at least");
    }
    status = dataset_store_block(out->store, MEMORY_OTHER, (size_t)npy->n_value, sizeof *out->labels.rows,
                                 &out->labels.rows);
    bool any = false;
    for (int64_t i = 0; status == STATUS_OK && i < npy->n_value; i++) {
        double value = npy_real(npy, i);
        if (!(fabs(value) <= (double)FLT_MAX) && !isnan(value)) {
            return status_fail(STATUS_DATA,
                               "%s: row %" PRId64 ", column %" PRId64
                               " is %g, expected a finite float32, or NaN (none)",
                               npy->name, i / n_column, i % n_column, value);
        }
        out->labels.rows[i] = (float)value;
        any = any || !isnan(value);
    }
    if (status == STATUS_OK && !any && !out->predicts) {
        return status_fail(STATUS_DATA, "%s: no node has a label, expected at least one number", npy->name);
    }
    out->facts.n_class = (int32_t)n_column;
    out->facts.multi_label = true;
    return status;
}

enum status dataset_labels(struct npy *npy, bool real_classes, int64_t n_class, struct dataset *out)
{
    dataset_file_note(out, DATASET_CONTENT_LABELS, npy->name);
    if (out->regression) {
        enum status numbers = numbers_set(npy, n_class, out);
        npy_close(npy);
        return numbers;
    }
    bool one_column = npy->rank == 2 && npy->shape[1] == 1 && (real_classes || npy_is_integer(npy));
    enum status status = STATUS_OK;
    if (npy->rank == 2 && !one_column) {
        status = npy_expect(npy, NPY_KIND_NUMBER, 2, out->n_node, -1);
        if (status == STATUS_OK) {
            status = rows_set(npy, n_class, out);
        }
    } else if (!real_classes && !npy_is_integer(npy)) {
        status = status_fail(
            STATUS_DATA,
            "%s: holds %s, expected integers, a class for each node; numbers to be predicted need train.loss = "
            "\"mse\", \"mae\" or \"huber\"",
            npy->name, npy_type_text(npy->type));
    } else {
        status = npy_expect(npy, real_classes ? NPY_KIND_NUMBER : NPY_KIND_INTEGER, one_column ? 2 : 1, out->n_node,
                            1);
        if (status == STATUS_OK) {
            status = classes_set(npy, n_class, out);
        }
    }
    npy_close(npy);
    return status;
}

static enum status split_open(struct dataset *out)
{
    if (out->labels.split != NULL) {
        return STATUS_OK;
    }
    return dataset_store_block(out->store, MEMORY_OTHER, (size_t)out->n_node, sizeof *out->labels.split,
                               &out->labels.split);
}

enum status dataset_split_begin(const char *name, enum dataset_split split, struct dataset *out)
{
    dataset_file_note(out, (enum dataset_content)(DATASET_CONTENT_TRAIN + split - DATASET_SPLIT_TRAIN), name);
    out->labels.splits.origin = DATASET_ORIGIN_GIVEN;
    return split_open(out);
}

enum status dataset_split_node(const char *name, int64_t entry, int64_t node, enum dataset_split split,
                               struct dataset *out)
{
    if (node < 0 || node >= out->n_node) {
        return status_fail(STATUS_DATA,
                           "%s: entry %" PRId64 ": node %" PRId64 " is out of range, expected 0 to %" PRId64, name,
                           entry, node, out->n_node - 1);
    }
    enum dataset_split before = (enum dataset_split)out->labels.split[node];
    if (dataset_split_has(out->labels.split[node], split)) {
        return status_fail(STATUS_DATA, "%s: entry %" PRId64 ": node %" PRId64 " is listed twice, expected once",
                           name, entry, node);
    }
    if (before != DATASET_SPLIT_NONE && (before == DATASET_SPLIT_TRAIN || split == DATASET_SPLIT_TRAIN)) {
        return status_fail(STATUS_DATA,
                           "%s: entry %" PRId64 ": node %" PRId64
                           " is in the %s split already, expected training nodes to be in no other split",
                           name, entry, node, split_names[before]);
    }
    out->labels.split[node] = (uint8_t)(before == DATASET_SPLIT_NONE ? split : DATASET_SPLIT_VALID_TEST);
    return STATUS_OK;
}

enum status dataset_split_check(const struct npy *npy, int rank)
{
    if (npy->type == NPY_TYPE_BOOL) {
        return status_fail(STATUS_DATA, "%s: holds bool, expected node numbers (numpy.nonzero of a mask)", npy->name);
    }
    return npy_expect(npy, NPY_KIND_INTEGER, rank, -1, -1);
}

enum status dataset_split_add(const struct npy *npy, enum dataset_split split, struct dataset *out)
{
    bool is_column = npy->rank == 2 && npy->shape[1] == 1;
    enum status status = dataset_split_check(npy, is_column ? 2 : 1);
    if (status == STATUS_OK) {
        status = dataset_split_begin(npy->name, split, out);
    }
    for (int64_t i = 0; i < npy->n_value && status == STATUS_OK; i++) {
        status = dataset_split_node(npy->name, i, npy_int(npy, i), split, out);
    }
    return status;
}

/* The loss of rows of labels is a mean over the known labels. */
static double labels_known(const struct dataset *dataset, int64_t node)
{
    double n = 0.0;
    for (int32_t c = 0; c < dataset->facts.n_class; c++) {
        n += isnan(dataset->labels.rows[node * dataset->facts.n_class + c]) ? 0.0 : 1.0;
    }
    return n;
}

bool dataset_has_label(const struct dataset *dataset, int64_t node)
{
    return dataset->facts.multi_label ? labels_known(dataset, node) > 0.0
                                      : dataset->labels.classes != NULL && dataset->labels.classes[node] >= 0;
}

enum status dataset_split_finish(struct dataset *out)
{
    enum status status = split_open(out);
    if (status != STATUS_OK) {
        return status;
    }
    for (int64_t node = 0; node < out->n_node; node++) {
        for (int s = 0; s < DATASET_SPLIT_N; s++) {
            out->labels.n_split[s] += dataset_split_has(out->labels.split[node], s);
        }
        if (!out->predicts && out->labels.split[node] == DATASET_SPLIT_TRAIN && !dataset_has_label(out, node)) {
            return status_fail(STATUS_DATA, "dataset '%s': training node %" PRId64 " has no label, expected one",
                               out->name, node);
        }
        if (out->facts.multi_label && !out->predicts && out->labels.split[node] == DATASET_SPLIT_TRAIN) {
            out->labels.loss_weight += labels_known(out, node);
        }
    }
    if (!out->predicts && out->labels.n_split[DATASET_SPLIT_TRAIN] == 0) {
        return status_fail(STATUS_DATA, "dataset '%s': has no training nodes, expected at least one", out->name);
    }
    if (out->labels.n_split[DATASET_SPLIT_VALID_TEST] > 0 && !out->predicts) {
        log_warn("dataset '%s': of %" PRId64 " validation and %" PRId64 " test nodes %" PRId64
                 " are both: the test metric is biased, as these nodes choose the best weights",
                 out->name, out->labels.n_split[DATASET_SPLIT_VALID], out->labels.n_split[DATASET_SPLIT_TEST],
                 out->labels.n_split[DATASET_SPLIT_VALID_TEST]);
    }
    return STATUS_OK;
}

struct drawn {
    int32_t label;
    uint32_t draw;
    uint32_t node;
};

static int drawn_compare(const void *left, const void *right)
{
    const struct drawn *a = left, *b = right;
    if (a->label != b->label) {
        return a->label < b->label ? -1 : 1;
    }
    if (a->draw != b->draw) {
        return a->draw < b->draw ? -1 : 1;
    }
    return a->node < b->node ? -1 : a->node > b->node;
}

enum status dataset_split_draw(int64_t n_train, int64_t n_valid, uint64_t seed, struct dataset *out)
{
    struct drawn *rows;
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)out->n_node, sizeof *rows, &rows);
    if (status != STATUS_OK) {
        return status;
    }
    status = split_open(out);
    out->labels.splits = (struct dataset_splits){.origin = DATASET_ORIGIN_DRAWN, .n = 1, .seed = (int64_t)seed};
    snprintf(out->labels.splits.how, sizeof out->labels.splits.how,
             "%" PRId64 " training and %" PRId64 " validation nodes per class", n_train, n_valid);
    struct random_key key = {.seed = seed, .stream = RANDOM_STREAM_GENERATOR};
    for (int64_t node = 0; node < out->n_node; node++) {
        int32_t label = out->facts.multi_label ? 0 : out->labels.classes[node];
        rows[node] = (struct drawn){label, random_u32(&key, (uint64_t)node, 0), (uint32_t)node};
    }
    qsort(rows, (size_t)out->n_node, sizeof *rows, drawn_compare);
    int64_t place = 0;
    for (int64_t i = 0; i < out->n_node && status == STATUS_OK; i++) {
        place = i > 0 && rows[i].label == rows[i - 1].label ? place + 1 : 0;
        out->labels.split[rows[i].node] = rows[i].label < 0           ? DATASET_SPLIT_NONE
                                          : place < n_train           ? DATASET_SPLIT_TRAIN
                                          : place < n_train + n_valid ? DATASET_SPLIT_VALID
                                                                      : DATASET_SPLIT_TEST;
    }
    memory_release(MEMORY_OTHER, rows, (size_t)out->n_node, sizeof *rows);
    return status;
}
