/* Sum and maximum over neighbours, over the vector alphabet: the output row stays in registers while its edges stream
 * by.
 *
 *   out_i = row_scale_i · (start_i + Σ_e weight_e · x_col(e))    start_i: self_scale_i · self_i, out_i so far, or 0;
 *   apart: out_i + (0 + Σ_e …) out_ic = max_e x_col(e),c    arg_ic: the first edge's column that reaches it
 *
 * Every lane adds its own column's values in the order of the edges, so the width of a vector changes no bit. The
 * rows of edges some way ahead are prefetched across row borders: on a graph in random order nearly every row is a
 * miss.
 */

/* Edges whose rows are fetched ahead: about 16 KiB of rows, so that they cover a miss to memory and stay in the first
 * cache; narrow rows take less time each and need more edges. */
#define PREFETCH_EDGES(n_vector) ((n_vector)*LANES <= 64 ? 64 : 4096 / ((n_vector)*LANES))
#define LINE_FLOATS 16

INLINE void prefetch_row(const float *row, const int n_vector, int64_t n_column)
{
    for (int i = 0; i < n_vector * LANES; i += LINE_FLOATS) {
        __builtin_prefetch(row + i);
    }
    if (n_column % LINE_FLOATS != 0) { /* a row that ends inside a line may reach one line further */
        __builtin_prefetch(row + n_column - 1);
    }
}

INLINE void prefetch_bf16(const uint16_t *row, const int n_vector, int64_t n_column)
{
    for (int i = 0; i < n_vector * LANES; i += 2 * LINE_FLOATS) {
        __builtin_prefetch(row + i);
    }
    if (n_column % (2 * LINE_FLOATS) != 0) {
        __builtin_prefetch(row + n_column - 1);
    }
}

INLINE float edge_weight(const struct cpu_sum *s, enum cpu_weight kind, int64_t e, uint32_t col)
{
    switch (kind) {
    case CPU_WEIGHT_NONE:
        return 1.0f;
    case CPU_WEIGHT_COLUMN:
        return s->weight[col];
    case CPU_WEIGHT_EDGE:
        return s->weight[e];
    case CPU_WEIGHT_EDGE_COLUMN:
        return s->weight[e] * s->scale[col];
    default:
        return s->weight[s->position[e]];
    }
}

/* Weights that lie in the order of the edges need no help. */
INLINE void prefetch_weight(const struct cpu_sum *s, enum cpu_weight kind, int64_t e, uint32_t col)
{
    if (kind == CPU_WEIGHT_COLUMN) {
        __builtin_prefetch(s->weight + col);
    } else if (kind == CPU_WEIGHT_EDGE_COLUMN) {
        __builtin_prefetch(s->scale + col);
    } else if (kind == CPU_WEIGHT_PERMUTED) {
        __builtin_prefetch(s->weight + s->position[e]);
    }
}

/* A vector of columns: those of a mask, unless all of them are there (whole). */
INLINE vector columns_load(const float *at, const bool whole, lane_mask mask)
{
    return whole ? vector_load(at) : vector_load_mask(at, mask);
}

INLINE void columns_store(float *at, const bool whole, lane_mask mask, vector x)
{
    if (whole) {
        vector_store(at, x);
    } else {
        vector_store_mask(at, mask, x);
    }
}

/* Vector v of n_vector, of which the last one has a mask, unless the columns fill it (whole). */
INLINE vector last_load(const float *at, int v, const int n_vector, const bool whole, lane_mask mask)
{
    return columns_load(at + v * LANES, whole || v < n_vector - 1, mask);
}

INLINE void last_store(float *at, int v, const int n_vector, const bool whole, lane_mask mask, vector x)
{
    columns_store(at + v * LANES, whole || v < n_vector - 1, mask, x);
}

/* What a loop is compiled for: how an edge is weighed, and whether x is BF16. */
struct sum_case {
    enum cpu_weight kind;
    bool bf16;
};

