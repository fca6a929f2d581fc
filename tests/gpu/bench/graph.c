#include "tests/gpu/bench/graph.h"

#include "partition/part/part.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HUB_EDGES ((int64_t)1000000)
#define INSERTION 48 /* longest row that is sorted by insertion */

/* What rows are drawn from. */
struct plan {
    enum graph_kind kind;
    int64_t n_node, n_edge, n_community;
    int n_bit; /* rmat: n_node is 2^n_bit */
};

/* source  Steele, Lea & Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014 */
static uint64_t draw(int64_t row, int64_t at)
{
    uint64_t z = (uint64_t)row * 0x9E3779B97F4A7C15U + (uint64_t)at * 0xD1B54A32D192ED03U + 0x8BB84B93962EACC9U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

static double unit(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

/* --- rmat: node r is vertex scramble(r) of the recursion, and back --- */

#define FACTOR_1 0x9E3779B1U
#define FACTOR_2 0x85EBCA77U

static uint32_t inverse_of(uint32_t odd)
{
    uint32_t x = odd; /* Newton's steps double the bits that are right: 3, 6, 12, 24, 48 */
    for (int i = 0; i < 4; i++) {
        x *= 2 - odd * x;
    }
    return x;
}

static uint32_t fold(uint32_t x, int n_bit)
{
    return x ^ x >> (n_bit + 1) / 2;
}

static uint32_t scramble(uint32_t x, int n_bit)
{
    uint32_t mask = (uint32_t)(((uint64_t)1 << n_bit) - 1);
    return fold(x * FACTOR_1 & mask, n_bit) * FACTOR_2 & mask;
}

static uint32_t unscramble(uint32_t y, int n_bit)
{
    uint32_t mask = (uint32_t)(((uint64_t)1 << n_bit) - 1);
    return fold(y * inverse_of(FACTOR_2) & mask, n_bit) * inverse_of(FACTOR_1) & mask;
}

/* Edges of the row: its share of all, rounded at random. A vertex has 0.76 of the edges for each bit that is 0, 0.24
 * for one that is 1. */
static int64_t rmat_degree(const struct plan *p, int64_t row)
{
    uint32_t vertex = scramble((uint32_t)row, p->n_bit);
    double share = (double)p->n_edge;
    for (int b = 0; b < p->n_bit; b++) {
        share *= vertex >> b & 1 ? 0.24 : 0.76;
    }
    return (int64_t)(share + unit(draw(row, -1)));
}

/* Bit by bit: a one follows a row's 0 with chance 0.19 / 0.76, its 1 with 0.05 / 0.24. */
static uint32_t rmat_column(const struct plan *p, int64_t row, int64_t at)
{
    uint32_t vertex = scramble((uint32_t)row, p->n_bit), column = 0;
    uint64_t bits = 0;
    for (int b = 0; b < p->n_bit; b++) {
        if (b % 4 == 0) { /* 16 bits a draw */
            bits = draw(row, at * 8 + b / 4 + 1);
        }
        uint32_t chance = vertex >> b & 1 ? 13653 : 16384;
        column |= (uint32_t)((bits & 0xffff) < chance) << b;
        bits >>= 16;
    }
    return unscramble(column, p->n_bit);
}

/* --- rows of all kinds --- */

static int64_t hub_degree(const struct plan *p)
{
    return p->n_node * 9 / 10 < HUB_EDGES ? p->n_node * 9 / 10 : HUB_EDGES;
}

static int64_t degree(const struct plan *p, int64_t row)
{
    if (p->kind == GRAPH_RMAT) {
        int64_t n = rmat_degree(p, row);
        return n < p->n_node ? n : p->n_node;
    }
    if (p->kind == GRAPH_HUB) {
        int64_t rest = p->n_edge - hub_degree(p);
        return row == p->n_node / 2 ? hub_degree(p) : (rest > 0 ? rest : 0) / p->n_node;
    }
    return p->n_edge / p->n_node;
}

static uint32_t column(const struct plan *p, int64_t row, int64_t at, int64_t n)
{
    uint64_t bits = draw(row, at);
    if (p->kind == GRAPH_RMAT) {
        return rmat_column(p, row, at);
    }
    if (p->kind == GRAPH_HUB && row == p->n_node / 2) {
        return (uint32_t)(at * p->n_node / n);
    }
    if (p->kind == GRAPH_SBM && unit(bits) < 0.9) {
        int64_t first = row / p->n_community * p->n_community;
        int64_t size = p->n_node - first < p->n_community ? p->n_node - first : p->n_community;
        return (uint32_t)(first + (int64_t)(draw(row, ~at) % (uint64_t)size));
    }
    return (uint32_t)(draw(row, ~at) % (uint64_t)p->n_node);
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void sort(uint32_t *values, int64_t n)
{
    if (n > INSERTION) {
        qsort(values, (size_t)n, sizeof *values, ascending);
        return;
    }
    for (int64_t i = 1; i < n; i++) {
        uint32_t value = values[i];
        int64_t k = i;
        for (; k > 0 && values[k - 1] > value; k--) {
            values[k] = values[k - 1];
        }
        values[k] = value;
    }
}

/* Draw a row's columns into `out`; returns how many are distinct, which come first. */
static int64_t row_make(const struct plan *p, int64_t row, int64_t n, uint32_t *out)
{
    int64_t n_distinct = 0;
    for (int64_t i = 0; i < n; i++) {
        out[i] = column(p, row, i, n);
    }
    sort(out, n);
    for (int64_t i = 0; i < n; i++) {
        if (n_distinct == 0 || out[n_distinct - 1] != out[i]) {
            out[n_distinct++] = out[i];
        }
    }
    return n_distinct;
}

static void *host_take(int64_t n, size_t each)
{
    void *block = malloc((size_t)(n > 0 ? n : 1) * each);
    if (block == NULL) {
        fprintf(stderr, "bench_gpu: no host memory for %lld elements\n", (long long)n);
        exit(71);
    }
    return block;
}

struct graph graph_make(const struct graph_plan *plan)
{
    struct plan p = {plan->kind, plan->n_node, plan->n_edge, plan->n_community, 0};
    while (p.kind == GRAPH_RMAT && (int64_t)1 << p.n_bit < plan->n_node) {
        p.n_bit++;
    }
    p.n_node = p.kind == GRAPH_RMAT ? (int64_t)1 << p.n_bit : plan->n_node;
    int64_t *place = host_take(p.n_node + 1, sizeof *place), *indptr = host_take(p.n_node + 1, sizeof *indptr);
    place[0] = indptr[0] = 0;
    for (int64_t r = 0; r < p.n_node; r++) {
        place[r + 1] = place[r] + degree(&p, r);
    }
    uint32_t *drawn = host_take(place[p.n_node], sizeof *drawn);
#pragma omp parallel for schedule(dynamic, 1024)
    for (int64_t r = 0; r < p.n_node; r++) {
        indptr[r + 1] = row_make(&p, r, place[r + 1] - place[r], drawn + place[r]);
    }
    for (int64_t r = 0; r < p.n_node; r++) {
        indptr[r + 1] += indptr[r];
    }
    uint32_t *cols = host_take(indptr[p.n_node], sizeof *cols);
#pragma omp parallel for schedule(dynamic, 1024)
    for (int64_t r = 0; r < p.n_node; r++) {
        memcpy(cols + indptr[r], drawn + place[r], (size_t)(indptr[r + 1] - indptr[r]) * sizeof *cols);
    }
    free(drawn);
    free(place);
    return (struct graph){p.n_node, indptr[p.n_node], indptr, cols};
}

/* --- a job's graph --- */

struct graph graph_of_part(const char *path, uint32_t **node_out)
{
    struct stat about = {0};
    struct part part;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    size_t n_bytes = file >= 0 && fstat(file, &about) == 0 ? (size_t)about.st_size : 0;
    void *bytes = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    if (bytes == MAP_FAILED || part_open(bytes, n_bytes, &part) != STATUS_OK || part.n_own != part.n_node) {
        fprintf(stderr, "%s: expected a part with all nodes\n", path);
        exit(65);
    }
    const struct part_block block = part_block(&part, PART_DIRECTION_IN, part.part);
    struct graph graph = {block.n_row, block.n_edge, host_take(block.n_row + 1, sizeof *graph.indptr),
                          host_take(block.n_edge, sizeof *graph.cols)};
    memcpy(graph.indptr, block.indptr, (size_t)(graph.n_node + 1) * sizeof *graph.indptr);
    memcpy(graph.cols, block.cols, (size_t)graph.n_edge * sizeof *graph.cols);
    *node_out = host_take(graph.n_node, sizeof **node_out);
    memcpy(*node_out, part.node, (size_t)graph.n_node * sizeof **node_out);
    part_release(&part);
    munmap(bytes, n_bytes);
    close(file);
    return graph;
}

struct graph graph_in_data_order(const struct graph *graph, const uint32_t *node)
{
    struct graph out = {graph->n_node, graph->n_edge, host_take(graph->n_node + 1, sizeof *out.indptr),
                        host_take(graph->n_edge, sizeof *out.cols)};
    out.indptr[0] = 0;
    for (int64_t r = 0; r < graph->n_node; r++) {
        out.indptr[node[r] + (int64_t)1] = graph->indptr[r + 1] - graph->indptr[r];
    }
    for (int64_t r = 0; r < graph->n_node; r++) {
        out.indptr[r + 1] += out.indptr[r];
    }
#pragma omp parallel for schedule(dynamic, 1024)
    for (int64_t r = 0; r < graph->n_node; r++) {
        int64_t n = graph->indptr[r + 1] - graph->indptr[r];
        uint32_t *to = out.cols + out.indptr[node[r]];
        for (int64_t i = 0; i < n; i++) {
            to[i] = node[graph->cols[graph->indptr[r] + i]];
        }
        sort(to, n);
    }
    return out;
}

void graph_free(struct graph *graph)
{
    free(graph->indptr);
    free(graph->cols);
}
