/* Reading a csr_matrix from the tree of a pickle; see pickle_csr.h. */
#include "partition/files/pickle_csr.h"

#include "partition/files/npy_header.h"
#include "partition/files/pickle_tree.h"
#include "protocol/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool text_is(const struct pickle_tree *tree, uint32_t node, const char *text)
{
    const struct pickle_node *row = &tree->nodes[node];
    return row->kind == PICKLE_KIND_TEXT && row->n_text == strlen(text) && memcmp(row->text, text, row->n_text) == 0;
}

/* Was `node` made by `name` of one of the two modules that have had this class over the years? */
static bool made_by(const struct pickle_tree *tree, uint32_t node, const char *module, const char *later,
                    const char *name)
{
    const struct pickle_node *row = &tree->nodes[node], *maker = &tree->nodes[row->maker];
    return row->kind == PICKLE_KIND_OBJECT && maker->kind == PICKLE_KIND_NAME &&
           (text_is(tree, maker->first, module) || text_is(tree, maker->first, later)) &&
           text_is(tree, maker->last, name);
}

static bool is_array(const struct pickle_tree *tree, uint32_t node)
{
    return made_by(tree, node, "numpy.core.multiarray", "numpy._core.multiarray", "_reconstruct");
}

/* The value of a key in a dict, or 0. */
static uint32_t member(const struct pickle_tree *tree, uint32_t dict, const char *key)
{
    if (tree->nodes[dict].kind != PICKLE_KIND_SEQUENCE) {
        return 0;
    }
    for (uint32_t cell = tree->nodes[dict].first; cell != 0;) {
        uint32_t value_cell = tree->nodes[cell].next;
        if (text_is(tree, tree->nodes[cell].first, key)) {
            return value_cell == 0 ? 0 : tree->nodes[value_cell].first;
        }
        cell = value_cell == 0 ? 0 : tree->nodes[value_cell].next;
    }
    return 0;
}

/* numpy.dtype('i4') with state (3, '<', …) to a type; NPY_TYPE_N for others. */
static enum npy_type type_of(const struct pickle_tree *tree, uint32_t node)
{
    if (!made_by(tree, node, "numpy", "numpy", "dtype")) {
        return NPY_TYPE_N;
    }
    uint32_t code = pickle_item(tree, tree->nodes[node].first, 0);
    uint32_t order = pickle_item(tree, tree->nodes[node].state, 1);
    if (!text_is(tree, order, "<") && !text_is(tree, order, "|")) {
        return NPY_TYPE_N;
    }
    enum npy_type type = NPY_TYPE_BOOL;
    for (; type < NPY_TYPE_N; type++) {
        const char text[] = {npy_type_letter(type), (char)('0' + npy_type_size(type)), '\0'};
        if (text_is(tree, code, text)) {
            break;
        }
    }
    return type;
}

/* An array's state is (version, shape, dtype, Fortran order, bytes). */
static enum status array_read(const char *name, const char *key, const struct pickle_tree *tree, uint32_t matrix,
                              struct npy *out)
{
    char full[NPY_NAME_BYTES];
    snprintf(full, sizeof full, "%.200s.%s", name, key);
    uint32_t array = member(tree, tree->nodes[matrix].state, key);
    if (!is_array(tree, array)) {
        return status_fail(STATUS_DATA, "%s: is not in the pickle, expected a NumPy array", full);
    }
    uint32_t state = tree->nodes[array].state;
    enum npy_type type = type_of(tree, pickle_item(tree, state, 2));
    const struct pickle_node *length = &tree->nodes[pickle_item(tree, pickle_item(tree, state, 1), 0)];
    const struct pickle_node *bytes = &tree->nodes[pickle_item(tree, state, 4)];
    if (type == NPY_TYPE_N) {
        return status_fail(STATUS_DATA, "%s: expected little-endian booleans, integers or float16 to float64", full);
    }
    bool whole = length->kind == PICKLE_KIND_NUMBER && bytes->kind == PICKLE_KIND_TEXT && length->number >= 0 &&
                 (uint64_t)length->number == bytes->n_text / npy_type_size(type) &&
                 bytes->n_text % npy_type_size(type) == 0;
    if (!whole) {
        return status_fail(STATUS_DATA, "%s: holds %zu bytes of %s, expected as many as its shape says", full,
                           bytes->n_text, npy_type_text(type));
    }
    return npy_copy(full, type, length->number, bytes->text, out);
}

static enum status matrix_read(const char *name, const struct pickle_tree *tree, struct csr *out)
{
    /* An object array of no dimensions: the list of its state has the one object. */
    uint32_t list = is_array(tree, tree->top) ? pickle_item(tree, tree->nodes[tree->top].state, 4) : 0;
    uint32_t matrix = pickle_item(tree, list, 0);
    if (!made_by(tree, matrix, "scipy.sparse.csr", "scipy.sparse._csr", "csr_matrix") &&
        !made_by(tree, matrix, "scipy.sparse._arrays", "scipy.sparse._csr", "csr_array")) {
        return status_fail(STATUS_DATA, "%s: expected one pickled scipy.sparse.csr_matrix or csr_array", name);
    }
    uint32_t shape = member(tree, tree->nodes[matrix].state, "_shape");
    const struct pickle_node *rows = &tree->nodes[pickle_item(tree, shape, 0)];
    const struct pickle_node *columns = &tree->nodes[pickle_item(tree, shape, 1)];
    if (rows->kind != PICKLE_KIND_NUMBER || columns->kind != PICKLE_KIND_NUMBER || rows->number < 0 ||
        columns->number < 0) {
        return status_fail(STATUS_DATA, "%s: the matrix has no shape, expected rows and columns", name);
    }
    out->n_row = rows->number;
    out->n_column = columns->number;
    enum status status = array_read(name, "indptr", tree, matrix, &out->indptr);
    if (status == STATUS_OK) {
        status = array_read(name, "indices", tree, matrix, &out->indices);
    }
    if (status == STATUS_OK) {
        status = array_read(name, "data", tree, matrix, &out->data);
    }
    return status;
}

enum status pickle_csr_read(const char *name, const void *bytes, size_t n_bytes, struct csr *out)
{
    size_t n_head;
    enum status status = npy_header_skip(name, bytes, n_bytes, &n_head);
    if (status != STATUS_OK) {
        return status;
    }
    struct pickle_tree *tree = memory_alloc(1, sizeof *tree);
    struct csr csr = {0};
    status = pickle_tree_build(name, (const char *)bytes + n_head, n_bytes - n_head, tree);
    if (status == STATUS_OK) {
        status = matrix_read(name, tree, &csr);
    }
    free(tree);
    if (status != STATUS_OK) {
        csr_release(&csr);
        return status;
    }
    *out = csr;
    return STATUS_OK;
}