/* As last_load, of BF16. */
INLINE vector last_load_bf16(const uint16_t *at, int v, const int n_vector, int64_t n_column, const bool whole)
{
    if (whole || v < n_vector - 1) {
        return vector_load_bf16(at + v * LANES);
    }
    uint16_t last[LANES] = {0};
    memcpy(last, at + v * LANES, (size_t)(n_column - v * LANES) * sizeof *last);
    return vector_load_bf16(last);
}

/* A row of x, from the column on that is summed first. */
INLINE const void *source_row(const struct cpu_sum *s, int64_t row, int64_t column, const bool bf16)
{
    int64_t at = row * s->x_stride + column - s->column;
    return bf16 ? (const void *)((const uint16_t *)s->x + at) : (const void *)((const float *)s->x + at);
}

/* acc += weight · x of an edge, one fma (without weights: one addition). bordered: others may be marked, too */
INLINE void sum_edge(const struct cpu_sum *s, int64_t e, uint32_t col, int64_t column, int64_t n_column,
                     const int n_vector, const struct sum_case is, const bool bordered, const bool whole,
                     lane_mask mask, vector *acc)
{
    const int64_t ahead = smaller(e + PREFETCH_EDGES(n_vector), s->n_edge - 1);
    const uint32_t col_ahead = bordered ? s->cols[ahead] & ~DEVICE_MARKS : s->cols[ahead];
    const void *far = source_row(s, col_ahead, column, is.bf16);
    if (is.bf16) {
        prefetch_bf16(far, n_vector, n_column);
    } else {
        prefetch_row(far, n_vector, n_column);
    }
    prefetch_weight(s, is.kind, ahead, col_ahead);
    const void *row = source_row(s, col, column, is.bf16);
    vector weight = vector_set(edge_weight(s, is.kind, e, col));
    for (int v = 0; v < n_vector; v++) {
        vector value = is.bf16 ? last_load_bf16(row, v, n_vector, n_column, whole)
                               : last_load(row, v, n_vector, whole, mask);
        acc[v] = is.kind == CPU_WEIGHT_NONE ? vector_add(acc[v], value) : vector_fma(weight, value, acc[v]);
    }
}

/* Likewise of edges begin … end-1, one after another. piece: the first may be marked, and nothing is done about it.
 * (Of the few others that are, behind the end, what is prefetched is of no use.) */
INLINE void sum_edges(const struct cpu_sum *s, int64_t begin, int64_t end, int64_t column, int64_t n_column,
                      const int n_vector, const struct sum_case is, const bool piece, const bool whole,
                      lane_mask mask, vector *acc)
{
    uint32_t col = piece ? s->cols[begin] & ~DEVICE_MARKS : 0;
    for (int64_t e = begin; e < end;) {
        sum_edge(s, e, piece ? col : s->cols[e], column, n_column, n_vector, is, false, whole, mask, acc);
        e++;
        col = piece && e < end ? s->cols[e] : 0;
    }
}

/* Likewise of joined blocks: what comes behind a border is summed alone, from 0, up to the next one. There is no
 * branch, which would be mispredicted at each border of short runs: an edge adds the part so far, or does not. -0 + x
 * is x, whatever x is. */
INLINE void sum_bordered_edges(const struct cpu_sum *s, int64_t begin, int64_t end, int64_t column, int64_t n_column,
                               const int n_vector, const struct sum_case is, const bool whole, lane_mask mask,
                               vector *acc)
{
    vector sum[VECTORS_MAX];
    for (int v = 0; v < n_vector; v++) {
        sum[v] = vector_set(-0.0f);
    }
    for (int64_t e = begin; e < end; e++) {
        const uint32_t col = s->cols[e];
        lane_mask border = mask_first((col & DEVICE_BORDER) != 0 ? LANES : 0);
        for (int v = 0; v < n_vector; v++) {
            sum[v] = vector_add_where(border, sum[v], acc[v]);
            acc[v] = vector_zero_where(border, acc[v]);
        }
        sum_edge(s, e, col & ~DEVICE_MARKS, column, n_column, n_vector, is, true, whole, mask, acc);
    }
    for (int v = 0; v < n_vector; v++) {
        acc[v] = vector_add(sum[v], acc[v]);
    }
}

