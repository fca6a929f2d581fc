/* Products of numbers rounded to BF16, added in float32: c[i, j] (+)= Σ_k a[i, k] · b[k, j].
 *
 * Order, which defines the bits: from c or from 0, k = 1, 0, 3, 2, 5, 4, … each with one fused multiply-add, rounded
 * to the nearest. An odd k ends with a product of zeros. Operands and sums below the least normal number are 0. That
 * is what vdpbf16ps does with pairs, so that either form has the bits of the other.
 *
 * Some rows of a and inner numbers are rounded into one block, these inner numbers of some columns of b into another.
 * Cells of c stay in registers for one pair of blocks, and go on from memory with the next.
 * source  Goto & van de Geijn, ACM TOMS 2008 (blocks)
 */

#define CELL_ROWS 6
#define CELL_VECTORS (VECTORS_MAX / 4)
#define CELL_COLUMNS (CELL_VECTORS * LANES)
#define CELL_FEWER(n) ((n) < CELL_VECTORS ? (n) : CELL_VECTORS) /* vectors of narrower cells */
#define PRODUCT_ROWS (64 * CELL_ROWS)
#define PRODUCT_INNER 128
#define PRODUCT_COLUMNS 64

#if LANES > 4
#define vector_fma_flushed vector_fma /* denormals are 0 by a mode of the processor */
#endif
#ifdef VECTOR_PAIRS
#define PRODUCT_PAIRS true
#else
#define PRODUCT_PAIRS false
#define vector_pairs_fma vector_fma_flushed /* never called */
#endif

/* 228 KiB of the stack. As pairs, two numbers of BF16 are one float's bits, and fill half of each block. */
struct product_blocks {
    _Alignas(64) float b[PRODUCT_INNER * PRODUCT_COLUMNS]; /* inner × columns */
    float a[PRODUCT_ROWS * PRODUCT_INNER];                 /* rows × inner */
};

/* Some rows and columns of a matrix, which lies row after row, or turned: column after column. */
struct product_part {
    const float *at;
    int64_t step; /* to the next row, or column */
    bool is_turned;
    int64_t n_row, n_column;
};

/* At most this many from a row and a column on; past the end none. */
static struct product_part part_of(const struct product_part *matrix, int64_t row, int64_t column, int64_t n_row,
                                   int64_t n_column)
{
    struct product_part part = *matrix;
    part.at += part.is_turned ? column * part.step + row : row * part.step + column;
    part.n_row = smaller(n_row, part.n_row - row);
    part.n_column = smaller(n_column, part.n_column - column);
    return part;
}

/* Fetch share i of n of what is rounded next. */
INLINE void part_fetch(const struct product_part *part, int64_t i, int64_t n)
{
    const int64_t n_line = part->is_turned ? part->n_column : part->n_row;
    const int64_t length = part->is_turned ? part->n_row : part->n_column;
    for (int64_t r = n_line * i / n; r < n_line * (i + 1) / n; r++) {
        for (int64_t c = 0; c < length; c += LINE_FLOATS) {
            __builtin_prefetch(part->at + r * part->step + c, 0, 2);
        }
    }
}

/* to, of rows to_step apart, becomes the part, rounded; 0 up to most_row rows and most_column columns. */
TARGET static void part_round(const struct product_part *part, int64_t most_row, int64_t most_column, float *to,
                              int64_t to_step)
{
    if (part->is_turned) {
        transpose(part->n_column, part->n_row, part->at, part->step, to, to_step);
    }
    for (int64_t r = 0; r < most_row; r++) {
        const int64_t n = r < part->n_row ? part->n_column : 0;
        const float *from = part->is_turned ? to + r * to_step : part->at + r * part->step;
#pragma omp simd
        for (int64_t c = 0; c < n; c++) { /* in place, or from elsewhere */
            to[r * to_step + c] = codec_round(from[c]);
        }
        for (int64_t c = n; c < most_column; c++) {
            to[r * to_step + c] = 0.0f;
        }
    }
}

/* Two rounded numbers, the first in the lower half. */
INLINE float pair_of(float first, float second)
{
    return codec_from_bits(codec_to_bits(first) >> 16 | codec_to_bits(second));
}

