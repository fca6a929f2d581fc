/* Products of numbers rounded to BF16, added in float32: c[i, j] (+)= Σ_k a[i, k] · b[k, j]. At the end small ones of
 * float32, whose order is oneDNN's.
 *
 * Order, which defines the bits: groups of 32 k from 0 on, at least one, the last filled up with zeros. In each
 * group two sums from 0, of its even k and of its odd ones, each product by one fused multiply-add, rounded to the
 * nearest. The odd sum is added to the even one, and both to c, which begins as itself or 0. Operands and sums
 * below the least normal number are 0, operands before they are rounded. That is what AMX does with a tile
 * (product_tiles.c), so that either form has the bits of the other.
 *
 * Some rows of a and inner numbers are rounded into one block, these inner numbers of some columns of b into another.
 * source  Goto & van de Geijn, ACM TOMS 2008 (blocks)
 */

#define CELL_ROWS 6
#define CELL_VECTORS ((VECTORS_MAX + 7) / 8) /* of each of two sums */
#define CELL_COLUMNS (CELL_VECTORS * LANES)
#define PRODUCT_ROWS (64 * CELL_ROWS)
#define PRODUCT_INNER (4 * CPU_PRODUCT_GROUP)
#define PRODUCT_COLUMNS 64

#if LANES > 4
#define vector_fma_flushed vector_fma /* denormals are 0 by a mode of the processor */
#endif

/* 228 KiB of the stack. */
struct product_blocks {
    _Alignas(64) float b[PRODUCT_INNER * PRODUCT_COLUMNS]; /* inner × columns */
    float a[PRODUCT_ROWS * PRODUCT_INNER];                 /* rows × inner */
};

/* Some rows and columns of a matrix, which lies row after row, or transposed: column after column. */
struct product_part {
    const float *at;
    int64_t step; /* to the next row, or column */
    bool is_transposed;
    int64_t n_row, n_column;
};

/* At most this many from a row and a column on; past the end none. */
static struct product_part product_part_at(const struct product_part *matrix, int64_t row, int64_t column,
                                           int64_t n_row, int64_t n_column)
{
    struct product_part part = *matrix;
    part.at += part.is_transposed ? column * part.step + row : row * part.step + column;
    part.n_row = smaller(n_row, part.n_row - row);
    part.n_column = smaller(n_column, part.n_column - column);
    return part;
}

/* Fetch share i of n of what is rounded next. */
INLINE void part_fetch(const struct product_part *part, int64_t i, int64_t n)
{
    const int64_t n_line = part->is_transposed ? part->n_column : part->n_row;
    const int64_t length = part->is_transposed ? part->n_row : part->n_column;
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
    if (part->is_transposed) {
        transpose(part->n_column, part->n_row, part->at, part->step, to, to_step);
    }
    for (int64_t r = 0; r < most_row; r++) {
        const int64_t n = r < part->n_row ? part->n_column : 0;
        const float *from = part->is_transposed ? to + r * to_step : part->at + r * part->step;
#pragma omp simd
        for (int64_t c = 0; c < n; c++) { /* in place, or from elsewhere */
            to[r * to_step + c] = fabsf(from[c]) < FLT_MIN ? 0.0f * from[c] : codec_round(from[c]);
        }
        for (int64_t c = n; c < most_column; c++) {
            to[r * to_step + c] = 0.0f;
        }
    }
}

/* Some of c's rows and columns; a cell may reach past these. */
struct product_cell {
    const float *a, *b;
    int64_t n_inner; /* even */
    bool begins;     /* from 0 */
    float *c;
    int64_t c_step, n_row, n_column;
};

INLINE void cell_zero(const int n_vector, vector sum[CELL_ROWS][CELL_VECTORS])
{
    for (int r = 0; r < CELL_ROWS; r++) {
        for (int v = 0; v < n_vector; v++) {
            sum[r][v] = vector_set(0.0f);
        }
    }
}

INLINE void cell_step(const int n_vector, const float *a, const float *b, vector sum[CELL_ROWS][CELL_VECTORS])
{
    vector right[CELL_VECTORS];
    for (int v = 0; v < n_vector; v++) {
        right[v] = vector_load(b + v * LANES);
    }
    for (int r = 0; r < CELL_ROWS; r++) {
        const vector left = vector_set(a[r * PRODUCT_INNER]);
        for (int v = 0; v < n_vector; v++) {
            sum[r][v] = vector_fma_flushed(left, right[v], sum[r][v]);
        }
    }
}

