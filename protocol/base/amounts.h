/* The greater and the lesser of two amounts, and multiples. */
#ifndef PROTOCOL_AMOUNTS_H
#define PROTOCOL_AMOUNTS_H

#include <stdint.h>

static inline int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

#endif
