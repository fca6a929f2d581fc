#include "tests/support/executor_parts.h"

#include "protocol/base/log.h"

#include <stdlib.h>
#include <string.h>

struct executor_array {
    struct executor_array *next;
    void *block;
    size_t n_bytes;
    enum memory_category category;
};

static void *array_take(struct executor *x, enum memory_category category, size_t n_bytes)
{
    struct executor_array *array = memory_alloc(1, sizeof *array);
    array->n_bytes = n_bytes;
    array->category = category;
    ASSERT(x->ops->acquire(x->device, DEVICE_PLACE_DEVICE, category, n_bytes, &array->block) == STATUS_OK);
    array->next = x->arrays;
    x->arrays = array;
    return array->block;
}

void *executor_array(struct executor *x, size_t n_bytes)
{
    return array_take(x, MEMORY_OTHER, n_bytes);
}

void *executor_operand(struct executor *x, size_t n_bytes)
{
    return array_take(x, MEMORY_ACTIVATIONS, n_bytes);
}

void *executor_upload(struct executor *x, const void *from, size_t n_bytes)
{
    void *to = executor_array(x, n_bytes);
    if (n_bytes > 0) {
        x->ops->copy(x->device, to, from, n_bytes);
    }
    return to;
}

/* Where each node is: its part and its place there. */
struct places {
    int32_t *owner;
    uint32_t *place;
};

static struct places places_build(struct executor *x)
{
    int64_t n = x->setup.graph->n_node;
    struct places at = {memory_alloc((size_t)n, sizeof *at.owner), memory_alloc((size_t)n, sizeof *at.place)};
    for (int64_t v = 0; v < n; v++) {
        float draw = 0.5f * (1.0f + test_number(x->setup.seed + 99, (uint64_t)v, 0));
        at.owner[v] = x->setup.owner != NULL ? x->setup.owner[v] : (int32_t)(draw * (float)x->setup.n_part);
        at.place[v] = (uint32_t)x->part[at.owner[v]].n_own++;
    }
    for (int p = 0; p < x->setup.n_part; p++) {
        x->part[p].node = memory_alloc((size_t)x->part[p].n_own, sizeof(uint32_t));
    }
    for (int64_t v = 0; v < n; v++) {
        x->part[at.owner[v]].node[at.place[v]] = (uint32_t)v;
    }
    return at;
}

/* Edges as a table: 1 + the edge that brings column node `from` to row node `to`; 0: none. */
static int64_t *edges_mark(const struct executor *x, enum part_direction direction)
{
    const struct test_graph *graph = x->setup.graph;
    int64_t *edge = memory_alloc((size_t)(graph->n_node * graph->n_node), sizeof *edge);
    for (int64_t e = 0; e < graph->n_edge; e++) {
        int64_t row = direction == PART_DIRECTION_IN ? graph->to[e] : graph->from[e];
        int64_t col = direction == PART_DIRECTION_IN ? graph->from[e] : graph->to[e];
        edge[row * graph->n_node + col] = e + 1;
    }
    return edge;
}

static bool has_row(const int64_t *edge, int64_t n, uint32_t row, const uint32_t *cols, int64_t n_col)
{
    for (int64_t c = 0; c < n_col; c++) {
        if (edge[row * n + cols[c]] > 0) {
            return true;
        }
    }
    return false;
}

static bool has_col(const int64_t *edge, int64_t n, const uint32_t *rows, int64_t n_row, uint32_t col)
{
    for (int64_t r = 0; r < n_row; r++) {
        if (edge[rows[r] * n + col] > 0) {
            return true;
        }
    }
    return false;
}

/* Edges of one block while they are listed. */
struct edge_list {
    int64_t n;
    uint32_t *cols;
    uint16_t *types;
    float *weights;
    uint32_t *rows; /* of edges' features */
};

/* One row's edges: by type, then column. */
static void row_list(const struct test_graph *graph, const int64_t *edge_of_node, const uint32_t *payload_node,
                     int64_t n_col, struct edge_list *list)
{
    for (int32_t type = 0; type < (graph->type != NULL ? graph->n_relation : 1); type++) {
        for (uint32_t c = 0; c < n_col; c++) {
            int64_t e = edge_of_node[payload_node[c]] - 1;
            if (e < 0 || (graph->type != NULL && graph->type[e] != type)) {
                continue;
            }
            list->types[list->n] = (uint16_t)type;
            list->weights[list->n] = graph->type != NULL     ? (float)test_graph_weight(graph, e)
                                     : graph->weight != NULL ? graph->weight[e]
                                                             : 1.0f;
            list->rows[list->n] = (uint32_t)e;
            list->cols[list->n++] = c;
        }
    }
}