INLINE void cell_sum(const int n_vector, const struct product_cell *cell)
{
    static const float zeros[CELL_COLUMNS];
    const vector one = vector_set(1.0f);
    const lane_mask whole = mask_first(LANES), last = mask_first(cell->n_column - (n_vector - 1) * LANES);
    for (int64_t group = 0; group < cell->n_inner; group += CPU_PRODUCT_GROUP) {
        const int64_t end = smaller(group + CPU_PRODUCT_GROUP, cell->n_inner);
        vector even[CELL_ROWS][CELL_VECTORS], odd[CELL_ROWS][CELL_VECTORS];
        cell_zero(n_vector, even);
        cell_zero(n_vector, odd);
        for (int64_t k = group; k < end; k += 2) {
            cell_step(n_vector, cell->a + k, cell->b + k * PRODUCT_COLUMNS, even);
            cell_step(n_vector, cell->a + k + 1, cell->b + (k + 1) * PRODUCT_COLUMNS, odd);
        }
        for (int r = 0; r < CELL_ROWS && r < cell->n_row; r++) {
            for (int v = 0; v < n_vector; v++) {
                const lane_mask mask = v < n_vector - 1 ? whole : last;
                float *to = cell->c + r * cell->c_step + v * LANES;
                const vector c = vector_load_mask(cell->begins && group == 0 ? zeros : to, mask);
                const vector both = vector_fma_flushed(one, odd[r][v], even[r][v]);
                vector_store_mask(to, mask, vector_fma_flushed(one, both, c));
            }
        }
    }
}