/* What a row's vector v of columns starts from. */
INLINE vector row_start(const struct cpu_sum *s, int64_t row, int64_t column, int v, const int n_vector,
                        int64_t n_column, const bool whole, lane_mask mask)
{
    if (!s->begin) {
        return s->apart ? vector_set(0.0f) : last_load(s->out + row * s->f + column, v, n_vector, whole, mask);
    }
    if (s->self == NULL) {
        return vector_set(0.0f);
    }
    int64_t at = row * s->self_stride + column;
    vector self = s->self_is_bf16 ? last_load_bf16((const uint16_t *)s->self + at, v, n_vector, n_column, whole)
                                  : last_load((const float *)s->self + at, v, n_vector, whole, mask);
    return s->self_scale != NULL ? vector_multiply(self, vector_set(s->self_scale[row])) : self;
}

INLINE void row_finish(const struct cpu_sum *s, int64_t row, int64_t column, const int n_vector, const bool whole,
                       lane_mask mask, vector *acc)
{
    float *out = s->out + row * s->f + column;
    for (int v = 0; v < n_vector; v++) {
        if (s->apart) {
            acc[v] = vector_add(last_load(out, v, n_vector, whole, mask), acc[v]);
        }
        if (s->row_scale != NULL) {
            acc[v] = vector_multiply(acc[v], vector_set(s->row_scale[row]));
        }
        if (s->stream) {
            vector_stream(out + v * LANES, acc[v]);
        } else {
            last_store(out, v, n_vector, whole, mask, acc[v]);
        }
    }
}

/* One row over columns column … column+n_column-1: start, edges, scale, store. */
INLINE void sum_row(const struct cpu_sum *s, int64_t r, int64_t column, int64_t n_column, const int n_vector,
                    const struct sum_case is, const bool bordered, const bool whole, lane_mask mask)
{
    vector acc[VECTORS_MAX];
    int64_t row = s->rows != NULL ? s->rows[r] : r;
    for (int v = 0; v < n_vector; v++) {
        acc[v] = row_start(s, row, column, v, n_vector, n_column, whole, mask);
    }
    if (bordered) {
        sum_bordered_edges(s, s->indptr[r], s->indptr[r + 1], column, n_column, n_vector, is, whole, mask, acc);
    } else {
        sum_edges(s, s->indptr[r], s->indptr[r + 1], column, n_column, n_vector, is, false, whole, mask, acc);
    }
    row_finish(s, row, column, n_vector, whole, mask, acc);
}

/* sum += Σ of edges begin … end-1 */
typedef void sum_piece_function(const struct cpu_sum *s, int64_t begin, int64_t end, int64_t column, int64_t n_column,
                                float *sum);

/* The marks of an edge of a row of many edges; 0 behind the last. */
INLINE uint32_t edge_mark(const struct cpu_sum *s, int64_t e, int64_t end)
{
    return e == end ? 0 : s->marks == CPU_MARKS_NONE ? DEVICE_BORDER : s->cols[e] & DEVICE_MARKS;
}

/* The end of the piece of a row that begins at an edge. */
INLINE int64_t piece_end(const struct cpu_sum *s, int64_t begin, int64_t end)
{
    int64_t e = s->marks != CPU_MARKS_NONE ? begin + 1 : smaller(begin + DEVICE_PIECE_EDGES, end);
    while (s->marks != CPU_MARKS_NONE && edge_mark(s, e, end) == 0 && e < end) {
        e++;
    }
    return e;
}

INLINE void columns_add(const int n_vector, const float *from, float *to)
{
    for (int v = 0; v < n_vector; v++) {
        vector_store(to + v * LANES, vector_add(vector_load(to + v * LANES), vector_load(from + v * LANES)));
    }
}

/* One row of many edges, as sum_row: a piece is summed from 0 and added, to its block's sum where the next one is,
 * unless it goes on with the row's sum. */
