/* Files of held-out edges, and of what they are ranked among. Ends of pairs are checked here, and not whether they
 * are edges of the graph. */
#include "partition/files/dataset_path.h"
#include "partition/files/dataset_store.h"
#include "partition/graph/dataset_build.h"
#include "partition/graph/dataset_edges.h"
#include "partition/links/links_build.h"
#include "partition/rows/row_pairs.h"
#include "protocol/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define POSITIVE "edges"
#define TYPES "edge_type"
#define POOL "edges_negative"
#define TAILS "tails_negative"

static struct dataset_path path_of(const char *folder, int split, const char *kind)
{
    char name[LINKS_FILE_BYTES];
    snprintf(name, sizeof name, "%s_%s.npy", links_split_file((enum links_split)split), kind);
    return dataset_path_join(folder, name);
}

static bool is_named(const char *name, const char *kind)
{
    bool any = false;
    for (int s = 0; s < LINKS_SPLIT_N; s++) {
        char file[LINKS_FILE_BYTES];
        snprintf(file, sizeof file, "%s_%s.npy", links_split_file((enum links_split)s), kind);
        any = any || strcmp(name, file) == 0;
    }
    return any;
}

bool links_file_is_positive(const char *name)
{
    return is_named(name, POSITIVE);
}

bool links_file_is_type(const char *name)
{
    return is_named(name, TYPES);
}

bool links_file_is_negative(const char *name)
{
    return is_named(name, POOL) || is_named(name, TAILS);
}

enum status links_node_check(const char *file, const char *place, int64_t at, const char *end, int64_t node,
                             const struct dataset *dataset)
{
    if (node >= 0 && node < dataset->n_node) {
        return STATUS_OK;
    }
    return status_fail(STATUS_DATA,
                       "%s: %s %" PRId64 ": %s %" PRId64 " is out of range, expected 0 to %" PRId64 ", the nodes",
                       file, place, at, end, node, dataset->n_node - 1);
}

enum status links_relation_check(const char *file, const char *place, int64_t at, int64_t relation,
                                 int32_t n_relation)
{
    if (relation >= 0 && relation < n_relation) {
        return STATUS_OK;
    }
    return status_fail(STATUS_DATA,
                       "%s: %s %" PRId64 ": relation %" PRId64 " is out of range, expected 0 to %" PRId32
                       ", the relations of the edges without inverse ones",
                       file, place, at, relation, n_relation - 1);
}

enum status links_pairs_copy(const struct npy *npy, bool are_edges, struct links_pairs *to,
                             const struct dataset *dataset)
{
    for (int64_t i = 0; i < to->n; i++) {
        int64_t head = npy_int(npy, i), tail = npy_int(npy, to->n + i);
        enum status status = links_node_check(npy->name, "column", i, "head", head, dataset);
        if (status == STATUS_OK) {
            status = links_node_check(npy->name, "column", i, "tail", tail, dataset);
        }
        if (status != STATUS_OK) {
            return status;
        }
        if (are_edges && head == tail) {
            return status_fail(STATUS_DATA,
                               "%s: column %" PRId64 ": joins node %" PRId64
                               " with itself, expected two nodes: self loops are not predicted",
                               npy->name, i, head);
        }
        to->end[2 * i] = (uint32_t)head;
        to->end[2 * i + 1] = (uint32_t)tail;
    }
    return STATUS_OK;
}

/* Pairs [2, n]; of edges, each joins two nodes. */
static enum status pairs_read(const char *path, int split, bool are_edges, struct dataset *out)
{
    struct links_held *held = &out->links.held[split];
    struct links_pairs *to = are_edges ? &held->positive : &held->negative;
    struct npy npy;
    struct edge_source source;
    enum status status = npy_open(path, &npy);
    if (status != STATUS_OK) {
        return status;
    }
    if (are_edges) {
        dataset_file_note(out, (enum dataset_content)(DATASET_CONTENT_VALID + split), npy.name);
    }
    status = edge_source_list(&npy, &source);
    if (status == STATUS_OK) {
        to->n = source.n_edge;
        status = dataset_store_block(out->store, MEMORY_OTHER, 2 * (size_t)to->n, sizeof *to->end, &to->end);
    }
    if (status == STATUS_OK) {
        status = links_pairs_copy(&npy, are_edges, to, out);
    }
    npy_close(&npy);
    return status;
}

/* Relations [n] of n edges. */
static enum status relations_read(const char *path, const char *positive, struct links_pairs *to, struct dataset *out)
{
    struct npy npy;
    enum status status = npy_open(path, &npy);
    if (status != STATUS_OK) {
        return status_fail(status,
                           "%s; expected the relation of each edge of %s, which task.decoder "
                           "reads",
                           status_reason(), positive);
    }
    status = npy_expect(&npy, NPY_KIND_INTEGER, 1, to->n, 0);
    if (status == STATUS_OK) {
        status = dataset_store_block(out->store, MEMORY_OTHER, (size_t)to->n, sizeof *to->relation, &to->relation);
    }
    for (int64_t i = 0; i < to->n && status == STATUS_OK; i++) {
        status = links_relation_check(npy.name, "position", i, npy_int(&npy, i), out->links.n_relation);
        to->relation[i] = (uint16_t)npy_int(&npy, i);
    }
    npy_close(&npy);
    return status;
}

static enum status tails_copy(const struct npy *npy, struct links_held *held, const struct dataset *dataset)
{
    for (int64_t i = 0; i < npy->n_value; i++) {
        int64_t tail = npy_int(npy, i);
        enum status status = links_node_check(npy->name, "row", i / held->n_tail, "tail", tail, dataset);
        if (status != STATUS_OK) {
            return status;
        }
        held->tail[i] = (uint32_t)tail;
    }
    return STATUS_OK;
}

