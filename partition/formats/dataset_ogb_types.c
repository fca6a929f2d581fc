/* Format ogb, several node types: raw/relations/<head>___<relation>___<tail>/edge.csv.gz, one table per relation and
 * type.
 *
 * All edges are one stream, relation after relation, with ids converted from their types' numbers to the graph's.
 * source  Hu et al., "Open Graph Benchmark", NeurIPS 2020 (ogbn-mag)
 */
#include "partition/formats/dataset_ogb_types.h"

#include "partition/files/csv_gz.h"
#include "partition/files/csv_rows.h"
#include "partition/formats/dataset_ogb_files.h"
#include "partition/graph/node_types.h"
#include "partition/graph/relations.h"
#include "partition/graph/weights.h"
#include "protocol/base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 128

struct type {
    char name[NAME_BYTES];
    int64_t first, n_node;
};

struct relation {
    char name[NAME_BYTES];
    int head, tail;        /* types */
    int64_t first, n_edge; /* in the stream of all edges */
};

struct typed {
    const char *folder;
    int n_type, n_relation;
    struct type *type;
    struct relation *relation;
    int64_t n_node, n_edge;
    struct csv_gz *csv; /* of the relation that is being read */
    int reading;        /* -1: none */
};

bool dataset_ogb_is_typed(const char *folder)
{
    return dataset_path_exists(folder, "raw/triplet-type-list.csv.gz") ||
           dataset_path_exists(folder, "raw/relations");
}

/* Cut the next field off a line; NULL after the last one. */
static char *field_take(char **line)
{
    char *field = *line, *comma = field != NULL ? strchr(field, ',') : NULL;
    *line = comma != NULL ? comma + 1 : NULL;
    if (comma != NULL) {
        *comma = '\0';
    }
    return field;
}

static bool name_is_sane(const char *name)
{
    return name != NULL && name[0] != '\0' && name[0] != '.' && strlen(name) < NAME_BYTES &&
           strchr(name, '/') == NULL;
}

static enum status type_names(struct typed *typed, const char *path, char *line)
{
    size_t n = 1;
    for (const char *c = line; *c != '\0'; c++) {
        n += *c == ',';
    }
    if (n > NODE_TYPE_MOST) {
        return status_fail(STATUS_DATA, "%s: line 1: %zu node types, expected at most %d", path, n, NODE_TYPE_MOST);
    }
    typed->type = memory_alloc(n, sizeof *typed->type);
    for (char *name = field_take(&line); name != NULL; name = field_take(&line)) {
        if (!name_is_sane(name)) {
            return status_fail(STATUS_DATA, "%s: line 1: '%.40s' is no name of a node type, expected a folder's name",
                               path, name);
        }
        snprintf(typed->type[typed->n_type++].name, NAME_BYTES, "%s", name);
    }
    return STATUS_OK;
}

/* A line of names, a line of counts. */
static enum status types_read(struct typed *typed)
{
    struct dataset_path path = dataset_path_join(typed->folder, "raw/num-node-dict.csv.gz");
    struct csv_gz *csv;
    char *line = NULL;
    enum status status = csv_gz_open(path.text, &csv);
    if (status != STATUS_OK) {
        return status;
    }
    status = csv_gz_line(csv, &line);
    if (status == STATUS_OK) {
        status = line != NULL ? type_names(typed, path.text, line)
                              : status_fail(STATUS_DATA, "%s: is empty, expected the names of node types", path.text);
    }
    int64_t *n_node = memory_alloc((size_t)typed->n_type + 1, sizeof *n_node);
    if (status == STATUS_OK) {
        status = csv_gz_integers(csv, typed->n_type, n_node);
    }
    for (int k = 0; k < typed->n_type && status == STATUS_OK; k++) {
        if (n_node[k] < 0 || n_node[k] > UINT32_MAX) {
            status = status_fail(STATUS_DATA, "%s: line 2: %" PRId64 " nodes of type '%s', expected 0 to %" PRIu32,
                                 path.text, n_node[k], typed->type[k].name, UINT32_MAX);
        }
        typed->type[k].first = typed->n_node;
        typed->type[k].n_node = n_node[k];
        typed->n_node += n_node[k];
    }
    free(n_node);
    csv_gz_close(csv);
    if (status != STATUS_OK) {
        return status;
    }
    return dataset_nodes_check(typed->n_node, path.text);
}

static int type_find(const struct typed *typed, const char *name)
{
    for (int k = 0; k < typed->n_type; k++) {
        if (strcmp(typed->type[k].name, name) == 0) {
            return k;
        }
    }
    return -1;
}

/* A file of one relation. */
static struct dataset_path relation_path(const struct typed *typed, const struct relation *relation, const char *file)
{
    char name[4 * NAME_BYTES];
    snprintf(name, sizeof name, "raw/relations/%s___%s___%s/%s", typed->type[relation->head].name, relation->name,
             typed->type[relation->tail].name, file);
    return dataset_path_join(typed->folder, name);
}

