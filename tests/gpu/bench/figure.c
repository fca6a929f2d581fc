#include "tests/gpu/bench/figure.h"

#include "protocol/base/clock.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATTERN ((int64_t)1 << 20) /* random numbers that are repeated */

void *figure_take(struct figure *f, int64_t n_bytes)
{
    void *block = NULL;
    if (f->reason[0] != '\0') {
        return NULL;
    }
    if (f->n_array == FIGURE_ARRAYS_MOST ||
        f->ops->acquire(f->device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, (size_t)n_bytes, &block) != STATUS_OK) {
        snprintf(f->reason, sizeof f->reason, "%.200s", status_reason());
        return NULL;
    }
    f->array[f->n_array].at = block;
    f->array[f->n_array++].n_bytes = (size_t)n_bytes;
    f->n_bytes += n_bytes;
    return block;
}

void *figure_copy(struct figure *f, const void *host, int64_t n_bytes)
{
    void *block = figure_take(f, n_bytes);
    if (block != NULL) {
        f->ops->copy(f->device, block, host, (size_t)n_bytes);
    }
    return block;
}

float *figure_random(struct figure *f, int64_t n)
{
    static float pattern[PATTERN];
    const struct random_key key = {.seed = 1, .stream = RANDOM_STREAM_INIT};
    float *x = figure_take(f, n * (int64_t)sizeof *x);
    for (int64_t i = 0; pattern[PATTERN - 1] == 0.0F && i < PATTERN; i++) {
        pattern[i] = 2.0F * random_unit(&key, 0, (uint32_t)i) - 1.0F;
    }
    int64_t done = n < PATTERN ? n : PATTERN;
    if (x != NULL) {
        f->ops->copy(f->device, x, pattern, (size_t)done * sizeof *x);
    }
    for (int64_t more; x != NULL && done < n; done += more) {
        more = done < n - done ? done : n - done;
        f->ops->move(f->device, DEVICE_LANE_COMPUTE, x + done, x, (size_t)more * sizeof *x);
    }
    return x;
}

struct device_block figure_block(struct figure *f, const struct graph *graph)
{
    struct device_block block = {.n_row = graph->n_node, .n_col = graph->n_node, .n_edge = graph->n_edge};
    block.indptr = figure_copy(f, graph->indptr, (graph->n_node + 1) * (int64_t)sizeof *graph->indptr);
    block.cols = figure_copy(f, graph->cols, graph->n_edge * (int64_t)sizeof *graph->cols);
    if (f->reason[0] == '\0' && f->ops->block_open(f->device, &block) != STATUS_OK) {
        snprintf(f->reason, sizeof f->reason, "%.200s", status_reason());
    }
    return block;
}

void figure_end(struct figure *f)
{
    for (int i = 0; i < f->n_array; i++) {
        f->ops->release(f->device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, f->array[i].at, f->array[i].n_bytes);
    }
    f->n_array = 0;
    f->n_bytes = 0;
    f->reason[0] = '\0';
}

static bool wait(struct figure *f)
{
    if (f->reason[0] == '\0' && device_sync(f->device) != STATUS_OK) {
        snprintf(f->reason, sizeof f->reason, "%.200s", status_reason());
    }
    return f->reason[0] == '\0';
}

bool figure_time(struct figure *f, struct figure_run *runs, int n_run)
{
    for (int i = -2; i < FIGURE_REPEATS; i++) {
        for (int r = 0; r < n_run && wait(f); r++) {
            double begin = clock_s();
            runs[r].run(f, runs[r].context);
            wait(f);
            if (i >= 0) {
                runs[r].seconds[i] = clock_s() - begin;
            }
        }
    }
    return f->reason[0] == '\0';
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double figure_median(const struct figure_run *run)
{
    double sorted[FIGURE_REPEATS];
    memcpy(sorted, run->seconds, sizeof sorted);
    qsort(sorted, FIGURE_REPEATS, sizeof *sorted, ascending);
    return 0.5 * (sorted[FIGURE_REPEATS / 2 - 1] + sorted[FIGURE_REPEATS / 2]);
}

void figure_header(void)
{
    printf("| what | measured | reference | ratio | bar | |\n|---|---|---|---|---|---|\n");
}

/* Lines are also objects of GPU_BENCH_JSON, which scripts/gpu-bench names. */
static __attribute__((format(printf, 1, 2))) void json_add(const char *format, ...)
{
    const char *path = getenv("GPU_BENCH_JSON");
    FILE *file = path != NULL ? fopen(path, "ae") : NULL;
    va_list list;
    va_start(list, format);
    if (file != NULL) {
        vfprintf(file, format, list);
        fclose(file);
    }
    va_end(list);
}

void figure_line(const char *what, double value, double reference, const char *unit, const char *reference_name,
                 double bar)
{
    double ratio = reference > 0.0 ? value / reference : 0.0;
    bool met = bar > 0.0 ? ratio <= bar : ratio >= -bar;
    char wanted[32] = "–";
    if (bar != 0.0) {
        snprintf(wanted, sizeof wanted, "%s %.2f", bar > 0.0 ? "≤" : "≥", fabs(bar));
    }
    printf("| %s | %.4g %s | %.4g %s, %s | %.3f | %s | %s |\n", what, value, unit, reference, unit, reference_name,
           ratio, wanted,
           bar == 0.0 ? ""
           : met      ? "met"
                      : "missed");
    fflush(stdout);
    json_add("{\"what\":\"%s\",\"value\":%.6g,\"unit\":\"%s\",\"reference\":%.6g,\"of\":\"%s\",\"ratio\":%.6g,"
             "\"bar\":\"%s\",\"met\":%s}\n",
             what, value, unit, reference, reference_name, ratio, wanted,
             bar == 0.0 ? "null"
             : met      ? "true"
                        : "false");
}

void figure_cannot(const char *what, const char *reason)
{
    printf("| %s | cannot run: %s | | | | |\n", what, reason);
    fflush(stdout);
    json_add("{\"what\":\"%s\",\"cannot\":\"%s\"}\n", what, reason);
}
