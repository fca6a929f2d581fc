/* The order of the steps that hold edges out, and what follows from them for the dataset. */
#include "partition/files/dataset_store.h"
#include "partition/links/links_build.h"
#include "protocol/base/log.h"

#include <inttypes.h>
#include <stdio.h>

#define ALL_SPLITS ((1U << LINKS_SPLIT_N) - 1)

const char *links_split_name(enum links_split split)
{
    return split == LINKS_SPLIT_VALID ? "validation" : "test";
}

const char *links_split_file(enum links_split split)
{
    return split == LINKS_SPLIT_VALID ? "valid" : "test";
}

static void how_set(const struct job *job, const bool given[LINKS_SPLIT_N], struct links *links)
{
    size_t at = 0;
    for (int s = 0; s < LINKS_SPLIT_N && at < sizeof links->how; s++) {
        double share = s == LINKS_SPLIT_VALID ? job->task.valid_share : job->task.test_share;
        char text[64];
        if (given[s]) {
            snprintf(text, sizeof text, "%s_edges.npy", links_split_file((enum links_split)s));
        } else if (share > 0.0) {
            snprintf(text, sizeof text, "%.4g %% drawn by seed %" PRId64, 100.0 * share, job->task.seed);
        } else {
            snprintf(text, sizeof text, "no edges");
        }
        at += (size_t)snprintf(links->how + at, sizeof links->how - at, "%s%s: %s", s > 0 ? "; " : "",
                               links_split_name((enum links_split)s), text);
    }
}

/* Every node takes part in the training, and has no label. */
static enum status nodes_set(const struct job *job, struct dataset *out)
{
    size_t n = (size_t)out->n_node;
    enum status status = dataset_store_block(out->store, MEMORY_OTHER, n, sizeof *out->labels.classes,
                                             &out->labels.classes);
    if (status == STATUS_OK) {
        status = dataset_store_block(out->store, MEMORY_OTHER, n, sizeof *out->labels.split, &out->labels.split);
    }
    if (status != STATUS_OK) {
        return status;
    }
    for (size_t node = 0; node < n; node++) {
        out->labels.classes[node] = -1;
        out->labels.split[node] = DATASET_SPLIT_TRAIN;
    }
    out->labels.n_split[DATASET_SPLIT_TRAIN] = out->n_node;
    out->facts.n_class = (int32_t)(job->task.channels > 0 ? job->task.channels : job->model.hidden);
    return STATUS_OK;
}

static bool any_edge_left(const struct dataset *dataset)
{
    for (int64_t v = 0; v < dataset->n_node; v++) {
        for (int64_t i = dataset->indptr[v]; i < dataset->indptr[v + 1]; i++) {
            if (dataset->indices[i] != v) {
                return true;
            }
        }
    }
    return false;
}

/* Edges that both files have. */
static enum status shared_remark(const struct dataset *dataset)
{
    const struct links_pairs *test = &dataset->links.held[LINKS_SPLIT_TEST].positive;
    struct links_rows valid;
    enum status status = links_rows_open(dataset, 1U << LINKS_SPLIT_VALID, &valid);
    int64_t n = 0;
    for (int64_t i = 0; status == STATUS_OK && i < test->n; i++) {
        n += links_rows_has(&valid, test->end[2 * i + 1], test->end[2 * i], links_relation(test, i));
    }
    links_rows_close(&valid);
    if (n > 0) {
        log_warn("dataset '%s': of %" PRId64 " test edges %" PRId64
                 " are validation edges, too: the test metric is biased, as these edges choose the best weights",
                 dataset->name, test->n, n);
    }
    return status;
}

/* Remember which reverses of held-out edges are edges: they are taken out, too, and still known. */
static enum status mutual_note(struct dataset *out)
{
    for (int s = 0; s < LINKS_SPLIT_N; s++) {
        struct links_held *held = &out->links.held[s];
        const struct links_pairs *pairs = &held->positive;
        size_t n = (size_t)pairs->n;
        enum status status = STATUS_OK;
        if (held->is_mutual == NULL && n > 0) { /* drawn edges are there at the second time */
            status = dataset_store_block(out->store, MEMORY_OTHER, n, sizeof *held->is_mutual, &held->is_mutual);
        }
        if (status != STATUS_OK) {
            return status;
        }
        for (int64_t k = 0; k < pairs->n; k++) {
            held->is_mutual[k] = held->is_mutual[k] || links_edge_find(out, pairs->end[2 * k], pairs->end[2 * k + 1],
                                                                       links_relation(pairs, k)) >= 0;
        }
    }
    return STATUS_OK;
}

/* Take out the edges that splits hold by now. */
static enum status cut_all(struct links_rows *held, struct dataset *out)
{
    links_rows_close(held);
    enum status status = mutual_note(out);
    if (status == STATUS_OK) {
        status = links_rows_open(out, ALL_SPLITS, held);
    }
    if (status != STATUS_OK) {
        return status;
    }
    return links_cut(held, out);
}

static enum status edges_hold_out(const struct job *job, const bool given[LINKS_SPLIT_N], struct links_rows *held,
                                  struct dataset *out)
{
    int64_t n_before = out->n_edge;
    enum status status = given[LINKS_SPLIT_VALID] && given[LINKS_SPLIT_TEST] ? shared_remark(out) : STATUS_OK;
    if (status == STATUS_OK) {
        status = cut_all(held, out);
    }
    out->links.n_left_out = n_before - out->n_edge;
    if (status == STATUS_OK) {
        status = links_draw_edges(job, given, out);
    }
    if (status == STATUS_OK) {
        status = cut_all(held, out);
    }
    if (status == STATUS_OK && !any_edge_left(out)) {
        status = status_fail(STATUS_DATA,
                             "dataset '%s': has no edge left to train on, between different nodes and not held out, "
                             "expected one (%s)",
                             out->name, out->links.how);
    }
    return status;
}

enum status links_hold_out(const struct job *job, struct dataset *out)
{
    bool given[LINKS_SPLIT_N] = {false};
    struct links_rows held = {0};
    enum status status = links_files_read(job, given, out);
    how_set(job, given, &out->links);
    if (status == STATUS_OK) {
        status = edges_hold_out(job, given, &held, out);
    }
    if (status == STATUS_OK) {
        if (out->links.held[LINKS_SPLIT_VALID].positive.n + out->links.held[LINKS_SPLIT_TEST].positive.n == 0) {
            log_warn(
                "dataset '%s': no edge is held out (%s): there are no metrics, and the best weights are the last",
                out->name, out->links.how);
        }
        links_files_remark(&held, given, out);
        status = links_draw_negatives(job, &held, out);
    }
    links_rows_close(&held);
    if (status != STATUS_OK) {
        return status;
    }
    return nodes_set(job, out);
}