/* One line head,relation,tail and the count beside its edges. */
static enum status relation_read(struct typed *typed, const char *path, char *line, struct relation *out)
{
    const char *head = field_take(&line), *name = field_take(&line), *tail = field_take(&line);
    if (line != NULL || !name_is_sane(head) || !name_is_sane(name) || !name_is_sane(tail)) {
        return status_fail(STATUS_DATA, "%s: line %d: expected head,relation,tail", path, typed->n_relation + 1);
    }
    out->head = type_find(typed, head);
    out->tail = type_find(typed, tail);
    if (out->head < 0 || out->tail < 0) {
        return status_fail(STATUS_DATA, "%s: line %d: '%s' is no node type, expected one of raw/num-node-dict.csv.gz",
                           path, typed->n_relation + 1, out->head < 0 ? head : tail);
    }
    snprintf(out->name, sizeof out->name, "%s", name);
    out->first = typed->n_edge;
    const struct dataset_path count = relation_path(typed, out, "num-edge-list.csv.gz");
    enum status status = dataset_ogb_count(count.text, &out->n_edge);
    return status == STATUS_OK && out->n_edge == 0
               ? dataset_ogb_agree(count.text, 1, 0, "edges", relation_path(typed, out, "edge.csv.gz").text)
               : status;
}

static enum status relations_read(struct typed *typed)
{
    struct dataset_path path = dataset_path_join(typed->folder, "raw/triplet-type-list.csv.gz");
    struct csv_gz *csv;
    char *line = NULL;
    enum status status = csv_gz_open(path.text, &csv);
    if (status != STATUS_OK) {
        return status;
    }
    while ((status = csv_gz_line(csv, &line)) == STATUS_OK && line != NULL) {
        if (typed->n_relation == RELATION_MOST) {
            status = status_fail(STATUS_DATA, "%s: has more than %d lines, expected a relation each", path.text,
                                 RELATION_MOST);
            break;
        }
        typed->relation = memory_list_grow(typed->relation, typed->n_relation, sizeof *typed->relation);
        struct relation *relation = &typed->relation[typed->n_relation];
        status = relation_read(typed, path.text, line, relation);
        if (status != STATUS_OK) {
            break;
        }
        typed->n_edge += relation->n_edge;
        typed->n_relation++;
    }
    csv_gz_close(csv);
    if (status == STATUS_OK && typed->n_relation == 0) {
        status = status_fail(STATUS_DATA, "%s: is empty, expected a line for each relation", path.text);
    }
    return status;
}