/* Room for a sample of all payload rows. */
static void sample_open(struct executor *x, const uint32_t *rows, const uint32_t *node, struct executor_block *out)
{
    size_t n_bytes = (size_t)out->block.n_col * sizeof(uint32_t);
    out->host_rows = memory_alloc((size_t)out->block.n_col, sizeof *rows);
    out->host_node = memory_alloc((size_t)out->block.n_col, sizeof *node);
    memcpy(out->host_rows, rows, n_bytes);
    memcpy(out->host_node, node, n_bytes);
    out->kept = executor_array(x, n_bytes);
    out->kept_rows = executor_array(x, n_bytes);
    out->kept_node = executor_array(x, n_bytes);
    for (int kind = 0; kind < AGGREGATE_KIND_N; kind++) {
        out->kept_scale[kind] = out->col_scale[kind] != NULL ? executor_array(x, n_bytes) : NULL;
    }
}

void executor_block_draw(struct executor *x, struct executor_block *block)
{
    const struct random_key key = {.seed = x->setup.seed, .epoch = x->setup.epoch, .stream = RANDOM_STREAM_SAMPLE};
    int64_t n_col = block->block.n_col, n = 0;
    uint32_t *list = memory_alloc(3 * (size_t)n_col, sizeof *list), *rows = list + n_col, *node = rows + n_col;
    for (uint32_t c = 0; c < n_col; c++) {
        if (random_u32(&key, block->host_node[c], 0) < x->setup.sampling * 4294967296.0) {
            list[n] = c;
            rows[n] = block->host_rows[c];
            node[n++] = block->host_node[c];
        }
    }
    block->n_kept = n;
    if (n > 0) {
        x->ops->copy(x->device, block->kept, list, (size_t)n * sizeof *list);
        x->ops->copy(x->device, block->kept_rows, rows, (size_t)n * sizeof *rows);
        x->ops->copy(x->device, block->kept_node, node, (size_t)n * sizeof *node);
    }
    for (int kind = 0; kind < AGGREGATE_KIND_N; kind++) {
        if (block->col_scale[kind] != NULL) {
            x->ops->rows_gather(x->device, n, 1, block->kept, 1.0F, block->col_scale[kind], block->kept_scale[kind]);
        }
    }
    free(list);
}

static float scale_of(const struct test_graph *graph, int kind, int64_t node)
{
    const struct aggregate_def *def = aggregate_defs[kind];
    return def->scale(test_graph_degree(graph, def->scale_counts, node), graph->loops == DATASET_LOOPS_IMPLICIT);
}

static void scales_upload(struct executor *x, const uint32_t *node, int64_t n_col, struct executor_block *out)
{
    const struct test_graph *graph = x->setup.graph;
    for (int kind = 0; kind < AGGREGATE_KIND_N; kind++) {
        if (aggregate_defs[kind]->scale == NULL) {
            out->col_scale[kind] = NULL;
            continue;
        }
        float *scale = memory_alloc((size_t)n_col, sizeof *scale);
        for (int64_t c = 0; c < n_col; c++) {
            scale[c] = scale_of(graph, kind, node[c]);
        }
        out->col_scale[kind] = executor_upload(x, scale, (size_t)n_col * sizeof *scale);
        free(scale);
    }
}

