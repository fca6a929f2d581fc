/* Bytes that the cpu device needs besides arguments and results. */
#include "models/cpu/cpu.h"
#include "models/device/statistics.h"

static int64_t attention_sums(const int64_t *size)
{
    const struct device_attention how = {
        .score = (enum device_score_kind)size[1], .n_head = size[2], .n_column = size[3], .n_edge_column = size[4]};
    return CPU_ATTENTION_PARTIALS * cpu_attention_sums(&how);
}

static int64_t column_sums(const int64_t *size)
{
    return row_n_chunk(size[0]) * (size[1] > 0 ? size[1] : 1);
}

/* Partial results of all chunks but the first, which uses the gradient itself; a transposed weight. */
static int64_t weight_floats(const int64_t *size)
{
    int64_t rows = cpu_weight_chunk_rows(size[0]), n_chunk = (size[0] + rows - 1) / rows;
    int64_t narrower = size[1] < size[2] ? size[1] : size[2]; /* a product goes either way */
    int64_t n_weight = n_chunk > 1 ? n_chunk - 1 : cpu_linear_turns(size[0], narrower);
    return n_weight * size[1] * size[2];
}

static size_t csr_bytes(int64_t n_row, int64_t n_col, int64_t n_value)
{
    return (size_t)(n_col + 1) * sizeof(int64_t) + (size_t)n_value * 2 * sizeof(uint32_t) +
           cpu_schedule_bytes(1, n_row, n_value) + cpu_schedule_bytes(1, n_col, n_value);
}

size_t cpu_bytes(enum device_bytes what, const int64_t *size)
{
    switch (what) {
    case DEVICE_BYTES_BLOCKS:
        return cpu_schedule_bytes(size[0], size[1], size[2]);
    case DEVICE_BYTES_CSR:
        return csr_bytes(size[0], size[1], size[2]);
    case DEVICE_BYTES_CSR_HOST: /* arrays are made where they stay */
        return 0;
    case DEVICE_BYTES_LINEAR:
        return (size_t)weight_floats(size) * sizeof(float);
    case DEVICE_BYTES_COLUMN_SUM:
        return (size_t)column_sums(size) * sizeof(double);
    case DEVICE_BYTES_CSR_LINEAR:
        return (size_t)(size[0] * size[1]) * sizeof(float);
    case DEVICE_BYTES_LAYER_NORM:
        return 2 * (size_t)column_sums(size) * sizeof(double);
    case DEVICE_BYTES_BATCH_NORM:
        return (size_t)(row_n_chunk(size[0]) * STATISTICS_N(size[1])) * sizeof(double);
    case DEVICE_BYTES_PANEL:
        return cpu_panel_bytes(size[0], size[1]);
    case DEVICE_BYTES_ATTENTION:
        return (size_t)attention_sums(size) * sizeof(double);
    case DEVICE_BYTES_RELATION_DOT:
        return (size_t)(CPU_RELATION_CHUNKS * size[0] * size[1]) * sizeof(double);
    case DEVICE_BYTES_TILE:
        return (size_t)(size[1] * (size[2] != 0 ? CPU_TILE_PARTIALS : 1)) * sizeof(double);
    case DEVICE_BYTES_BLOCK_MADE:
        return cpu_block_made_bytes(size[0], size[1], size[2], (size_t)size[3]);
    case DEVICE_BYTES_LOSS:
        return (size_t)row_n_chunk(size[0]) * sizeof(struct device_score);
    }
    return 0;
}