/* Tails [n, k] for the heads of n edges. */
static enum status tails_read(const char *path, const char *positive, struct links_held *held, struct dataset *out)
{
    struct npy npy;
    enum status status = npy_open(path, &npy);
    if (status != STATUS_OK) {
        return status;
    }
    status = npy_expect(&npy, NPY_KIND_INTEGER, 2, -1, -1);
    if (status == STATUS_OK && (npy.shape[0] != held->positive.n || npy.shape[1] < 1)) {
        status = status_fail(STATUS_DATA,
                             "%s: has shape [%" PRId64 ", %" PRId64 "], expected [%" PRId64
                             ", one or more], tails for each edge of %s",
                             npy.name, npy.shape[0], npy.shape[1], held->positive.n, positive);
    }
    if (status == STATUS_OK) {
        held->n_tail = npy.shape[1];
        status = dataset_store_block(out->store, MEMORY_OTHER, (size_t)npy.n_value, sizeof *held->tail, &held->tail);
    }
    if (status == STATUS_OK) {
        status = tails_copy(&npy, held, out);
    }
    npy_close(&npy);
    return status;
}

static enum status split_read(const char *folder, int split, bool *sent_out, struct dataset *out)
{
    struct links_held *held = &out->links.held[split];
    const struct dataset_path positive = path_of(folder, split, POSITIVE), types = path_of(folder, split, TYPES),
                              pool = path_of(folder, split, POOL), tails = path_of(folder, split, TAILS);
    bool typed = out->links.n_relation > 0;
    bool has_pool = npy_exists(pool.text), has_tails = npy_exists(tails.text);
    *sent_out = npy_exists(positive.text);
    if (!*sent_out && typed && npy_exists(types.text)) {
        return status_fail(STATUS_NO_INPUT, "%s: no such file, expected the edges that %s has the relations of",
                           positive.text, types.text);
    }
    if (!*sent_out) {
        return has_pool || has_tails
                   ? status_fail(STATUS_NO_INPUT, "%s: no such file, expected the edges that %s are compared with",
                                 positive.text, has_pool ? pool.text : tails.text)
                   : STATUS_OK;
    }
    if (has_pool && has_tails) {
        return status_fail(STATUS_DATA, "%s and %s are both there, expected one of them", pool.text, tails.text);
    }
    if (has_pool && typed) {
        return status_fail(STATUS_DATA,
                           "%s: pairs for all edges have no relation, and task.decoder reads one: "
                           "expected %s, or no file",
                           pool.text, tails.text);
    }
    enum status status = pairs_read(positive.text, split, true, out);
    if (status == STATUS_OK && typed) {
        held->one_way = true;
        status = relations_read(types.text, positive.text, &held->positive, out);
    }
    if (status == STATUS_OK && has_pool) {
        status = pairs_read(pool.text, split, false, out);
    }
    if (status == STATUS_OK && has_pool && held->negative.n == 0 && held->positive.n > 0) {
        status = status_fail(STATUS_DATA, "%s: has no pairs, expected one at least", pool.text);
    }
    if (status != STATUS_OK || !has_tails) {
        return status;
    }
    return tails_read(tails.text, positive.text, held, out);
}

enum status links_files_read(const struct job *job, bool given[LINKS_SPLIT_N], struct dataset *out)
{
    const char *folder = job->dataset.path;
    struct stat info;
    enum status status = STATUS_OK;
    if (job->dataset.generator != JOB_GENERATOR_NONE || stat(folder, &info) != 0 || !S_ISDIR(info.st_mode)) {
        return STATUS_OK;
    }
    for (int s = 0; s < LINKS_SPLIT_N && status == STATUS_OK; s++) {
        status = split_read(folder, s, &given[s], out);
    }
    return status;
}

/* Negatives of a file that are edges; *n_out: of how many. */
static int64_t false_count(const struct links_held *of, const struct links_rows *held, const struct dataset *dataset,
                           int64_t *n_out)
{
    int64_t n_false = 0, n = of->tail != NULL ? of->positive.n * of->n_tail : of->negative.n;
#pragma omp parallel for schedule(static) reduction(+ : n_false) if (n > ROWS_PARALLEL_LEAST)
    for (int64_t i = 0; i < n; i++) {
        uint32_t head = of->tail != NULL ? of->positive.end[2 * (i / of->n_tail)] : of->negative.end[2 * i];
        uint32_t tail = of->tail != NULL ? of->tail[i] : of->negative.end[2 * i + 1];
        int relation = of->tail != NULL ? links_relation(&of->positive, i / of->n_tail) : -1;
        n_false += links_are_joined(dataset, held, head, tail, relation);
    }
    *n_out = n;
    return n_false;
}

void links_files_remark(const struct links_rows *held, const bool given[LINKS_SPLIT_N], const struct dataset *dataset)
{
    for (int s = 0; s < LINKS_SPLIT_N; s++) {
        const struct links_held *of = &dataset->links.held[s];
        int64_t n, n_false = given[s] ? false_count(of, held, dataset, &n) : 0;
        if (n_false > 0) {
            log_warn("dataset '%s': %" PRId64 " of %" PRId64 " pairs of %s_%s.npy are edges, in one direction or the "
                     "other, of the graph or held out: each counts as a pair without an edge",
                     dataset->name, n_false, n, links_split_file((enum links_split)s),
                     of->tail != NULL ? TAILS : POOL);
        }
    }
}