static int relation_of(const struct typed *typed, int64_t edge)
{
    int low = 0, high = typed->n_relation - 1;
    while (low < high) {
        int middle = low + (high - low + 1) / 2;
        if (typed->relation[middle].first <= edge) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

static int64_t type_of_edge(const void *self, int64_t edge)
{
    return relation_of(self, edge);
}

/* Close the table being read, which must be at its end. */
static enum status table_leave(struct typed *typed)
{
    char *line = NULL;
    enum status status = typed->csv != NULL ? csv_gz_line(typed->csv, &line) : STATUS_OK;
    if (status == STATUS_OK && line != NULL) {
        const struct relation *relation = &typed->relation[typed->reading];
        status = status_fail(STATUS_DATA, "%s: goes on after line %" PRId64 ", expected that many edges",
                             relation_path(typed, relation, "edge.csv.gz").text, relation->n_edge);
    }
    csv_gz_close(typed->csv);
    typed->csv = NULL;
    typed->reading = -1;
    return status;
}

static enum status table_enter(struct typed *typed, int relation)
{
    enum status status = table_leave(typed);
    if (status == STATUS_OK) {
        status = csv_gz_open(relation_path(typed, &typed->relation[relation], "edge.csv.gz").text, &typed->csv);
        typed->reading = relation;
    }
    return status;
}

static enum status edges_read(void *self, int64_t first, int64_t n, int64_t *source, int64_t *destination)
{
    struct typed *typed = self;
    enum status status = STATUS_OK;
    if (first == 0) {
        csv_gz_close(typed->csv);
        typed->csv = NULL;
    }
    for (int64_t i = 0; i < n && status == STATUS_OK; i++) {
        int64_t edge = first + i, pair[2];
        int r = typed->csv != NULL ? typed->reading : relation_of(typed, edge);
        const struct relation *relation = &typed->relation[r];
        if (typed->csv == NULL || edge >= relation->first + relation->n_edge) {
            r = relation_of(typed, edge);
            relation = &typed->relation[r];
            status = table_enter(typed, r);
        }
        if (status == STATUS_OK) {
            status = csv_gz_integers(typed->csv, 2, pair);
        }
        const struct type *ends[2] = {&typed->type[relation->head], &typed->type[relation->tail]};
        for (int k = 0; k < 2 && status == STATUS_OK; k++) {
            if (pair[k] < 0 || pair[k] >= ends[k]->n_node) {
                status = status_fail(STATUS_DATA,
                                     "%s: line %" PRId64 ": node %" PRId64 " is out of range, expected 0 to %" PRId64
                                     ", the nodes of type '%s'",
                                     relation_path(typed, relation, "edge.csv.gz").text, edge - relation->first + 1,
                                     pair[k], ends[k]->n_node - 1, ends[k]->name);
            }
        }
        if (status == STATUS_OK) {
            source[i] = ends[0]->first + pair[0];
            destination[i] = ends[1]->first + pair[1];
        }
    }
    return status;
}

static enum status graph_build(const struct job *job, struct typed *typed, struct dataset *out)
{
    struct dataset_path path = dataset_path_join(typed->folder, "raw/triplet-type-list.csv.gz");
    struct edge_source source = {.file = path.text,
                                 .unit = "edge",
                                 .n_edge = typed->n_edge,
                                 .self = typed,
                                 .read = edges_read,
                                 .type = type_of_edge,
                                 .type_self = typed,
                                 .type_file = path.text,
                                 .n_relation = typed->n_relation};
    out->n_node = typed->n_node;
    bool use;
    enum status status = weights_choose(job, dataset_path_join(typed->folder, "raw/edge_weight.csv.gz").text, false,
                                        &use);
    if (status == STATUS_OK) {
        status = dataset_graph_build(job, &source, false, out);
    }
    if (status != STATUS_OK) {
        return status;
    }
    return table_leave(typed);
}

/* "folder/what/type/file" */
static struct dataset_path type_path(const struct typed *typed, const char *what, int k, const char *file)
{
    char name[NAME_BYTES + 128];
    snprintf(name, sizeof name, "%s/%s/%s", what, typed->type[k].name, file);
    return dataset_path_join(typed->folder, name);
}

/* Compare the counts of nodes with tables, for types that have tables. */
static enum status types_agree(const struct typed *typed)
{
    struct dataset_path path = dataset_path_join(typed->folder, "raw/num-node-dict.csv.gz");
    enum status status = STATUS_OK;
    for (int k = 0; k < typed->n_type && status == STATUS_OK; k++) {
        struct dataset_path table = type_path(typed, "raw/node-label", k, "node-label.csv.gz");
        if (!npy_exists(table.text)) {
            table = type_path(typed, "raw/node-feat", k, "node-feat.csv.gz");
        }
        if (npy_exists(table.text)) {
            char what[NAME_BYTES + 32];
            snprintf(what, sizeof what, "nodes of type '%s'", typed->type[k].name);
            status = dataset_ogb_agree(path.text, 2, typed->type[k].n_node, what, table.text);
        }
    }
    return status;
}

static enum status features_fill(const struct job *job, const struct typed *typed, struct node_types *types,
                                 struct dataset *out)
{
    enum status status = STATUS_OK;
    struct csv_rows *tables = memory_alloc((size_t)types->n_type, sizeof *tables);
    for (int k = 0; k < types->n_type && status == STATUS_OK; k++) {
        struct dataset_path path = type_path(typed, "raw/node-feat", k, "node-feat.csv.gz");
        if (!npy_exists(path.text)) {
            continue;
        }
        status = csv_rows_open(&path, typed->type[k].n_node, &tables[k]);
        if (status == STATUS_OK) {
            const struct node_rows rows = {csv_rows_read, &tables[k], tables[k].path.text};
            node_types_rows(types, k, &rows, tables[k].n_column);
        }
    }
    if (status == STATUS_OK) {
        status = node_types_features(job, types, out);
    }
    for (int k = 0; k < types->n_type; k++) {
        csv_rows_close(&tables[k]);
    }
    free(tables);
    return status;
}

static enum status features_build(const struct job *job, const struct typed *typed, struct dataset *out)
{
    struct dataset_path path = dataset_path_join(typed->folder, "raw/num-node-dict.csv.gz");
    struct npy of_node = {0};
    struct node_types types = {0};
    enum status status = npy_block(path.text, NPY_TYPE_U16, typed->n_node, 0, &of_node);
    for (int k = 0; k < typed->n_type && status == STATUS_OK; k++) {
        for (int64_t v = 0; v < typed->type[k].n_node; v++) {
            ((uint16_t *)of_node.map)[typed->type[k].first + v] = (uint16_t)k;
        }
    }
    if (status == STATUS_OK) {
        status = node_types_open(&of_node, typed->n_node, &types);
    }
    if (status == STATUS_OK) {
        status = features_fill(job, typed, &types, out);
    }
    node_types_close(&types);
    npy_close(&of_node);
    return status;
}

/* The one type with labels; *out is its number. */
static enum status labelled_find(const struct typed *typed, int *out)
{
    int n_found = 0;
    for (int k = 0; k < typed->n_type; k++) {
        struct dataset_path path = type_path(typed, "raw/node-label", k, "node-label.csv.gz");
        if (npy_exists(path.text)) {
            n_found++;
            *out = k;
        }
    }
    return n_found == 1 ? STATUS_OK
                        : status_fail(n_found == 0 ? STATUS_NO_INPUT : STATUS_DATA,
                                      "%s/raw/node-label: %d node types have node-label.csv.gz, expected one",
                                      typed->folder, n_found);
}

/* The labels of that type among those of all nodes: other types have no labels. */
static enum status labels_build(const struct typed *typed, int k, struct dataset *out)
{
    struct dataset_path path = type_path(typed, "raw/node-label", k, "node-label.csv.gz");
    struct npy table = {0}, all = {0};
    enum status status = csv_gz_table(path.text, NPY_TYPE_F32, typed->type[k].n_node, &table);
    if (status == STATUS_OK) {
        status = npy_block(path.text, NPY_TYPE_F32, typed->n_node, table.shape[1], &all);
    }
    if (status == STATUS_OK) {
        float *rows = all.map;
        for (int64_t i = 0; i < all.n_value; i++) {
            rows[i] = NAN;
        }
        memcpy(rows + typed->type[k].first * table.shape[1], table.data, (size_t)table.n_value * sizeof *rows);
        status = dataset_labels(&all, true, 0, out);
    }
    npy_close(&all);
    npy_close(&table);
    return status;
}

static enum status split_load(const struct typed *typed, int k, const char *file, enum dataset_split split,
                              struct dataset *out)
{
    char name[NAME_BYTES + 32];
    struct dataset_path splits;
    snprintf(name, sizeof name, "%s/train.csv.gz", typed->type[k].name);
    enum status status = dataset_ogb_split_folder(typed->folder, name, &splits);
    if (status != STATUS_OK) {
        return status;
    }
    snprintf(name, sizeof name, "%s/%s", typed->type[k].name, file);
    struct dataset_path path = dataset_path_join(splits.text, name);
    struct npy nodes;
    status = csv_gz_table(path.text, NPY_TYPE_I64, -1, &nodes);
    if (status != STATUS_OK) {
        return status;
    }
    int64_t *node = nodes.map;
    for (int64_t i = 0; i < nodes.n_value && status == STATUS_OK; i++) {
        if (node[i] < 0 || node[i] >= typed->type[k].n_node) {
            status = status_fail(STATUS_DATA,
                                 "%s: entry %" PRId64 ": node %" PRId64 " is out of range, expected 0 to %" PRId64
                                 ", the nodes of type '%s'",
                                 path.text, i, node[i], typed->type[k].n_node - 1, typed->type[k].name);
        }
        node[i] += typed->type[k].first;
    }
    if (status == STATUS_OK) {
        status = dataset_split_add(&nodes, split, out);
    }
    npy_close(&nodes);
    return status;
}

static enum status labelled_load(const struct typed *typed, struct dataset *out)
{
    static const char *const files[] = {"train.csv.gz", "valid.csv.gz", "test.csv.gz"};
    int k = 0;
    if (out->of_links) {
        return STATUS_OK;
    }
    if (out->predicts && !dataset_path_exists(typed->folder, "raw/node-label")) {
        return dataset_split_finish(out);
    }
    enum status status = labelled_find(typed, &k);
    if (status == STATUS_OK) {
        status = labels_build(typed, k, out);
    }
    bool has_splits = !out->predicts || dataset_path_exists(typed->folder, "split");
    for (int s = 0; s < 3 && has_splits && status == STATUS_OK; s++) {
        status = split_load(typed, k, files[s], (enum dataset_split)(DATASET_SPLIT_TRAIN + s), out);
    }
    if (status != STATUS_OK) {
        return status;
    }
    return dataset_split_finish(out);
}

enum status dataset_ogb_typed_load(const struct job *job, const char *folder, struct dataset *out)
{
    struct typed typed = {.folder = folder, .reading = -1};
    enum status status = types_read(&typed);
    if (status == STATUS_OK) {
        status = types_agree(&typed);
    }
    if (status == STATUS_OK) {
        status = relations_read(&typed);
    }
    if (status == STATUS_OK) {
        status = graph_build(job, &typed, out);
    }
    if (status == STATUS_OK && !job_makes_features(job)) {
        status = features_build(job, &typed, out);
    }
    if (status == STATUS_OK) {
        status = labelled_load(&typed, out);
    }
    csv_gz_close(typed.csv);
    free(typed.relation);
    free(typed.type);
    return status;
}
