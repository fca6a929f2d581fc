/* See dataset_npy_types.h. Finds the arrays; node_types.c checks and combines them. */
#include "partition/formats/dataset_npy_types.h"

#include "partition/files/dataset_path.h"
#include "partition/graph/node_types.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The type in a file's name: feat_t<k>.npy, feat_t<k>_….npy; -1 for any other name. */
static int64_t type_of_name(const char *name)
{
    int64_t k = -1;
    int end = 0;
    if (sscanf(name, "feat_t%9" SCNd64 "%n", &k, &end) < 1 || k < 0 || (name[end] != '.' && name[end] != '_')) {
        return -1;
    }
    return k;
}

/* The name of some file of features of a type from `least` on; "" for none. */
static enum status type_from(const char *folder, int64_t least, char *name_out, size_t room)
{
    DIR *directory = opendir(folder);
    name_out[0] = '\0';
    if (directory == NULL) {
        return status_fail(STATUS_IO, "%s: %s", folder, strerror(errno));
    }
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        if (type_of_name(entry->d_name) >= least) {
            snprintf(name_out, room, "%s", entry->d_name);
        }
    }
    closedir(directory);
    return STATUS_OK;
}

bool dataset_npy_is_typed(const char *folder)
{
    return dataset_path_exists(folder, "node_type.npy") || dataset_path_exists(folder, "edge_type.npy") ||
           dataset_path_exists(folder, "feat_t0.npy") || dataset_path_exists(folder, "feat_t0_indptr.npy");
}

static enum status open_part(const char *folder, int64_t k, const char *part, struct npy *out)
{
    char name[64];
    snprintf(name, sizeof name, "feat_t%" PRId64 "%s.npy", k, part);
    struct dataset_path path = dataset_path_join(folder, name);
    return npy_open(path.text, out);
}

static bool has_part(const char *folder, int64_t k, const char *part)
{
    char name[64];
    snprintf(name, sizeof name, "feat_t%" PRId64 "%s.npy", k, part);
    return dataset_path_exists(folder, name);
}

static enum status sparse_load(const char *folder, const struct dataset_meta *meta, int64_t k,
                               struct node_types *types)
{
    struct csr rows = {0};
    enum status status = open_part(folder, k, "_indptr", &rows.indptr);
    if (status == STATUS_OK) {
        status = open_part(folder, k, "_indices", &rows.indices);
    }
    if (status == STATUS_OK) {
        status = open_part(folder, k, "_data", &rows.data);
    }
    if (status == STATUS_OK) {
        status = dataset_meta_type_features(meta, k, &rows.n_column);
    }
    if (status == STATUS_OK) {
        status = node_types_sparse(types, k, &rows);
    }
    csr_release(&rows);
    return status;
}

static enum status type_load(const char *folder, const struct dataset_meta *meta, int64_t k, struct node_types *types)
{
    if (!has_part(folder, k, "")) {
        return has_part(folder, k, "_indptr") ? sparse_load(folder, meta, k, types) : STATUS_OK;
    }
    struct npy dense = {0};
    enum status status = open_part(folder, k, "", &dense);
    if (status != STATUS_OK) {
        return status;
    }
    return node_types_dense(types, k, &dense);
}

static enum status types_load(const struct job *job, const char *folder, const struct dataset_meta *meta,
                              struct node_types *types, struct dataset *out)
{
    char stray[300];
    enum status status = type_from(folder, types->of_node != NULL ? types->n_type : 0, stray, sizeof stray);
    if (status == STATUS_OK && stray[0] != '\0' && types->of_node == NULL) {
        return status_fail(STATUS_NO_INPUT, "%s/node_type.npy: no such file, expected the types of nodes beside %s",
                           folder, stray);
    }
    if (status == STATUS_OK && stray[0] != '\0') {
        return status_fail(STATUS_DATA, "%s/%s: %s has no node of that type, expected types 0 to %" PRId64, folder,
                           stray, types->of_node->name, types->n_type - 1);
    }
    for (int64_t k = 0; k < types->n_type && status == STATUS_OK; k++) {
        status = type_load(folder, meta, k, types);
    }
    if (status != STATUS_OK) {
        return status;
    }
    return node_types_features(job, types, out);
}

/* The types of nodes, all 0 in a folder without node types; of_node stays open while they are used. */
static enum status types_open(const char *folder, int64_t n_node, struct npy *of_node, struct node_types *out)
{
    bool typed = dataset_path_exists(folder, "node_type.npy");
    struct dataset_path path = dataset_path_join(folder, "node_type.npy");
    enum status status = typed ? npy_open(path.text, of_node) : STATUS_OK;
    if (status != STATUS_OK) {
        return status;
    }
    return node_types_open(typed ? of_node : NULL, n_node, out);
}

enum status dataset_npy_types_load(const struct job *job, const char *folder, const struct dataset_meta *meta,
                                   struct dataset *out)
{
    struct npy of_node = {0};
    struct node_types types = {0};
    enum status status = types_open(folder, out->n_node, &of_node, &types);
    if (status == STATUS_OK) {
        status = types_load(job, folder, meta, &types, out);
    }
    node_types_close(&types);
    npy_close(&of_node);
    return status;
}

enum status dataset_npy_types_check(const char *folder, int64_t n_node)
{
    struct npy of_node = {0};
    struct node_types types = {0};
    enum status status = types_open(folder, n_node, &of_node, &types);
    node_types_close(&types);
    npy_close(&of_node);
    return status;
}
