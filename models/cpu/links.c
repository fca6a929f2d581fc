/* The loss of links: rows in chunks whose sums are combined in order. */
#include "models/cpu/cpu.h"
#include "protocol/base/amounts.h"

static double rows_run(const struct cpu_kernels *kernels, const struct device_links *how, int64_t first, int64_t end)
{
    struct cpu_link_row row = {0};
    double sum = 0.0;
    for (int64_t r = first; r <= end; r++) {
        int64_t begin = 0, last = 0;
        if (r < end) {
            begin = ascending_find(how->places, how->indptr[r], how->indptr[r + 1], how->first);
            last = ascending_find(how->places, begin, how->indptr[r + 1], how->end);
        }
        row.next_begin = begin;
        row.next_end = last;
        sum += row.end > row.begin ? kernels->link_row(how, &row) : 0.0;
        row = (struct cpu_link_row){.row = r, .begin = begin, .end = last};
    }
    return sum;
}

void cpu_link_loss(struct device *device, const struct device_links *how, double *sum)
{
    const struct cpu_kernels *kernels = cpu_device(device)->kernels;
    int64_t n = how->n_row, rows = row_chunk_rows(n), n_chunk = row_n_chunk(n);
    double *partial = how->scratch;
    CPU_LOOP_DYNAMIC(
        cpu_device(device), n_chunk > 1, for (int64_t i = 0; i < n_chunk; i++) {
            partial[i] = rows_run(kernels, how, i * rows, (i + 1) * rows < n ? (i + 1) * rows : n);
        });
    for (int64_t i = 0; i < n_chunk; i++) {
        *sum += 0.5 * how->weight * partial[i];
    }
}
