/* Products of numbers rounded to BF16 by AMX's tiles; their order: kernels_product.inc.h.
 *
 * Some inner numbers of some columns of b are packed as tiles, then those of 32 rows of a at a time. 32 × 32 numbers
 * of c stay in four tiles over all of these inner numbers.
 * source  Intel 64 and IA-32 Architectures SDM, vol. 2, TDPBF16PS (the order of adding)
 */
#include "models/cpu/kernels/kernels.h"

#if defined(__x86_64__)
#include "models/cpu/kernels/vector_avx512.h"

#include <asm/prctl.h>
#include <cpuid.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIDE 16                           /* rows and columns of a tile of c */
#define GROUPS_MOST 8                     /* of inner numbers that are packed */
#define LINES_MOST 16                     /* tiles of a's rows, and of b's columns */
#define CPUID_TILES (1U << 22 | 1U << 24) /* leaf 7: AMX-BF16, AMX-TILE, which compilers name each its way */
#define XFEATURE_TILES 18

/* A group of inner numbers of 16 rows of a (row × pair), or of 16 columns of b (pair × column). */
struct pairs_tile {
    _Alignas(64) uint32_t pair[SIDE][SIDE];
};

/* Lines of a matrix, each to be multiplied with others: a's rows, b's columns. */
struct lines {
    const float *at;
    int64_t step;       /* to the next line, or to a line's next number */
    bool is_transposed; /* a line's numbers are a step apart */
    int64_t n_line, n_inner;
};