/* a's rows become half as long, b's half as many. */
TARGET static void pairs_of_a(int64_t n_row, int64_t n_inner, float *a)
{
    for (float row[PRODUCT_INNER]; n_row > 0; n_row--, a += PRODUCT_INNER) {
        memcpy(row, a, (size_t)n_inner * sizeof *row);
        for (int64_t k = 0; k < n_inner / 2; k++) {
            a[k] = pair_of(row[2 * k], row[2 * k + 1]);
        }
    }
}

TARGET static void pairs_of_b(int64_t n_inner, float *b)
{
    for (int64_t k = 0; k < n_inner / 2; k++) {
        const float *first = b + 2 * k * PRODUCT_COLUMNS;
        for (int64_t c = 0; c < PRODUCT_COLUMNS; c++) {
            b[k * PRODUCT_COLUMNS + c] = pair_of(first[c], first[PRODUCT_COLUMNS + c]);
        }
    }
}

/* Some of c's rows and columns; a cell may reach past these. */
struct product_cell {
    const float *a, *b;
    int64_t n_inner; /* even */
    bool by_pairs;
    bool begins; /* from 0 */
    float *c;
    int64_t c_step, n_row, n_column;
};

INLINE void cell_step(const bool by_pairs, const int n_vector, const float *a, const float *b,
                      vector sum[CELL_ROWS][CELL_VECTORS])
{
    vector right[CELL_VECTORS];
    for (int v = 0; v < n_vector; v++) {
        right[v] = vector_load(b + v * LANES);
    }
    for (int r = 0; r < CELL_ROWS; r++) {
        const vector left = vector_set(a[r * PRODUCT_INNER]);
        for (int v = 0; v < n_vector; v++) {
            sum[r][v] = by_pairs ? vector_pairs_fma(left, right[v], sum[r][v])
                                 : vector_fma_flushed(left, right[v], sum[r][v]);
        }
    }
}

INLINE void cell_sum(const bool by_pairs, const int n_vector, const struct product_cell *cell)
{
    static const float zeros[CELL_COLUMNS];
    float nowhere[CELL_COLUMNS];
    const lane_mask whole = mask_first(LANES), last = mask_first(cell->n_column - (n_vector - 1) * LANES);
    vector sum[CELL_ROWS][CELL_VECTORS];
    for (int r = 0; r < CELL_ROWS; r++) {
        const float *from = cell->begins || r >= cell->n_row ? zeros : cell->c + r * cell->c_step;
        for (int v = 0; v < n_vector; v++) {
            sum[r][v] = vector_load_mask(from + v * LANES, v < n_vector - 1 ? whole : last);
        }
    }
    for (int64_t k = 0; k < cell->n_inner / (by_pairs ? 2 : 1); k += by_pairs ? 1 : 2) {
        if (!by_pairs) {
            cell_step(false, n_vector, cell->a + k + 1, cell->b + (k + 1) * PRODUCT_COLUMNS, sum);
        }
        cell_step(by_pairs, n_vector, cell->a + k, cell->b + k * PRODUCT_COLUMNS, sum);
    }
    for (int r = 0; r < CELL_ROWS; r++) {
        float *to = r < cell->n_row ? cell->c + r * cell->c_step : nowhere;
        for (int v = 0; v < n_vector; v++) {
            vector_store_mask(to + v * LANES, v < n_vector - 1 ? whole : last, sum[r][v]);
        }
    }
}

INLINE void cell_of(const bool by_pairs, const struct product_cell *cell)
{
    const int64_t n_vector = (cell->n_column + LANES - 1) / LANES;
    if (n_vector == CELL_VECTORS) {
        cell_sum(by_pairs, CELL_VECTORS, cell);
    } else if (n_vector == 3) {
        cell_sum(by_pairs, CELL_FEWER(3), cell);
    } else if (n_vector == 2) {
        cell_sum(by_pairs, CELL_FEWER(2), cell);
    } else {
        cell_sum(by_pairs, 1, cell);
    }
}

/* Never inlined: a compiler may move arithmetic past a change of the mode, but no call. */
SHARED void cell_add(const struct product_cell *cell)
{
    if (PRODUCT_PAIRS && cell->by_pairs) {
        cell_of(true, cell);
    } else {
        cell_of(false, cell);
    }
}

