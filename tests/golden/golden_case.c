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

static void sizes_open(struct golden_case *golden)
{
    struct npy features = array_open(golden, "features.npy"), logits = array_open(golden, "logits.npy");
    char types_path[8192];
    snprintf(types_path, sizeof types_path, "%s/edge_type.npy", golden->folder);
    golden->n_node = logits.shape[0];
    golden->n_feature = features.shape[1];
    golden->n_class = (int32_t)logits.shape[1];
    if (npy_exists(types_path)) {
        struct npy types = array_open(golden, "edge_type.npy");
        for (int64_t e = 0; e < types.n_value; e++) {
            int32_t n = (int32_t)npy_int(&types, e) + 1;
            golden->n_relation = n > golden->n_relation ? n : golden->n_relation;
        }
        npy_close(&types);
    }
    golden->logits = memory_alloc((size_t)logits.n_value, sizeof *golden->logits);
    for (int64_t i = 0; i < logits.n_value; i++) {
        golden->logits[i] = npy_real(&logits, i);
    }
    npy_close(&logits);
    npy_close(&features);
}

static void losses_open(struct golden_case *golden)
{
    char path[8192];
    snprintf(path, sizeof path, "%s/expect.json", golden->folder);
    json_t *expect = json_load_file(path, 0, NULL);
    cr_assert_not_null(expect, "%s: no JSON", path);
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
    sizes_open(out);
    losses_open(out);
}

void golden_close(struct golden_case *golden)
{
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
