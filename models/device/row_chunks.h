/* Sums over rows go in chunks: at least 1024 rows each, at most ROW_CHUNK_MAX of them, a function only of the number
 * of rows. For devices whose sums must have the same bits.
 */
#ifndef MODELS_ROW_CHUNKS_H
#define MODELS_ROW_CHUNKS_H

#include <stdint.h>

#define ROW_CHUNK_MAX 128

/* Of each chunk but the last. */
static inline int64_t row_chunk_rows(int64_t n)
{
    int64_t rows = (n + ROW_CHUNK_MAX - 1) / ROW_CHUNK_MAX;
    return rows > 1024 ? rows : 1024;
}

/* Of n rows. */
static inline int64_t row_n_chunk(int64_t n)
{
    int64_t rows = row_chunk_rows(n);
    return (n + rows - 1) / rows;
}

#endif
