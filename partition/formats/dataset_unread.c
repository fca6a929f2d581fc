#include "partition/formats/dataset_unread.h"

#include "partition/formats/dataset_npy_splits.h"
#include "partition/graph/links.h"
#include "protocol/base/log.h"
#include "protocol/base/mistakes.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 8 /* warnings */
#define FOR_LINKS ", with task.kind = \"link\","

/* Names of other libraries' arrays, and the names that are read instead. */
static const struct {
    const char *name, *instead;
} hints[] = {
    {"edge_index.npy", "edges.npy"},
    {"edge_list.npy", "edges.npy"},
    {"edgelist.npy", "edges.npy"},
    {"edge.npy", "edges.npy"},
    {"train_edges.npy", "edges.npy"},
    {"val_edges.npy", "valid_edges.npy" FOR_LINKS},
    {"val_edge_type.npy", "valid_edge_type.npy" FOR_LINKS},
    {"valid_edge_types.npy", "valid_edge_type.npy" FOR_LINKS},
    {"test_edge_types.npy", "test_edge_type.npy" FOR_LINKS},
    {"valid_edge.npy", "valid_edges.npy" FOR_LINKS},
    {"test_edge.npy", "test_edges.npy" FOR_LINKS},
    {"valid_edge_neg.npy", "valid_edges_negative.npy" FOR_LINKS},
    {"test_edge_neg.npy", "test_edges_negative.npy" FOR_LINKS},
    {"x.npy", "features.npy"},
    {"feat.npy", "features.npy"},
    {"node_feat.npy", "features.npy"},
    {"y.npy", "labels.npy"},
    {"label.npy", "labels.npy"},
    {"node_label.npy", "labels.npy"},
    {"train_mask.npy", "train_idx.npy"},
    {"val_mask.npy", "valid_idx.npy"},
    {"valid_mask.npy", "valid_idx.npy, or val_mask.npy"},
    {"test_mask.npy", "test_idx.npy"},
    {"val_idx.npy", "valid_idx.npy"},
    {"edge_features.npy", "edge_attr.npy"},
    {"edge_weights.npy", "edge_weight.npy"},
    {"edge_types.npy", "edge_type.npy"},
    {"node_types.npy", "node_type.npy"},
};

/* feat_t<number>.npy, or one of the three arrays of sparse features. */
static bool is_of_type(const char *name)
{
    static const char *const ends[] = {".npy", "_indptr.npy", "_indices.npy", "_data.npy"};
    const char *at = name + strlen("feat_t");
    if (strncmp(name, "feat_t", strlen("feat_t")) != 0 || strspn(at, "0123456789") == 0) {
        return false;
    }
    return name_find(ends, 4, at + strspn(at, "0123456789")) >= 0;
}

static bool is_read(const char *name)
{
    static const char *const names[] = {"edges.npy",     "indptr.npy",      "indices.npy",   "edge_type.npy",
                                        "edge_attr.npy", "edge_weight.npy", "features.npy",  "feat_indptr.npy",
                                        "feat_data.npy", "labels.npy",      "node_type.npy", "feat_indices.npy",
                                        "node_names.npy"}; /* for readers of predictions */
    return is_of_type(name) || links_file_is_negative(name) ||
           name_find(names, sizeof names / sizeof *names, name) >= 0;
}

static int is_unread(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name), n_end = strlen(".npy");
    return n > n_end && strcmp(entry->d_name + n - n_end, ".npy") == 0 && !is_read(entry->d_name);
}

/* The file that is read instead; NULL: not known. */
static const char *instead_of(const char *name)
{
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++) {
        if (strcmp(name, hints[i].name) == 0) {
            return hints[i].instead;
        }
    }
    return NULL;
}

/* Is what is read instead of nodes, which a job of links does not read? */
static bool is_of_nodes(const char *instead)
{
    return strncmp(instead, "labels", strlen("labels")) == 0 || strstr(instead, "_idx") != NULL;
}

static void warn(const char *folder, const char *name, bool links)
{
    const char *instead = instead_of(name);
    if (links && instead != NULL && is_of_nodes(instead)) {
        log_warn("ignoring %s/%s: a job of links reads neither labels nor splits of nodes", folder, name);
    } else if (links_file_is_positive(name)) {
        log_warn("ignoring %s/%s: it is read with task.kind = \"link\"", folder, name);
    } else if (links_file_is_type(name)) {
        log_warn("ignoring %s/%s: it is read with task.kind = \"link\" and a task.decoder that reads relations",
                 folder, name);
    } else if (instead != NULL) {
        log_warn("ignoring %s/%s: %s is read instead", folder, name, instead);
    } else {
        log_warn("ignoring %s/%s: not a known file of a data folder", folder, name);
    }
}

/* Is it read for links? */
static bool is_of_links(const char *name, const struct job *job)
{
    bool typed = job_scores_relations(job);
    return job_predicts_links(job) && (links_file_is_positive(name) || (typed && links_file_is_type(name)));
}

void dataset_unread_npy(const char *folder, const struct job *job)
{
    struct dirent **entry;
    int n = scandir(folder, &entry, is_unread, alphasort), n_unread = 0;
    for (int i = 0; i < n; i++) {
        const char *name = entry[i]->d_name;
        bool known = dataset_npy_splits_read(folder, name) || is_of_links(name, job);
        if (!known && n_unread++ < MOST) {
            warn(folder, name, job_predicts_links(job));
        }
        free(entry[i]);
    }
    if (n_unread > MOST) {
        log_warn("ignoring %d more arrays of %s", n_unread - MOST, folder);
    }
    if (n >= 0) {
        free(entry);
    }
}

static int is_like_graph(const struct dirent *entry)
{
    static const char *const parts[] = {"edge", "adj",  "graph", "node", "label",
                                        "feat", ".npy", ".npz",  ".pt",  ".csv"};
    bool any = instead_of(entry->d_name) != NULL;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        any = any || strcasestr(entry->d_name, parts[i]) != NULL;
    }
    return any && entry->d_name[0] != '.';
}

void dataset_unread_like(const char *folder, char out[DATASET_UNREAD_BYTES])
{
    struct dirent **entry;
    int n = scandir(folder, &entry, is_like_graph, alphasort);
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < n; i++) {
        const char *instead = instead_of(entry[i]->d_name);
        if (i < MOST && at < DATASET_UNREAD_BYTES) {
            at += (size_t)snprintf(out + at, DATASET_UNREAD_BYTES - at, "%s%.64s%s%s%s", i > 0 ? ", " : "",
                                   entry[i]->d_name, instead != NULL ? " (here it is " : "",
                                   instead != NULL ? instead : "", instead != NULL ? ")" : "");
        }
        free(entry[i]);
    }
    if (n >= 0) {
        free(entry);
    }
}
