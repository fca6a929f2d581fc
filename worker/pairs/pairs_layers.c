#include "worker/pairs/pairs_layers.h"

#include "worker/rows/amounts.h"

#define ALIGN 64

static int64_t put(struct pairs_layers *layers, int64_t n_bytes)
{
    int64_t at = layers->n_bytes;
    layers->n_bytes += round_up(n_bytes, ALIGN);
    return at;
}

static int64_t rows_bytes(int64_t width)
{
    return PAIRS_LAYERS_PAIRS * width * (int64_t)sizeof(float);
}

bool pairs_layers_of(const struct program *program, const struct job *job, const struct device_ops *ops,
                     struct pairs_layers *out)
{
    *out = (struct pairs_layers){0};
    if (program->decoder < 0 || job->task.decoder != JOB_DECODER_MLP) {
        return false;
    }
    int64_t widest = 0, scratch = 0;
    out->n = (program->n_param - program->decoder) / 2;
    out->width[0] = program->value[program->logits].width;
    for (int k = 0; k < out->n; k++) {
        out->width[k + 1] = program->param[program->decoder + 2 * k + 1].shape[0];
        scratch = larger(scratch,
                         (int64_t)DEVICE_BYTES(ops, LINEAR, PAIRS_LAYERS_PAIRS, out->width[k], out->width[k + 1]));
        scratch = larger(scratch, (int64_t)DEVICE_BYTES(ops, COLUMN_SUM, PAIRS_LAYERS_PAIRS, out->width[k + 1]));
    }
    for (int k = 0; k <= out->n; k++) {
        out->at[k] = put(out, rows_bytes(out->width[k]));
        widest = larger(widest, out->width[k]);
    }
    out->grad_at[0] = put(out, rows_bytes(widest));
    out->grad_at[1] = put(out, rows_bytes(widest));
    out->scratch_at = put(out, scratch);
    return true;
}