static void block_open(struct executor *x, const int64_t *edge, int i, int j, struct executor_block *out)
{
    const struct executor_part *own = &x->part[i], *other = &x->part[j];
    const struct test_graph *graph = x->setup.graph;
    int64_t n = graph->n_node, n_row = 0, n_col = 0;
    uint32_t *rows = memory_alloc((size_t)n, sizeof *rows), *payload = memory_alloc((size_t)n, sizeof *payload);
    uint32_t *payload_node = memory_alloc((size_t)n, sizeof *payload_node);
    struct edge_list list = {.cols = memory_alloc((size_t)(n * n), sizeof *list.cols),
                             .types = memory_alloc((size_t)(n * n), sizeof *list.types),
                             .weights = memory_alloc((size_t)(n * n), sizeof *list.weights),
                             .rows = memory_alloc((size_t)(n * n), sizeof *list.rows)};
    int64_t *indptr = memory_alloc((size_t)n + 1, sizeof *indptr);
    for (uint32_t c = 0; c < other->n_own; c++) {
        if (i == j || has_col(edge, n, own->node, own->n_own, other->node[c])) {
            payload_node[n_col] = other->node[c];
            payload[n_col++] = c;
        }
    }
    for (uint32_t r = 0; r < own->n_own; r++) {
        if (i != j && !has_row(edge, n, own->node[r], other->node, other->n_own)) {
            continue;
        }
        rows[n_row++] = r;
        row_list(graph, edge + own->node[r] * n, payload_node, n_col, &list);
        indptr[n_row] = list.n;
    }
    size_t n_edge = (size_t)list.n;
    out->block = (struct device_block){.n_row = n_row, .n_col = n_col, .n_edge = list.n};
    out->block.rows = i == j ? NULL : executor_upload(x, rows, (size_t)n_row * sizeof *rows);
    out->block.indptr = executor_upload(x, indptr, (size_t)(n_row + 1) * sizeof *indptr);
    out->block.cols = executor_upload(x, list.cols, n_edge * sizeof *list.cols);
    if (graph->type != NULL) {
        out->block.types = executor_upload(x, list.types, n_edge * sizeof *list.types);
    }
    if (graph->type != NULL || graph->weight != NULL) {
        out->block.weights = executor_upload(x, list.weights, n_edge * sizeof *list.weights);
    }
    if (graph->feature != NULL) {
        size_t n_bytes = (size_t)(graph->n_edge * graph->n_feature) * sizeof *graph->feature;
        out->block.edge_rows = executor_upload(x, list.rows, n_edge * sizeof *list.rows);
        out->block.edge_table = executor_upload(x, graph->feature, n_bytes);
    }
    out->payload_rows = executor_upload(x, payload, (size_t)n_col * sizeof *payload);
    out->payload_node = executor_upload(x, payload_node, (size_t)n_col * sizeof *payload_node);
    scales_upload(x, payload_node, n_col, out);
    ASSERT(x->ops->block_open(x->device, &out->block) == STATUS_OK);
    if (x->setup.program->samples) {
        sample_open(x, payload, payload_node, out);
        executor_block_draw(x, out);
    } else {
        out->host_node = memory_alloc((size_t)n_col, sizeof *payload_node);
        memcpy(out->host_node, payload_node, (size_t)n_col * sizeof *payload_node);
    }
    free(rows);
    free(payload);
    free(payload_node);
    free(list.cols);
    free(list.types);
    free(list.weights);
    free(list.rows);
    free(indptr);
}

static void blocks_open(struct executor *x)
{
    for (int direction = 0; direction < PART_DIRECTION_N; direction++) {
        int64_t *edge = edges_mark(x, (enum part_direction)direction);
        for (int i = 0; i < x->setup.n_part; i++) {
            uint32_t arg_base = 0;
            x->part[i].block[direction] = memory_alloc((size_t)x->setup.n_part, sizeof(struct executor_block));
            for (int s = 0; s < x->setup.n_part; s++) {
                int j = (i + s) % x->setup.n_part;
                struct executor_block *block = &x->part[i].block[direction][j];
                block_open(x, edge, i, j, block);
                block->arg_base = arg_base;
                arg_base += (uint32_t)block->block.n_col;
            }
        }
        free(edge);
    }
}

int64_t executor_rows(const struct executor_part *part, int32_t hop)
{
    return part->n_own + (hop == PROGRAM_HOP_HALO ? part->n_halo : 0);
}

/* Behind a part's own rows its payload rows of in-edges, part after part, where values have them. */
static void halo_list(struct executor *x, int i)
{
    struct executor_part *part = &x->part[i];
    uint32_t *node = memory_alloc((size_t)x->setup.graph->n_node * (size_t)x->setup.n_part, sizeof *node);
    memcpy(node, part->node, (size_t)part->n_own * sizeof *node);
    for (int j = 0; j < x->setup.n_part && program_stores(x->setup.program); j++) {
        struct executor_block *block = &part->block[PART_DIRECTION_IN][j];
        block->halo_row = part->n_halo;
        for (int64_t c = 0; j != i && c < block->block.n_col; c++) {
            node[part->n_own + part->n_halo++] = block->host_node[c];
        }
    }
    free(part->node);
    part->node = node;
}

