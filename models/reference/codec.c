/* Payload rows in low precision. */
#include "models/codec.h"
#include "models/reference/reference.h"

static uint16_t draw_of(const struct random_key *key, uint64_t node, int64_t c)
{
    return (uint16_t)(random_u32(key, node, (uint32_t)(c / 2)) >> (c % 2 * 16));
}

static void integers_encode(const struct device_coding *how, const struct random_key *key, uint64_t node, const float *x,
                            uint8_t *out)
{
    int bits = codec_bits(how->codec), level = (1 << bits) - 1;
    float low = INFINITY, high = -INFINITY;
    bool finite = true;
    for (int64_t c = 0; c < how->f; c++) {
        float value = how->factor * x[c];
        low = value < low ? value : low;
        high = value > high ? value : high;
        finite = finite && isfinite(value);
    }
    struct codec_range range = codec_range_make(low, high, finite, level);
    memcpy(out, &range.header, sizeof range.header);
    memset(out + sizeof range.header, 0, (size_t)codec_row_bytes(how->codec, how->f) - sizeof range.header);
    for (int64_t c = 0; c < how->f && finite; c++) {
        uint8_t code = codec_code(&range, how->factor * x[c], draw_of(key, node, c), level);
        out[sizeof range.header + (size_t)(c * bits / 8)] |= (uint8_t)(code << (c * bits % 8));
    }
}

void reference_rows_encode(struct device *device, const struct device_coding *how, void *out)
{
    int64_t row_bytes = codec_row_bytes(how->codec, how->f);
    const struct random_key key = device_key(&how->key, how->now);
    (void)device;
    for (int64_t r = 0; r < how->n_row; r++) {
        int64_t row = how->rows != NULL ? how->rows[r] : r;
        const float *x = how->x + row * how->f;
        uint8_t *to = (uint8_t *)out + r * row_bytes;
        struct device_coding one = *how;
        one.factor *= how->factors != NULL ? how->factors[r] : 1.0F;
        if (how->codec != DEVICE_CODEC_BF16) {
            integers_encode(&one, &key, how->node[row], x, to);
            continue;
        }
        memset(to, 0, (size_t)row_bytes);
        for (int64_t c = 0; c < how->f; c++) {
            uint16_t half = codec_bf16(one.factor * x[c], draw_of(&key, how->node[row], c));
            memcpy(to + 2 * c, &half, sizeof half);
        }
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
        const struct codec_range range = codec_range_of(header, level);
        for (int64_t c = 0; c < f; c++) {
            uint16_t half;
            memcpy(&half, row + (codec == DEVICE_CODEC_BF16 ? 2 * c : 0), sizeof half);
            int code = row[sizeof header + (size_t)(codec == DEVICE_CODEC_BF16 ? 0 : c * bits / 8)] >> (c * bits % 8) & level;
            out[r * f + c] = codec == DEVICE_CODEC_BF16 ? codec_from_bits((uint32_t)half << 16)
                                                        : range.low + (float)code * range.step;
        }
    }
}