TARGET static __attribute__((noinline)) void sum_long_row(const struct cpu_sum *s, int64_t r, int64_t column,
                                                          int64_t n_column, sum_piece_function *add)
{
    const int n_vector = (int)((n_column + LANES - 1) / LANES);
    const lane_mask mask = mask_first(n_column - (n_vector - 1) * LANES);
    const int64_t row = s->rows != NULL ? s->rows[r] : r, end = s->indptr[r + 1];
    const size_t n_byte = (size_t)(n_vector * LANES) * sizeof(float);
    float sum[VECTORS_MAX * LANES], block[VECTORS_MAX * LANES], piece[VECTORS_MAX * LANES], *to = sum;
    vector acc[VECTORS_MAX];
    for (int v = 0; v < n_vector; v++) {
        vector_store(sum + v * LANES, row_start(s, row, column, v, n_vector, n_column, false, mask));
    }
    for (int64_t e = s->indptr[r], next; e < end; e = next) {
        next = piece_end(s, e, end);
        const bool more = edge_mark(s, next, end) == DEVICE_MARKS; /* of the block, behind this piece */
        if ((edge_mark(s, e, end) & DEVICE_BORDER) == 0) {
            add(s, e, next, column, n_column, sum);
            continue;
        }
        if (more && to == sum) {
            to = memset(block, 0, n_byte);
        }
        memset(piece, 0, n_byte);
        add(s, e, next, column, n_column, piece);
        columns_add(n_vector, piece, to);
        if (!more && to == block) {
            columns_add(n_vector, block, sum);
            to = sum;
        }
    }
    for (int v = 0; v < n_vector; v++) {
        acc[v] = vector_load(sum + v * LANES);
    }
    row_finish(s, row, column, n_vector, false, mask, acc);
}

/* Has a row many edges, in pieces that the loops over others do not join? Of a bordered row these join those that are
 * added to the row's sum. */
INLINE bool row_is_long(const struct cpu_sum *s, int64_t r, const bool bordered)
{
    uint32_t any = s->marks == CPU_MARKS_NONE ? DEVICE_BORDER : 0;
    if (s->indptr[r + 1] - s->indptr[r] <= DEVICE_PIECE_EDGES) {
        return false;
    }
    for (int64_t e = s->indptr[r]; s->marks != CPU_MARKS_NONE && e < s->indptr[r + 1]; e++) {
        any |= s->cols[e];
    }
    return (any & (bordered ? DEVICE_BACK : DEVICE_MARKS)) != 0;
}

INLINE void sum_each_row(const struct cpu_sum *s, int64_t first, int64_t end, int64_t column, int64_t n_column,
                         const int n_vector, const struct sum_case is, const bool bordered, sum_piece_function *add)
{
    lane_mask mask = mask_first(n_column - (n_vector - 1) * LANES);
    for (int64_t r = first; r < end; r++) {
        if (row_is_long(s, r, bordered)) {
            sum_long_row(s, r, column, n_column, add);
        } else if (n_column == n_vector * LANES) {
            sum_row(s, r, column, n_column, n_vector, is, bordered, true, mask);
        } else {
            sum_row(s, r, column, n_column, n_vector, is, bordered, false, mask);
        }
    }
}

/* Bordered sums take two registers per vector of columns. */
#define BORDERED_MAX (VECTORS_MAX / 2)

