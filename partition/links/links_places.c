#include "partition/links/links_places.h"

#include "protocol/base/amounts.h"
#include "protocol/base/memory.h"

#include <stdlib.h>

/* Is this entry of row v a pair? Neither loops nor inverse relations are. */
static bool is_pair(const struct dataset *dataset, int64_t v, int64_t e)
{
    bool is_inverse = dataset->links.n_relation > 0 && dataset->edge_type[e] >= dataset->links.n_relation;
    return dataset->indices[e] != v && !is_inverse;
}

static bool is_trained(const struct dataset *dataset)
{
    return dataset->of_links && !dataset->predicts;
}

int64_t links_places_count(const struct dataset *dataset, const int32_t *owner, int32_t n_part, int64_t *out)
{
    int64_t n = 0;
    for (int32_t p = 0; p < n_part; p++) {
        out[p] = 0;
    }
    for (int64_t v = 0; is_trained(dataset) && v < dataset->n_node; v++) {
        for (int64_t e = dataset->indptr[v]; e < dataset->indptr[v + 1]; e++) {
            if (is_pair(dataset, v, e)) {
                out[owner[v]]++;
                out[owner[dataset->indices[e]]] += !dataset->facts.symmetric;
                n += dataset->facts.symmetric ? 1 : 2;
            }
        }
    }
    return n / 2;
}

/* The pair stands in the row of one end. Rows are counted first, then filled. */
static void end_add(struct links_places *links, uint32_t at, uint32_t other, uint16_t type)
{
    if (links->places == NULL) {
        links->indptr[at + (int64_t)1]++;
        return;
    }
    int64_t i = links->indptr[at]++;
    links->places[i] = other;
    if (links->types != NULL) {
        links->types[i] = type;
    }
}

/* Where the graph is symmetric the reverse is an edge, too, and rows come out in order. */
static void walk(const struct dataset *dataset, const uint32_t *order, const uint32_t *place,
                 struct links_places *links)
{
    for (int64_t p = 0; p < dataset->n_node; p++) {
        uint32_t v = order[p];
        for (int64_t e = dataset->indptr[v]; e < dataset->indptr[v + (int64_t)1]; e++) {
            uint32_t u = dataset->indices[e];
            uint16_t type = dataset->links.n_relation > 0 ? (uint16_t)(2 * dataset->edge_type[e]) : 0;
            bool counts = is_pair(dataset, v, e), is_tail = dataset->facts.symmetric && u > v;
            if (counts) {
                end_add(links, place[u], (uint32_t)p, (uint16_t)(type + is_tail));
            }
            if (counts && !dataset->facts.symmetric) {
                end_add(links, (uint32_t)p, place[u], (uint16_t)(type + 1));
            }
        }
    }
}

/* Rows in order of place, then of type. */
static enum status rows_sort(struct links_places *links)
{
    size_t most = 0;
    for (size_t r = 0; r < links->n_node; r++) {
        size_t n = (size_t)(links->indptr[r + 1] - links->indptr[r]);
        most = n > most ? n : most;
    }
    uint64_t *key;
    enum status status = memory_acquire(MEMORY_OTHER, most, sizeof *key, &key);
    for (size_t r = 0; r < links->n_node && status == STATUS_OK; r++) {
        int64_t first = links->indptr[r], n = links->indptr[r + 1] - first;
        for (int64_t i = 0; i < n; i++) {
            uint64_t type = links->types != NULL ? links->types[first + i] : 0;
            key[i] = (uint64_t)links->places[first + i] << 16 | type;
        }
        qsort(key, (size_t)n, sizeof *key, ascending_compare);
        for (int64_t i = 0; i < n; i++) {
            links->places[first + i] = (uint32_t)(key[i] >> 16);
            if (links->types != NULL) {
                links->types[first + i] = (uint16_t)key[i];
            }
        }
    }
    memory_release(MEMORY_OTHER, key, most, sizeof *key);
    return status;
}

/* Places of all rows, each once. */
static int64_t different(const struct links_places *links)
{
    int64_t n = 0;
    for (size_t r = 0; r < links->n_node; r++) {
        for (int64_t i = links->indptr[r]; i < links->indptr[r + 1]; i++) {
            n += i == links->indptr[r] || links->places[i] != links->places[i - 1];
        }
    }
    return n;
}

enum status links_places_open(const struct dataset *dataset, const uint32_t *order, const uint32_t *place,
                              struct links_places *out)
{
    *out = (struct links_places){.n_node = (size_t)dataset->n_node};
    if (!is_trained(dataset)) {
        return STATUS_OK;
    }
    enum status status = memory_acquire(MEMORY_OTHER, out->n_node + 1, sizeof *out->indptr, &out->indptr);
    if (status != STATUS_OK) {
        return status;
    }
    walk(dataset, order, place, out);
    for (size_t r = 0; r < out->n_node; r++) {
        out->indptr[r + 1] += out->indptr[r];
    }
    out->n_place = (size_t)out->indptr[out->n_node];
    status = memory_acquire(MEMORY_OTHER, out->n_place, sizeof *out->places, &out->places);
    if (status == STATUS_OK && (dataset->links.n_relation > 0 || dataset->links.is_directed)) {
        status = memory_acquire(MEMORY_OTHER, out->n_place, sizeof *out->types, &out->types);
    }
    if (status != STATUS_OK) {
        return status;
    }
    walk(dataset, order, place, out);
    for (size_t r = out->n_node; r > 0; r--) { /* each row's begin has come to its end */
        out->indptr[r] = out->indptr[r - 1];
    }
    out->indptr[0] = 0;
    out->n_pair = (int64_t)out->n_place / 2;
    status = dataset->facts.symmetric ? STATUS_OK : rows_sort(out);
    out->n_joined = different(out) / 2;
    return status;
}

void links_places_close(struct links_places *links)
{
    memory_release(MEMORY_OTHER, links->indptr, links->n_node + 1, sizeof *links->indptr);
    memory_release(MEMORY_OTHER, links->types, links->n_place, sizeof *links->types);
    memory_release(MEMORY_OTHER, links->places, links->n_place, sizeof *links->places);
    *links = (struct links_places){0};
}