/* The csr of dense rows, which are overwritten: never past what was read. */
static void csr_open(struct executor *x, struct executor_part *part, float *dense)
{
    const struct program *program = x->setup.program;
    int64_t f = program->value[0].width, n = part->n_own + part->n_halo, n_value = 0, n_embedded = 0;
    uint32_t *cols = memory_alloc((size_t)(n * f), sizeof *cols);
    int64_t *indptr = memory_alloc((size_t)n + 1, sizeof *indptr);
    uint32_t *rows = memory_alloc((size_t)part->n_own, sizeof *rows);
    uint32_t *columns = memory_alloc((size_t)part->n_own, sizeof *columns);
    for (int64_t r = 0; r < n; r++) {
        for (int64_t c = 0; c < f; c++) {
            if (dense[r * f + c] != 0.0f && embedded_has(&program->embedded, c)) {
                rows[n_embedded] = (uint32_t)r;
                columns[n_embedded++] = (uint32_t)c;
            } else if (dense[r * f + c] != 0.0f) {
                cols[n_value] = (uint32_t)embedded_shared(&program->embedded, c);
                dense[n_value++] = dense[r * f + c];
            }
        }
        indptr[r + 1] = n_value;
    }
    part->csr = (struct device_csr){.n_row = part->n_own,
                                    .n_col = program_n_shared(program),
                                    .n_value = indptr[part->n_own],
                                    .embedded = &program->embedded,
                                    .n_embedded = n_embedded};
    part->csr.indptr = executor_upload(x, indptr, (size_t)(n + 1) * sizeof *indptr);
    part->csr.cols = executor_upload(x, cols, (size_t)n_value * sizeof *cols);
    part->csr.values = executor_upload(x, dense, (size_t)n_value * sizeof *dense);
    part->csr.embedded_rows = executor_upload(x, rows, (size_t)n_embedded * sizeof *rows);
    part->csr.embedded_columns = executor_upload(x, columns, (size_t)n_embedded * sizeof *columns);
    part->embeddings = executor_operand(x, (size_t)(n_embedded * program->n_embedding) * sizeof(float));
    part->grad_embeddings = executor_operand(x, (size_t)(n_embedded * program->n_embedding) * sizeof(float));
    part->csr_halo = part->csr;
    part->csr_halo.n_row = n;
    part->csr_halo.n_value = n_value;
    ASSERT(x->ops->csr_open(x->device, &part->csr) == STATUS_OK);
    ASSERT(x->ops->csr_open(x->device, &part->csr_halo) == STATUS_OK);
    part->embedded_column = columns;
    free(rows);
    free(indptr);
    free(cols);
}

static void features_open(struct executor *x, struct executor_part *part)
{
    int64_t f = x->setup.program->value[0].width, n = part->n_own + part->n_halo;
    float *dense = memory_alloc((size_t)(n * f), sizeof *dense);
    for (int64_t r = 0; r < n; r++) {
        memcpy(dense + r * f, x->setup.features + part->node[r] * f, (size_t)f * sizeof *dense);
    }
    if (x->setup.program->value[0].is_sparse) {
        csr_open(x, part, dense);
    } else {
        part->value[0] = executor_upload(x, dense, (size_t)(n * f) * sizeof *dense);
    }
    free(dense);
}

/* Where element i of a tensor with embeddings is: in the arena, or at one node of a part that has the column; NULL: at
 * none of it. */
static float *element(const struct program *program, const struct parameter *param, const struct executor_part *part,
                      float *arena, float *embeddings, int64_t i)
{
    int64_t f = param->embedding_row, n_column = program->value[0].width, column = i / f % n_column;
    int64_t row = i / f / n_column * f + i % f;
    if (!embedded_has(&program->embedded, column)) {
        return arena + param->offset + row * program_n_shared(program) + embedded_shared(&program->embedded, column);
    }
    for (int64_t k = 0; k < part->csr.n_embedded; k++) {
        if (part->embedded_column[k] == column) {
            return embeddings + part->csr.n_embedded * param->embedding_at + k * param->embedding_width + row;
        }
    }
    return NULL;
}

/* Host copies of the arena and of a part's embeddings: from the device, or zeros. */
static void weights_stage(struct executor *x, const struct executor_part *part, const float *arena,
                          const float *embeddings, float *host[2])
{
    const struct program *program = x->setup.program;
    size_t n_embedding = (size_t)(part->csr.n_embedded * program->n_embedding);
    host[0] = memory_alloc((size_t)program->n_weight + 1, sizeof(float));
    host[1] = memory_alloc(n_embedding + 1, sizeof(float));
    if (arena != NULL) {
        x->ops->copy(x->device, host[0], arena, (size_t)program->n_weight * sizeof(float));
    }
    if (arena != NULL && n_embedding > 0) {
        x->ops->copy(x->device, host[1], embeddings, n_embedding * sizeof(float));
    }
}

