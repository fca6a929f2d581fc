/* A search in numbers that do not fall, and how qsort puts them so. */
#ifndef PROTOCOL_ASCENDING_H
#define PROTOCOL_ASCENDING_H

#include <stdint.h>

/* The first place in [begin, end) whose number is not below `least`; end: none is. */
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

static inline int ascending_compare(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return *a < *b ? -1 : *a > *b;
}

#endif
