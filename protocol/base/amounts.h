/* The greater and the lesser of two amounts, multiples, and numbers that do not fall. */
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

/* Of numbers that do not fall the first place in [begin, end) whose number is not below `least`; end: none is. */
static inline int64_t ascending_find(const uint32_t *number, int64_t begin, int64_t end, uint32_t least)
{
    while (begin < end) {
        int64_t middle = begin + (end - begin) / 2;
        if (number[middle] < least) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

/* The same in types. */
static inline int64_t ascending_find_type(const uint16_t *type, int64_t begin, int64_t end, int least)
{
    while (begin < end) {
        int64_t middle = begin + (end - begin) / 2;
        if (type[middle] < least) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

/* How qsort puts 64-bit numbers in order. */
static inline int ascending_compare(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return *a < *b ? -1 : *a > *b;
}

#endif
