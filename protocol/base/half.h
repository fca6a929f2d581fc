/* IEEE half-precision numbers, as arrays of features and weights hold them. */
#ifndef PROTOCOL_HALF_H
#define PROTOCOL_HALF_H

#include <stdint.h>
#include <string.h>

/* A half as float, exactly; infinities and NaN stay what they are. */
static inline float half_to_float(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t exponent = bits >> 10 & 0x1fu;
    uint32_t fraction = bits & 0x3ffu;
    if (exponent == 0) {
        float small = (float)fraction * 0x1p-24f;
        return sign != 0 ? -small : small;
    }
    uint32_t wide = exponent == 31 ? 255u : exponent + 112u;
    uint32_t word = sign | wide << 23 | fraction << 13;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

#endif