void executor_weights_put(struct executor *x, const float *weights)
{
    const struct program *program = x->setup.program;
    for (int k = 0; k < x->setup.n_part; k++) {
        const struct executor_part *part = &x->part[k];
        float *host[2];
        weights_stage(x, part, NULL, NULL, host);
        for (int p = 0; p < program->n_param; p++) {
            const struct parameter *param = &program->param[p];
            const float *from = weights + x->setup.plain->param[p].offset;
            for (int64_t i = 0; i < parameter_size(param); i++) {
                float *to = param->embedding_at < 0 ? host[0] + param->offset + i
                                                    : element(program, param, part, host[0], host[1], i);
                if (to != NULL) {
                    *to = from[i];
                }
            }
        }
        x->ops->copy(x->device, x->weights, host[0], (size_t)program->n_weight * sizeof(float));
        if (part->csr.n_embedded > 0) {
            x->ops->copy(x->device, part->embeddings, host[1],
                         (size_t)(part->csr.n_embedded * program->n_embedding) * sizeof(float));
        }
        free(host[0]);
        free(host[1]);
    }
}

void executor_gradients_add(struct executor *x, const struct executor_part *part, double *sum)
{
    const struct program *program = x->setup.program;
    float *host[2];
    weights_stage(x, part, part->grad_param, part->grad_embeddings, host);
    for (int p = 0; p < program->n_param; p++) {
        const struct parameter *param = &program->param[p];
        double *to = sum + x->setup.plain->param[p].offset;
        for (int64_t i = 0; i < parameter_size(param); i++) {
            const float *from = param->embedding_at < 0 ? host[0] + param->offset + i
                                                        : element(program, param, part, host[0], host[1], i);
            to[i] += from != NULL ? *from : 0.0;
        }
    }
    free(host[0]);
    free(host[1]);
}

static void scales_open(struct executor *x, struct executor_part *part)
{
    float *scale = memory_alloc((size_t)part->n_own, sizeof *scale);
    for (int kind = 0; kind < AGGREGATE_KIND_N; kind++) {
        for (int64_t r = 0; aggregate_defs[kind]->scale != NULL && r < part->n_own; r++) {
            scale[r] = scale_of(x->setup.graph, kind, part->node[r]);
        }
        part->row_scale[kind] = aggregate_defs[kind]->scale != NULL
                                    ? executor_upload(x, scale, (size_t)part->n_own * sizeof *scale)
                                    : NULL;
    }
    free(scale);
}

void executor_parts_open(struct executor *x)
{
    const struct program *program = x->setup.program;
    x->part = memory_alloc((size_t)x->setup.n_part, sizeof *x->part);
    struct places at = places_build(x);
    blocks_open(x);
    for (int p = 0; p < x->setup.n_part; p++) {
        struct executor_part *part = &x->part[p];
        part->value = memory_alloc((size_t)program->n_value, sizeof *part->value);
        part->grad = memory_alloc((size_t)program->n_value, sizeof *part->grad);
        part->saved = memory_alloc((size_t)program->n_op, sizeof *part->saved);
        halo_list(x, p);
        features_open(x, part);
        executor_labels_open(x, part);
        scales_open(x, part);
    }
    free(at.owner);
    free(at.place);
}

void executor_parts_close(struct executor *x)
{
    for (int p = 0; p < x->setup.n_part; p++) {
        struct executor_part *part = &x->part[p];
        for (int direction = 0; direction < PART_DIRECTION_N; direction++) {
            for (int j = 0; j < x->setup.n_part; j++) {
                x->ops->block_close(x->device, &part->block[direction][j].block);
                free(part->block[direction][j].host_rows);
                free(part->block[direction][j].host_node);
            }
            free(part->block[direction]);
        }
        if (part->csr.indptr != NULL) {
            x->ops->csr_close(x->device, &part->csr);
            x->ops->csr_close(x->device, &part->csr_halo);
        }
        free(part->value);
        free(part->grad);
        free(part->saved);
        free(part->node);
        free(part->embedded_column);
    }
    free(x->part);
    while (x->arrays != NULL) {
        struct executor_array *next = x->arrays->next;
        x->ops->release(x->device, DEVICE_PLACE_DEVICE, x->arrays->category, x->arrays->block, x->arrays->n_bytes);
        free(x->arrays);
        x->arrays = next;
    }
}