/* All that one pair of blocks adds to c, from first's on. Meanwhile, what is next comes into the caches: share i of n
 * of a. */
TARGET static void product_cells(const struct product_cell *first, const struct product_part *next_a, int64_t i,
                                 int64_t n, const struct product_part *next_b)
{
    const int64_t n_step = (first->n_row + CELL_ROWS - 1) / CELL_ROWS;
    for (int64_t r = 0; r < first->n_row; r += CELL_ROWS) {
        part_fetch(next_a, i * n_step + r / CELL_ROWS, n * n_step);
        part_fetch(next_b, r / CELL_ROWS, n_step);
        for (int64_t column = 0; column < first->n_column; column += CELL_COLUMNS) {
            struct product_cell cell = *first;
            cell.a += r * PRODUCT_INNER;
            cell.b += column;
            cell.c += r * cell.c_step + column;
            cell.n_row -= r;
            cell.n_column = smaller(first->n_column - column, CELL_COLUMNS);
            cell_add(&cell);
        }
    }
}

/* The least multiple of a unit that takes no more blocks than `most` does. */
static int64_t block_size(int64_t n, int64_t most, int64_t unit)
{
    const int64_t n_block = n > most ? (n + most - 1) / most : 1;
    return smaller(most, ((n + n_block - 1) / n_block / unit + 1) * unit);
}

TARGET static void product(const struct cpu_product *p)
{
    struct product_blocks blocks;
    const struct product_part all_a = {p->a, p->a_is_turned ? p->m : p->k, p->a_is_turned, p->m, p->k};
    const struct product_part all_b = {p->b, p->b_is_turned ? p->k : p->n, p->b_is_turned, p->k, p->n};
    const int64_t n_row = block_size(p->m, PRODUCT_ROWS, CELL_ROWS), n_inner = block_size(p->k, PRODUCT_INNER, 2);
    const int64_t n_block = (p->n + PRODUCT_COLUMNS - 1) / PRODUCT_COLUMNS;
#if LANES > 4
    const unsigned mode = _mm_getcsr();
    _mm_setcsr(0x9fc0); /* no traps, to the nearest, FTZ, DAZ */
#endif
    for (int64_t row = 0, k = 0; row < p->m;) { /* where k is 0, c becomes 0 */
        const bool is_last = k + n_inner >= p->k;
        const int64_t next_row = is_last ? row + n_row : row, next_k = is_last ? 0 : k + n_inner;
        const struct product_part a = part_of(&all_a, row, k, n_row, n_inner);
        const struct product_part next_a = part_of(&all_a, next_row, next_k, n_row, n_inner);
        const int64_t n_cell = (a.n_row + CELL_ROWS - 1) / CELL_ROWS * CELL_ROWS, n_even = (a.n_column + 1) / 2 * 2;
        part_round(&a, n_cell, n_even, blocks.a, PRODUCT_INNER);
        if (PRODUCT_PAIRS && p->by_pairs) {
            pairs_of_a(n_cell, n_even, blocks.a);
        }
        for (int64_t i = 0; i < n_block; i++) {
            const int64_t column = i * PRODUCT_COLUMNS, next = (i + 1) % n_block * PRODUCT_COLUMNS;
            const struct product_part b = part_of(&all_b, k, column, n_inner, PRODUCT_COLUMNS);
            const struct product_part next_b = part_of(&all_b, next > 0 ? k : next_k, next, n_inner, PRODUCT_COLUMNS);
            const struct product_cell first = {blocks.a,    blocks.b,          n_even,
                                               p->by_pairs, k == 0 && !p->add, p->c + row * p->n + column,
                                               p->n,        a.n_row,           b.n_column};
            part_round(&b, n_even, PRODUCT_COLUMNS, blocks.b, PRODUCT_COLUMNS);
            if (PRODUCT_PAIRS && p->by_pairs) {
                pairs_of_b(n_even, blocks.b);
            }
            product_cells(&first, &next_a, i, n_block, &next_b);
        }
        row = next_row;
        k = next_k;
    }
#if LANES > 4
    _mm_setcsr(mode);
#endif
}
