/* Hostile bytes made of good ones, by what the campaign draws: bits, lengths, numbers, nesting, encodings. */
#ifndef TESTS_SYSTEM_ATTACK_MUTATION_H
#define TESTS_SYSTEM_ATTACK_MUTATION_H

#include <stddef.h>

enum { MUTATION_BYTES = 1 << 16 }; /* of what is made, the NUL behind it included */

/* Change a copy of n bytes, at most 32 KiB, in one to three ways; gives how many there are. */
size_t mutation_make(const void *bytes, size_t n, char out[MUTATION_BYTES]);

#endif
