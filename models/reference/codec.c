/* Payload rows in low precision. */
#include "models/device/codec.h"
#include "models/reference/reference.h"

static uint16_t draw_of(const struct random_key *key, uint64_t node, int64_t c)
{
    return (uint16_t)(random_u32(key, node, (uint32_t)(c / 2)) >> (c % 2 * 16));
}

float reference_bf16(int64_t f, const void *x, int64_t row, int64_t c)
{
    uint16_t half;
    memcpy(&half, (const char *)x + row * codec_row_bytes(DEVICE_CODEC_BF16, f) + 2 * c, sizeof half);
    return codec_from_bf16(half);
}

/* One row: its number in x, and its place among residuals. */
struct row {
    int64_t at;
    const float *residual;
    float *residual_out;
    uint64_t node;
};

static float value_of(const struct device_coding *how, const struct row *row, int64_t c)
{
    float x = how->is_bf16 ? reference_bf16(how->f, how->x, row->at, c)
                           : ((const float *)how->x)[row->at * how->f + c];
    return row->residual != NULL ? x + row->residual[c] : how->factor * x;
}

static void lose(const struct row *row, int64_t c, float lost)
{
    if (row->residual_out != NULL) {
        row->residual_out[c] = lost;
    }
}

static void integers_encode(const struct device_coding *how, const struct random_key *key, const struct row *row,
                            uint8_t *out)
{
    int bits = codec_bits(how->codec), level = (1 << bits) - 1;
    float low = INFINITY, high = -INFINITY;
    bool finite = true;
    for (int64_t c = 0; c < how->f; c++) {
        float value = value_of(how, row, c);
        low = value < low ? value : low;
        high = value > high ? value : high;
        finite = finite && isfinite(value);
    }
    struct codec_range range = codec_range_make(low, high, finite, level);
    memcpy(out, &range.header, sizeof range.header);
    memset(out + sizeof range.header, 0, (size_t)codec_row_bytes(how->codec, how->f) - sizeof range.header);
    for (int64_t c = 0; c < how->f; c++) {
        float value = value_of(how, row, c);
        bool coded = range.header != CODEC_NO_NUMBER;
        uint8_t code = coded ? codec_code(&range, value, draw_of(key, row->node, c), level) : 0;
        out[sizeof range.header + (size_t)(c * bits / 8)] |= (uint8_t)(code << (c * bits % 8));
        lose(row, c, coded ? codec_lost(value, codec_value(&range, code)) : 0.0F);
    }
}

static void halves_encode(const struct device_coding *how, const struct random_key *key, const struct row *row,
                          uint8_t *out)
{
    memset(out, 0, (size_t)codec_row_bytes(how->codec, how->f));
    for (int64_t c = 0; c < how->f; c++) {
        float value = value_of(how, row, c);
        uint16_t half = codec_bf16(value, draw_of(key, row->node, c));
        memcpy(out + 2 * c, &half, sizeof half);
        lose(row, c, codec_lost(value, codec_from_bf16(half)));
    }
}

void reference_rows_encode(struct device *device, const struct device_coding *how, void *out)
{
    int64_t row_bytes = codec_row_bytes(how->codec, how->f);
    const struct random_key key = device_key(&how->key, how->now);
    (void)device;
    for (int64_t r = 0; r < how->n_row; r++) {
        int64_t at = how->rows != NULL ? how->rows[r] : r,
                place = how->residual_rows != NULL ? how->residual_rows[r] : at;
        struct row row = {.at = at, .node = how->node[at]};
        if (how->residual != NULL) {
            row.residual = how->residual + place * how->f;
            row.residual_out = how->residual_out + place * how->f;
        }
        (how->codec == DEVICE_CODEC_BF16 ? halves_encode : integers_encode)(how, &key, &row,
                                                                            (uint8_t *)out + r * row_bytes);
    }
}

void reference_rows_decode(struct device *device, enum device_codec codec, int64_t n_row, int64_t f, const void *from,
                           float *out)
{
    int bits = codec_bits(codec), level = (1 << bits) - 1;
    (void)device;
    for (int64_t r = 0; r < n_row; r++) {
        const uint8_t *row = (const uint8_t *)from + r * codec_row_bytes(codec, f);
        uint32_t header;
        memcpy(&header, row, sizeof header);
        const struct codec_range range = codec_range_read(header, level);
        for (int64_t c = 0; c < f; c++) {
            if (codec == DEVICE_CODEC_BF16) {
                out[r * f + c] = reference_bf16(f, from, r, c);
                continue;
            }
            int code = row[sizeof header + (size_t)(c * bits / 8)] >> (c * bits % 8) & level;
            out[r * f + c] = codec_value(&range, (uint32_t)code);
        }
    }
}

void reference_rows_round(struct device *device, int64_t n_row, int64_t f, float *x, void *out)
{
    int64_t row_bytes = codec_row_bytes(DEVICE_CODEC_BF16, f);
    (void)device;
    for (int64_t r = 0; r < n_row; r++) {
        char *row = out != NULL ? (char *)out + r * row_bytes : NULL;
        if (row != NULL) {
            memset(row, 0, (size_t)row_bytes);
        }
        for (int64_t c = 0; c < f; c++) {
            uint16_t half = codec_bf16_nearest(x[r * f + c]);
            x[r * f + c] = codec_from_bf16(half);
            if (row != NULL) {
                memcpy(row + 2 * c, &half, sizeof half);
            }
        }
    }
}