/* By number, as the instructions of tiles have no other operands; the compiler does not know what they read. */
#define TILE_LOAD(number, from, step)                                                                                \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #number : : "r"(from), "r"(step) : "memory")
#define TILE_STORE(number, to, step)                                                                                 \
    __asm__ volatile("tilestored %%tmm" #number ", (%0,%1,1)" : : "r"(to), "r"(step) : "memory")
#define TILE_ZERO(number) __asm__ volatile("tilezero %%tmm" #number : :)
#define TILE_ADD(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c : :)

/* 16 pairs of rounded numbers, in the order of these. Not by the intrinsic, whose target all callers would need */
INLINE __m512i round_two(__m512 first, __m512 second)
{
    __m512i out;
    __asm__("vcvtne2ps2bf16 %2, %1, %0" : "=v"(out) : "v"(second), "v"(first));
    return out;
}

INLINE __m512 load_some(const float *from, int64_t n)
{
    return n > 0 ? vector_load_mask(from, mask_first(n < SIDE ? n : SIDE)) : vector_set(0.0f);
}

/* A group of 16 lines from `line` on, with zeros past the end: line × pair, or by_pairs pair × line. One of them
 * costs a transpose. */
TARGET static void pack(const struct lines *m, int64_t line, int64_t group, bool by_pairs, struct pairs_tile *out)
{
    const int64_t inner = group * CPU_PRODUCT_GROUP, n_inner = m->n_inner - inner, n_line = m->n_line - line;
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const float *from = m->is_transposed ? m->at + inner * m->step + line : m->at + line * m->step + inner;
    struct pairs_tile other, *to = by_pairs == m->is_transposed ? out : &other;
    for (int64_t i = 0; i < SIDE; i++) {
        __m512i numbers;
        if (m->is_transposed) {
            const float *row = from + 2 * i * m->step;
            numbers = _mm512_permutexvar_epi16(order,
                                               round_two(load_some(row, 2 * i < n_inner ? n_line : 0),
                                                         load_some(row + m->step, 2 * i + 1 < n_inner ? n_line : 0)));
        } else {
            const float *row = from + i * m->step;
            const int64_t n = i < n_line ? n_inner : 0;
            numbers = round_two(load_some(row, n), load_some(row + SIDE, n - SIDE));
        }
        _mm512_store_si512(to->pair[i], numbers);
    }
    if (to == &other) {
        cpu_kernels_avx512.transpose(SIDE, SIDE, (const float *)other.pair, SIDE, (float *)out->pair, SIDE);
    }
}

/* All groups of all lines, an even number of tiles. Numbers are read as they lie. */
static void pack_all(const struct lines *m, int64_t n_group, bool by_pairs, struct pairs_tile (*out)[GROUPS_MOST])
{
    const int64_t n_tile = (m->n_line + 2 * SIDE - 1) / (2 * SIDE) * 2;
    for (int64_t i = 0; i < n_tile * n_group; i++) {
        const int64_t tile = m->is_transposed ? i % n_tile : i / n_group,
                      g = m->is_transposed ? i / n_tile : i % n_group;
        pack(m, tile * SIDE, g, by_pairs, &out[tile][g]);
    }
}

/* c's 32 rows and columns from there on += a · b over some groups, from 0 or from c. They may reach past c. */
static void cell_add(struct pairs_tile (*a)[GROUPS_MOST], struct pairs_tile (*b)[GROUPS_MOST], int64_t n_group,
                     bool begins, float *c, int64_t c_step, int64_t n_row, int64_t n_column)
{
    float edge[2 * SIDE * 2 * SIDE], *to = c;
    const bool is_edge = n_row < 2 * SIDE || n_column < 2 * SIDE;
    int64_t step = c_step;
    if (is_edge) {
        n_row = n_row < 2 * SIDE ? n_row : 2 * SIDE;
        n_column = n_column < 2 * SIDE ? n_column : 2 * SIDE;
        to = edge;
        step = 2 * SIDE;
        for (int64_t r = 0; r < n_row && !begins; r++) {
            memcpy(edge + r * step, c + r * c_step, (size_t)n_column * sizeof *c);
        }
    }
    const int64_t c_bytes = step * (int64_t)sizeof *c, tile_bytes = SIDE * sizeof(uint32_t);
    if (begins) {
        TILE_ZERO(0);
        TILE_ZERO(1);
        TILE_ZERO(2);
        TILE_ZERO(3);
    } else {
        TILE_LOAD(0, to, c_bytes);
        TILE_LOAD(1, to + SIDE, c_bytes);
        TILE_LOAD(2, to + SIDE * step, c_bytes);
        TILE_LOAD(3, to + SIDE * step + SIDE, c_bytes);
    }
    for (int64_t g = 0; g < n_group; g++) {
        TILE_LOAD(4, &a[0][g], tile_bytes);
        TILE_LOAD(6, &b[0][g], tile_bytes);
        TILE_ADD(0, 4, 6);
        TILE_LOAD(7, &b[1][g], tile_bytes);
        TILE_ADD(1, 4, 7);
        TILE_LOAD(5, &a[1][g], tile_bytes);
        TILE_ADD(2, 5, 6);
        TILE_ADD(3, 5, 7);
    }
    TILE_STORE(0, to, c_bytes);
    TILE_STORE(1, to + SIDE, c_bytes);
    TILE_STORE(2, to + SIDE * step, c_bytes);
    TILE_STORE(3, to + SIDE * step + SIDE, c_bytes);
    for (int64_t r = 0; r < n_row && is_edge; r++) {
        memcpy(c + r * c_step, edge + r * step, (size_t)n_column * sizeof *c);
    }
}

/* Lines, and their inner numbers, from some on; at most so many. */
static struct lines lines_from(const struct lines *m, int64_t line, int64_t inner, int64_t n_line, int64_t n_inner)
{
    struct lines part = *m;
    part.at += m->is_transposed ? inner * m->step + line : line * m->step + inner;
    part.n_line = m->n_line - line < n_line ? m->n_line - line : n_line;
    part.n_inner = m->n_inner - inner < n_inner ? m->n_inner - inner : n_inner;
    return part;
}

/* All rows of some columns, over some inner numbers. Of transposed rows many are packed at a time, which lie beside
 * each other. Takes 256 KiB of the stack. */
static void block_add(const struct lines *a, const struct lines *b, bool begins, float *c, int64_t c_step)
{
    struct pairs_tile packed_a[LINES_MOST][GROUPS_MOST], packed_b[LINES_MOST][GROUPS_MOST];
    const int64_t n_group = a->n_inner > 0 ? (a->n_inner + CPU_PRODUCT_GROUP - 1) / CPU_PRODUCT_GROUP : 1;
    const int64_t rows_most = a->is_transposed ? LINES_MOST * SIDE : 2 * SIDE;
    pack_all(b, n_group, true, packed_b);
    for (int64_t first = 0; first < a->n_line; first += rows_most) {
        const struct lines rows = lines_from(a, first, 0, rows_most, a->n_inner);
        pack_all(&rows, n_group, false, packed_a);
        for (int64_t r = 0; r < rows.n_line; r += 2 * SIDE) {
            for (int64_t i = 0; i < b->n_line; i += 2 * SIDE) {
                cell_add(&packed_a[r / SIDE], &packed_b[i / SIDE], n_group, begins, c + (first + r) * c_step + i,
                         c_step, rows.n_line - r, b->n_line - i);
            }
        }
    }
}

void cpu_product_tiles(const struct cpu_product *p)
{
    static const struct {
        uint8_t palette, start, none[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } layout = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    const struct lines a = {p->a, p->a_is_transposed ? p->m : p->k, p->a_is_transposed, p->m, p->k};
    const struct lines b = {p->b, p->b_is_transposed ? p->k : p->n, !p->b_is_transposed, p->n, p->k};
    const int64_t inner_most = GROUPS_MOST * CPU_PRODUCT_GROUP, columns_most = LINES_MOST * SIDE;
    __asm__ volatile("ldtilecfg %0" : : "m"(layout));
    for (int64_t column = 0; column < p->n; column += columns_most) {
        int64_t k = 0;
        do {
            const struct lines some_a = lines_from(&a, 0, k, p->m, inner_most);
            const struct lines some_b = lines_from(&b, column, k, columns_most, inner_most);
            block_add(&some_a, &some_b, k == 0 && !p->add, p->c + column, p->n);
            k += inner_most;
        } while (k < p->k);
    }
    __asm__ volatile("tilerelease" : :);
}

bool cpu_has_tiles(void)
{
    unsigned a, b, c, d = 0;
    return cpu_kernels_find(CPU_VARIANT_AVX512) != NULL && __builtin_cpu_supports("avx512bf16") &&
           __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & CPUID_TILES) == CPUID_TILES &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_TILES) == 0;
}
#else
void cpu_product_tiles(const struct cpu_product *p)
{
    cpu_kernels_portable.product(p);
}

bool cpu_has_tiles(void)
{
    return false;
}
#endif