/* Never inlined: a compiler may move arithmetic past a change of the mode, but no call. */
SHARED void cell_add(const struct product_cell *cell)
{
    if (cell->n_column > (CELL_VECTORS - 1) * LANES) {
        cell_sum(CELL_VECTORS, cell);
    } else {
        cell_sum(1, cell);
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

/* n inner numbers with zeros behind them: one pair of zeros has the bits of a group's rest, or of a group. */
static int64_t inner_filled(int64_t n)
{
    const int64_t even = (n + 1) / 2 * 2;
    return even % CPU_PRODUCT_GROUP == 0 && n > 0 ? even : even + 2;
}

TARGET static void product(const struct cpu_product *p)
{
    struct product_blocks blocks;
    const struct product_part all_a = {p->a, p->a_is_transposed ? p->m : p->k, p->a_is_transposed, p->m, p->k};
    const struct product_part all_b = {p->b, p->b_is_transposed ? p->k : p->n, p->b_is_transposed, p->k, p->n};
    const int64_t n_row = block_size(p->m, PRODUCT_ROWS, CELL_ROWS),
                  n_inner = block_size(p->k, PRODUCT_INNER, CPU_PRODUCT_GROUP);
    const int64_t n_block = (p->n + PRODUCT_COLUMNS - 1) / PRODUCT_COLUMNS;
#if LANES > 4
    const unsigned mode = _mm_getcsr();
    _mm_setcsr(0x9fc0); /* no traps, to the nearest, FTZ, DAZ */
#endif
    for (int64_t row = 0, k = 0; row < p->m;) { /* where k is 0, c becomes 0 */
        const bool is_last = k + n_inner >= p->k;
        const int64_t next_row = is_last ? row + n_row : row, next_k = is_last ? 0 : k + n_inner;
        const struct product_part a = product_part_at(&all_a, row, k, n_row, n_inner);
        const struct product_part next_a = product_part_at(&all_a, next_row, next_k, n_row, n_inner);
        const int64_t n_cell = (a.n_row + CELL_ROWS - 1) / CELL_ROWS * CELL_ROWS;
        const int64_t n_filled = inner_filled(a.n_column);
        part_round(&a, n_cell, n_filled, blocks.a, PRODUCT_INNER);
        for (int64_t i = 0; i < n_block; i++) {
            const int64_t column = i * PRODUCT_COLUMNS, next = (i + 1) % n_block * PRODUCT_COLUMNS;
            const struct product_part b = product_part_at(&all_b, k, column, n_inner, PRODUCT_COLUMNS);
            const struct product_part next_b = product_part_at(&all_b, next > 0 ? k : next_k, next, n_inner,
                                                               PRODUCT_COLUMNS);
            const struct product_cell first = {
                blocks.a, blocks.b, n_filled,  k == 0 && !p->add, p->c + row * p->n + column,
                p->n,     a.n_row,  b.n_column};
            part_round(&b, n_filled, PRODUCT_COLUMNS, blocks.b, PRODUCT_COLUMNS);
            product_cells(&first, &next_a, i, n_block, &next_b);
        }
        row = next_row;
        k = next_k;
    }
#if LANES > 4
    _mm_setcsr(mode);
#endif
}

/* --- small products in float32 --- */

#if LANES == 16

#define SMALL_INNER 384 /* numbers in one sum at most */

/* Some of c's rows and columns, over some inner numbers; a's lie apart as they do in a. */
struct small_cell {
    const float *a, *b;
    int64_t a_row, a_inner, b_step, n_inner;
    bool begins; /* from 0 */
    float *c;
    int64_t c_step, n_row, n_column;
};

INLINE void small_sum(const int n_vector, const struct small_cell *cell)
{
    const lane_mask whole = mask_first(LANES), last = mask_first(cell->n_column - (n_vector - 1) * LANES);
    const float *a[CELL_ROWS];
    vector sum[CELL_ROWS][CELL_VECTORS], right[CELL_VECTORS];
    cell_zero(n_vector, sum);
    for (int r = 0; r < CELL_ROWS; r++) {
        a[r] = cell->a + smaller(r, cell->n_row - 1) * cell->a_row;
    }
    for (int64_t k = 0; k < cell->n_inner; k++) {
        for (int v = 0; v < n_vector; v++) {
            right[v] = vector_load_mask(cell->b + k * cell->b_step + v * LANES, v < n_vector - 1 ? whole : last);
        }
        for (int r = 0; r < CELL_ROWS; r++) {
            const vector left = vector_set(a[r][k * cell->a_inner]);
            for (int v = 0; v < n_vector; v++) {
                sum[r][v] = vector_fma(left, right[v], sum[r][v]);
            }
        }
    }
    for (int r = 0; r < CELL_ROWS && r < cell->n_row; r++) {
        for (int v = 0; v < n_vector; v++) {
            const lane_mask mask = v < n_vector - 1 ? whole : last;
            float *to = cell->c + r * cell->c_step + v * LANES;
            vector_store_mask(to, mask, cell->begins ? sum[r][v] : vector_add(vector_load_mask(to, mask), sum[r][v]));
        }
    }
}

/* oneDNN's next run of inner numbers where n are left. */
static int64_t small_run(int64_t n)
{
    return n >= 2 * SMALL_INNER ? SMALL_INNER : n > SMALL_INNER ? (n + 1) / 2 : n;
}

/* Each run is added from 0, one fused multiply-add after the other, and then to c. */
TARGET static void product_small(const struct cpu_product *p)
{
    _Alignas(64) float transposed[SMALL_INNER * CELL_COLUMNS]; /* 48 KiB of the stack */
    for (int64_t k = 0; k < p->k; k += small_run(p->k - k)) {
        for (int64_t column = 0; column < p->n; column += CELL_COLUMNS) {
            struct small_cell cell = {.b = p->b_is_transposed ? transposed : p->b + k * p->n + column,
                                      .a_row = p->a_is_transposed ? 1 : p->k,
                                      .a_inner = p->a_is_transposed ? p->m : 1,
                                      .b_step = p->b_is_transposed ? CELL_COLUMNS : p->n,
                                      .n_inner = small_run(p->k - k),
                                      .begins = k == 0 && !p->add,
                                      .c_step = p->n,
                                      .n_column = smaller(CELL_COLUMNS, p->n - column)};
            if (p->b_is_transposed) {
                transpose(cell.n_column, cell.n_inner, p->b + column * p->k + k, p->k, transposed, CELL_COLUMNS);
            }
            for (int64_t row = 0; row < p->m; row += CELL_ROWS) {
                cell.a = p->a + row * cell.a_row + k * cell.a_inner;
                cell.c = p->c + row * p->n + column;
                cell.n_row = p->m - row;
                if (cell.n_column > LANES) {
                    small_sum(CELL_VECTORS, &cell);
                } else {
                    small_sum(1, &cell);
                }
            }
        }
    }
}
#else
#define product_small NULL
#endif
