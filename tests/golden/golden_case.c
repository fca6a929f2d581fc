#include "tests/golden/golden_case.h"

#include "partition/files/npy.h"
#include "protocol/files/safetensors.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct npy array_open(const struct golden_case *golden, const char *file)
{
    char path[8192];
    struct npy npy;
    snprintf(path, sizeof path, "%s/%s", golden->folder, file);
    cr_assert_eq(npy_open(path, &npy), STATUS_OK, "%s", status_reason());
    return npy;
}

static void graph_open(struct golden_case *golden)
{
    struct npy edges = array_open(golden, "edges.npy");
    int64_t n_edge = edges.shape[1];
    int64_t *pair = memory_alloc((size_t)(2 * n_edge), sizeof *pair);
    for (int64_t i = 0; i < 2 * n_edge; i++) {
        pair[i] = npy_int(&edges, i);
    }
    struct npy labels = array_open(golden, "labels.npy");
    char types_path[8192];
    snprintf(types_path, sizeof types_path, "%s/edge_type.npy", golden->folder);
    test_graph_from_edges(labels.shape[0], n_edge, pair, pair + n_edge, DATASET_LOOPS_STORED, &golden->graph);
    if (npy_exists(types_path)) {
        struct npy types = array_open(golden, "edge_type.npy");
        golden->graph.type = memory_alloc((size_t)n_edge, sizeof *golden->graph.type);
        for (int64_t e = 0; e < n_edge; e++) {
            golden->graph.type[e] = (uint16_t)npy_int(&types, e);
            if (golden->graph.type[e] >= golden->graph.n_relation) {
                golden->graph.n_relation = golden->graph.type[e] + 1;
            }
        }
        npy_close(&types);
    }
    golden->labels = memory_alloc((size_t)labels.n_value, sizeof *golden->labels);
    for (int64_t i = 0; i < labels.n_value; i++) {
        golden->labels[i] = (int32_t)npy_int(&labels, i);
    }
    npy_close(&labels);
    npy_close(&edges);
    free(pair);
}

static void rows_open(struct golden_case *golden)
{
    struct npy features = array_open(golden, "features.npy"), logits = array_open(golden, "logits.npy");
    struct npy train = array_open(golden, "train_idx.npy");
    golden->n_feature = features.shape[1];
    golden->n_class = (int32_t)logits.shape[1];
    golden->features = memory_alloc((size_t)features.n_value, sizeof *golden->features);
    golden->logits = memory_alloc((size_t)logits.n_value, sizeof *golden->logits);
    golden->split = memory_alloc((size_t)golden->graph.n_node, sizeof *golden->split);
    for (int64_t i = 0; i < features.n_value; i++) {
        golden->features[i] = (float)npy_real(&features, i);
    }
    for (int64_t i = 0; i < logits.n_value; i++) {
        golden->logits[i] = npy_real(&logits, i);
    }
    for (int64_t i = 0; i < train.n_value; i++) {
        golden->split[npy_int(&train, i)] = DATASET_SPLIT_TRAIN;
    }
    npy_close(&train);
    npy_close(&logits);
    npy_close(&features);
}

static void losses_open(struct golden_case *golden)
{
    char path[8192];
    snprintf(path, sizeof path, "%s/expect.json", golden->folder);
    json_t *expect = json_load_file(path, 0, NULL);
    cr_assert_not_null(expect, "%s: no JSON", path);
    golden->loss = json_number_value(json_object_get(expect, "loss"));
    const json_t *losses = json_object_get(expect, "adam_losses");
    cr_assert_eq(json_array_size(losses), GOLDEN_N_LOSS);
    for (size_t i = 0; i < GOLDEN_N_LOSS; i++) {
        golden->adam_loss[i] = json_number_value(json_array_get(losses, i));
    }
    json_decref(expect);
}

void golden_open(const char *name, struct golden_case *out)
{
    const char *shared = getenv("TRAINERD_SHARED");
    *out = (struct golden_case){.n_feature = 0};
    snprintf(out->folder, sizeof out->folder, "%s/golden/%s", shared != NULL ? shared : "../shared", name);
    if (access(out->folder, R_OK) != 0) {
        cr_skip_test("%s does not exist; set TRAINERD_SHARED to the folder that holds golden/", out->folder);
    }
    graph_open(out);
    rows_open(out);
    losses_open(out);
}

void golden_close(struct golden_case *golden)
{
    test_graph_release(&golden->graph);
    free(golden->features);
    free(golden->labels);
    free(golden->split);
    free(golden->logits);
}

void golden_weights_file(const char *path, const struct program *program, float *out)
{
    struct safetensor *want = memory_alloc((size_t)program->n_param, sizeof *want);
    for (int p = 0; p < program->n_param; p++) {
        const struct parameter *param = &program->param[p];
        want[p] = (struct safetensor){.name = param->name, .n_dim = param->n_dim, .data = out + param->offset};
        memcpy(want[p].shape, param->shape, sizeof param->shape);
    }
    cr_assert_eq(safetensors_load(path, want, (size_t)program->n_param), STATUS_OK, "%s", status_reason());
    free(want);
}

void golden_weights(const struct golden_case *golden, const char *file, const struct program *program, float *out)
{
    char path[8192];
    snprintf(path, sizeof path, "%s/%s", golden->folder, file);
    golden_weights_file(path, program, out);
}
