/* Low-precision rows: the encoding of one element, and the bytes of a row.
 *
 * BF16: the upper 16 bits, a row filled up to 4 bytes. INT8, INT4, INT2: each row by itself, q = 0 … L = 2^bits - 1
 * equal steps from `low` to `high`, which are bf16 and no narrower than the row. A row is those two (4 bytes), then
 * its codes from the lowest bits of each byte up, filled up to 4 bytes. Rounding is stochastic by 16 random bits: x
 * lies between two codes and becomes each with the chance that makes it x on average. A row with an element that is
 * not finite becomes NaN. Every device computes exactly this, in float, each step rounded.
 * source  Wan et al., MLSys 2023 (AdaQP), eq. 4
 */
#ifndef MODELS_CODEC_H
#define MODELS_CODEC_H

#include "models/device/device.h"

#include <math.h>
#include <string.h>

/* Also for kernels of the cuda device, which are C++. */
#ifdef __CUDACC__
#define CODEC_FUNCTION static inline __host__ __device__
#else
#define CODEC_FUNCTION static inline
#endif

/* Of an element; 0: FP32 is no codec. */
CODEC_FUNCTION int codec_bits(enum device_codec codec)
{
    switch (codec) {
    case DEVICE_CODEC_BF16:
        return 16;
    case DEVICE_CODEC_INT8:
        return 8;
    case DEVICE_CODEC_INT4:
        return 4;
    case DEVICE_CODEC_INT2:
        return 2;
    case DEVICE_CODEC_FP32:
        break;
    }
    return 0;
}

CODEC_FUNCTION int64_t codec_row_bytes(enum device_codec codec, int64_t f)
{
    if (codec == DEVICE_CODEC_FP32) {
        return f * (int64_t)sizeof(float);
    }
    int64_t n_word = (f * codec_bits(codec) + 31) / 32;
    return 4 * (n_word + (codec != DEVICE_CODEC_BF16));
}

/* Bytes of a row of an array of floats, or of BF16. */
CODEC_FUNCTION int64_t codec_stored_bytes(bool bf16, int64_t f)
{
    return codec_row_bytes(bf16 ? DEVICE_CODEC_BF16 : DEVICE_CODEC_FP32, f);
}

CODEC_FUNCTION uint32_t codec_to_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

CODEC_FUNCTION float codec_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The number of these upper 16 bits. */
CODEC_FUNCTION float codec_from_bf16(uint16_t half)
{
    return codec_from_bits((uint32_t)half << 16);
}

/* x rounded up or down to bf16, by 16 random bits. */
CODEC_FUNCTION uint16_t codec_bf16(float x, uint16_t draw)
{
    uint32_t bits = codec_to_bits(x);
    if ((bits & 0x7f800000u) == 0x7f800000u) {
        return (uint16_t)(bits >> 16 | ((bits & 0x7fffffu) != 0 ? 0x40u : 0u));
    }
    return (uint16_t)((bits + draw) >> 16);
}

/* The nearest bf16, of two equally near the one whose last bit is 0. */
CODEC_FUNCTION float codec_round(float x)
{
    uint32_t bits = codec_to_bits(x), nearest = bits + 0x7fffu + (bits >> 16 & 1u);
    return codec_from_bits(((bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : nearest) & 0xffff0000u);
}

CODEC_FUNCTION uint16_t codec_bf16_nearest(float x)
{
    return (uint16_t)(codec_to_bits(codec_round(x)) >> 16);
}

/* The nearest bf16 that is not above x, or with `up` not below it. */
CODEC_FUNCTION uint16_t codec_bf16_outwards(float x, bool up)
{
    uint32_t bits = codec_to_bits(x);
    bool away = (bits >> 31 == 0) == up && (bits & 0xffffu) != 0; /* from zero */
    return (uint16_t)((bits >> 16) + (away ? 1 : 0));
}

/* The header of a row of NaN, without a rounding error. */
#define CODEC_NO_NUMBER 0x7fc07fc0u

/* The values of a row's codes: q is low + q · step. */
struct codec_range {
    uint32_t header; /* low in its lower half, high in its upper one */
    float low, step, per_step;
};

CODEC_FUNCTION struct codec_range codec_range_read(uint32_t header, int level)
{
    float low = codec_from_bits(header << 16), high = codec_from_bits(header & 0xffff0000u), width = high - low;
    struct codec_range range = {header, low, width / (float)level, width > 0.0F ? (float)level / width : 0.0F};
    return range;
}

/* For a row whose elements lie between these; with other elements the whole row is NaN. */
CODEC_FUNCTION struct codec_range codec_range_make(float low, float high, bool finite, int level)
{
    uint32_t header = (uint32_t)codec_bf16_outwards(low, false) | (uint32_t)codec_bf16_outwards(high, true) << 16;
    struct codec_range range = codec_range_read(header, level), none = {CODEC_NO_NUMBER, 0.0F, 0.0F, 0.0F};
    return finite && isfinite(range.step) ? range : none;
}

CODEC_FUNCTION uint8_t codec_code(const struct codec_range *range, float x, uint16_t draw, int level)
{
    int code = (int)((x - range->low) * range->per_step + ((float)draw + 0.5F) * 0x1p-16F);
    return (uint8_t)(code < level ? code : level);
}

/* The decoded value of a code. */
CODEC_FUNCTION float codec_value(const struct codec_range *range, uint32_t code)
{
    return range->low + (float)code * range->step;
}

/* The rounding error of x, decoded as `value`. */
CODEC_FUNCTION float codec_lost(float x, float value)
{
    float lost = x - value;
    return isfinite(lost) ? lost : 0.0F;
}

#endif