/* The loops above for each number of vectors, kind of weight and type of x, unrolled by the compiler. */
#define SUM_FUNCTIONS(n_vector, kind, bf16)                                                                          \
    TARGET static void sum_piece_##n_vector##_##kind##_##bf16(const struct cpu_sum *s, int64_t begin, int64_t end,   \
                                                              int64_t column, int64_t n_column, float *sum)          \
    {                                                                                                                \
        const struct sum_case is = {kind, bf16};                                                                     \
        vector acc[VECTORS_MAX];                                                                                     \
        lane_mask mask = mask_first(n_column - (n_vector - 1) * LANES);                                              \
        for (int v = 0; v < n_vector; v++) {                                                                         \
            acc[v] = last_load(sum, v, n_vector, false, mask);                                                       \
        }                                                                                                            \
        if (n_column == (n_vector)*LANES) {                                                                          \
            sum_edges(s, begin, end, column, n_column, n_vector, is, true, true, mask, acc);                         \
        } else {                                                                                                     \
            sum_edges(s, begin, end, column, n_column, n_vector, is, true, false, mask, acc);                        \
        }                                                                                                            \
        for (int v = 0; v < n_vector; v++) {                                                                         \
            last_store(sum, v, n_vector, false, mask, acc[v]);                                                       \
        }                                                                                                            \
    }                                                                                                                \
    TARGET static void sum_rows_##n_vector##_##kind##_##bf16(const struct cpu_sum *s, int64_t first, int64_t end,    \
                                                             int64_t column, int64_t n_column)                       \
    {                                                                                                                \
        sum_each_row(s, first, end, column, n_column, n_vector, (struct sum_case){kind, bf16}, false,                \
                     sum_piece_##n_vector##_##kind##_##bf16);                                                        \
    }                                                                                                                \
    TARGET static void sum_bordered_##n_vector##_##kind##_##bf16(const struct cpu_sum *s, int64_t first,             \
                                                                 int64_t end, int64_t column, int64_t n_column)      \
    {                                                                                                                \
        if (n_vector <= BORDERED_MAX) {                                                                              \
            sum_each_row(s, first, end, column, n_column, n_vector, (struct sum_case){kind, bf16}, true,             \
                         sum_piece_##n_vector##_##kind##_##bf16);                                                    \
        }                                                                                                            \
    }

/* clang-format off */
#if VECTORS_MAX == 16
#define EACH_WIDTH(X, kind, bf16) \
    X(1, kind, bf16) X(2, kind, bf16) X(3, kind, bf16) X(4, kind, bf16) X(6, kind, bf16) X(8, kind, bf16) \
    X(16, kind, bf16)
#elif VECTORS_MAX == 8
#define EACH_WIDTH(X, kind, bf16) X(1, kind, bf16) X(2, kind, bf16) X(4, kind, bf16) X(8, kind, bf16)
#else
#define EACH_WIDTH(X, kind, bf16) X(1, kind, bf16) X(4, kind, bf16)
#endif
/* Permuted weights (3) are those of sparse features, whose x are weights: floats. */
#define EACH_CASE(X) \
    EACH_WIDTH(X, 0, 0) EACH_WIDTH(X, 1, 0) EACH_WIDTH(X, 2, 0) EACH_WIDTH(X, 3, 0) EACH_WIDTH(X, 4, 0) \
    EACH_WIDTH(X, 0, 1) EACH_WIDTH(X, 1, 1) EACH_WIDTH(X, 2, 1) EACH_WIDTH(X, 4, 1)
/* clang-format on */

EACH_CASE(SUM_FUNCTIONS)

struct sum_functions {
    void (*rows)(const struct cpu_sum *s, int64_t first, int64_t end, int64_t column, int64_t n_column);
    void (*bordered)(const struct cpu_sum *s, int64_t first, int64_t end, int64_t column, int64_t n_column);
    sum_piece_function *piece;
};

#define SUM_ENTRY(n_vector, kind, bf16)                                                                              \
    [bf16][kind][n_vector] = {sum_rows_##n_vector##_##kind##_##bf16, sum_bordered_##n_vector##_##kind##_##bf16,      \
                              sum_piece_##n_vector##_##kind##_##bf16},
static const struct sum_functions sum_functions[2][CPU_WEIGHT_N][VECTORS_MAX + 1] = {EACH_CASE(SUM_ENTRY)};

/* The most vectors that one pass over `n_column` columns should take, of those there are and at most so many. */
static int sum_vectors(int64_t n_column, int most)
{
    int64_t needed = (n_column + LANES - 1) / LANES;
    int best = (int)(needed < most ? needed : most);
    while (sum_functions[0][0][best].rows == NULL) {
        best--;
    }
    return best;
}

TARGET static void sum_rows(const struct cpu_sum *s, int64_t first, int64_t end)
{
    /* Several passes over the columns take turns on a few rows, whose edges and prefetched lines are still near. */
    const int most = s->marks == CPU_MARKS_ALL ? BORDERED_MAX : VECTORS_MAX;
    int64_t step = s->n_column <= most * LANES ? end - first : 8, end_column = s->column + s->n_column;
    for (int64_t r = first; r < end; r += step) {
        for (int64_t column = s->column, width; column < end_column; column += width) {
            int n_vector = sum_vectors(end_column - column, most);
            const struct sum_functions *functions = &sum_functions[s->x_is_bf16][s->kind][n_vector];
            width = smaller(n_vector * LANES, end_column - column);
            (s->marks == CPU_MARKS_ALL ? functions->bordered : functions->rows)(s, r, smaller(r + step, end), column,
                                                                                width);
        }
    }
    if (s->stream) {
        stream_fence();
    }
}

TARGET static void sum_piece(const struct cpu_sum *s, int64_t begin, int64_t end, int64_t column, int64_t n_column,
                             float *partial)
{
    memset(partial, 0, (size_t)n_column * sizeof *partial);
    for (int64_t c = 0, width; c < n_column; c += width) {
        int n_vector = sum_vectors(n_column - c, VECTORS_MAX);
        width = smaller(n_vector * LANES, n_column - c);
        sum_functions[s->x_is_bf16][s->kind][n_vector].piece(s, begin, end, column + c, width, partial + c);
    }
}

/* Running maxima of one row over n_vector vectors of columns (whole: all of them full); a later equal value does not
 * replace an earlier one. */
INLINE void max_row(const struct cpu_max *m, int64_t r, int64_t column, int64_t n_column, const int n_vector,
                    const bool whole)
{
    vector best[VECTORS_MAX];
    places place[VECTORS_MAX];
    int64_t row = m->rows != NULL ? m->rows[r] : r;
    float *out = m->out + row * m->f + column;
    uint32_t *arg = m->arg + row * m->f + column;
    lane_mask all = mask_first(LANES), mask = mask_first(n_column - (n_vector - 1) * LANES);
    for (int v = 0; v < n_vector; v++) {
        lane_mask lanes = v < n_vector - 1 ? all : mask;
        if (!m->begin) {
            best[v] = last_load(out, v, n_vector, whole, mask);
            place[v] = places_load_mask(arg + v * LANES, lanes);
        } else if (m->self != NULL) {
            best[v] = last_load(m->self + row * m->f + column, v, n_vector, whole, mask);
            place[v] = places_set(m->arg_base + (uint32_t)row);
        } else {
            best[v] = vector_set(-INFINITY);
            place[v] = places_set(UINT32_MAX);
        }
    }
    for (int64_t e = m->indptr[r]; e < m->indptr[r + 1]; e++) {
        int64_t ahead = smaller(e + PREFETCH_EDGES(n_vector), m->n_edge - 1);
        prefetch_row(m->x + m->cols[ahead] * m->f + column, n_vector, n_column);
        const float *x = m->x + m->cols[e] * m->f + column;
        places here = places_set(m->arg_base + m->cols[e]);
        for (int v = 0; v < n_vector; v++) {
            vector_max_place(last_load(x, v, n_vector, whole, mask), here, &best[v], &place[v]);
        }
    }
    for (int v = 0; v < n_vector; v++) {
        lane_mask lanes = v < n_vector - 1 ? all : mask;
        last_store(out, v, n_vector, whole, mask, best[v]);
        places_store_mask(arg + v * LANES, lanes, place[v]);
    }
}

TARGET static void max_rows(const struct cpu_max *m, int64_t first, int64_t end)
{
    for (int64_t r = first; r < end; r++) {
        int64_t column = 0;
/* A maximum needs two registers per vector of columns: at most half as many columns in one pass as a sum. */
#define MAX_PASS(n_vector)                                                                                           \
    for (; m->f - column >= (n_vector)*LANES; column += (n_vector)*LANES) {                                          \
        max_row(m, r, column, (n_vector)*LANES, n_vector, true);                                                     \
    }
        MAX_PASS(VECTORS_MAX / 2)
        MAX_PASS(VECTORS_MAX / 4)
        MAX_PASS(1)
#undef MAX_PASS
        if (column < m->f) {
            max_row(m, r, column, m->f - column, 1, false);
        }
    }
}
