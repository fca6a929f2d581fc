#include "trainerd/coordinator/plan/roofline.h"

#include "protocol/base/printable.h"
#include "protocol/files/file.h"
#include "protocol/toml/toml.h"
#include "trainerd/base/figure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- the device --- */

#define FILE_BYTES_MOST 4096
#define EXPECTED                                                                                                     \
    "expected name, a text, and fp32_tflops, bf16_tflops, bandwidth_gbs and where it is known sms, numbers "         \
    "greater than 0"

static const char *const keys[ROOFLINE_N] = {"fp32_tflops", "bf16_tflops", "bandwidth_gbs", "sms"};

static enum status entry_read(const char *path, const struct toml_entry *entry, struct roofline *out)
{
    bool top = entry->section[0] == '\0';
    bool known = top && strcmp(entry->key, "name") == 0, fits = false;
    if (known) {
        snprintf(out->name, sizeof out->name, "%s", entry->text);
        fits = entry->type == TOML_TYPE_TEXT && out->name[0] != '\0' && printable_is(entry->text);
    }
    for (int k = 0; k < ROOFLINE_N && !known; k++) {
        known = top && strcmp(entry->key, keys[k]) == 0;
        double number = entry->type == TOML_TYPE_INT ? (double)entry->integer : entry->real;
        fits = number > 0.0 && isfinite(number);
        out->number[k] = known ? number : out->number[k];
    }
    return known && fits ? STATUS_OK
                         : status_fail(STATUS_CONFIG, "%.400s:%u:%u: %s '%.64s'; " EXPECTED, path, entry->key_at.line,
                                       entry->key_at.column, known ? "the value of" : "unknown key", entry->key);
}

static enum status text_read(const char *path, const char *text, size_t n, struct roofline *out)
{
    struct toml_list list = {0};
    enum status status = toml_read(text, n, path, &list);
    for (size_t i = 0; i < list.n_entry && status == STATUS_OK; i++) {
        status = entry_read(path, &list.entry[i], out);
    }
    toml_release(&list);
    const char *missing = out->name[0] == '\0' ? "name" : NULL;
    for (int k = 0; k < ROOFLINE_SMS; k++) {
        missing = out->number[k] == 0.0 ? keys[k] : missing;
    }
    return status != STATUS_OK || missing == NULL
               ? status
               : status_fail(STATUS_CONFIG, "%.400s: '%s' is missing; " EXPECTED, path, missing);
}

enum status roofline_load(const char *path, const struct job *job, struct roofline *out)
{
    static const char cpu[] = "name = 'cpu'\nfp32_tflops = 0.3\nbf16_tflops = 0.3\nbandwidth_gbs = 20";
    char *text;
    size_t n;
    *out = (struct roofline){.peak = job->train.products == JOB_PRODUCTS_BF16 ? ROOFLINE_BF16 : ROOFLINE_FP32};
    if (path == NULL) {
        return job->workers.device != JOB_DEVICE_CUDA
                   ? text_read("cpu", cpu, sizeof cpu - 1, out)
                   : status_fail(STATUS_USAGE, "--roofline needs --device FILE where workers.device is \"" JOB_CUDA
                                               "\": a GPU's numbers, as in configs/devices/h100.toml");
    }
    enum status status = file_load(path, FILE_BYTES_MOST, &text, &n);
    if (status == STATUS_OK) {
        status = text_read(path, text, n, out);
        free(text);
    }
    return status;
}

/* --- floors --- */

enum { FLOP, BYTE, GATHERED, FLOOR, FLOOR_GATHERED, N_NUMBER };

static const char *const numbers[N_NUMBER] = {"flops", "bytes", "bytes_gathered", "floor_ms", "floor_gathered_ms"};

/* A step; or all steps of a kind of op, or of all kinds: then `what` is that. */
struct line {
    const char *what, *kind;
    bool is_fused;
    int step, n_step; /* step -1: of several */
    double number[N_NUMBER];
};

static void line_add(struct line *to, const struct line *one)
{
    to->n_step += one->n_step;
    for (int k = 0; k < N_NUMBER; k++) {
        to->number[k] += one->number[k];
    }
}

/* The lines of a worker's epoch: steps, the kinds of their ops, and last all. The caller frees them. */
static struct line *lines_of(const struct plan_input *in, const struct plan_worker *worker, int *n_out)
{
    struct line *lines = memory_alloc(2 * (size_t)worker->n_step + 1, sizeof *lines), chain = {0};
    struct line all = {.what = "all", .kind = "all", .step = -1};
    const struct roofline *device = in->roofline;
    int n_step = 0, n;
    for (int s = 0; s < worker->n_step; s++) {
        const struct plan_step *step = &worker->step[s];
        const struct op *op = step->op >= 0 ? &in->program->op[step->op] : NULL;
        struct line *line = &lines[n_step], before = step->is_fused ? chain : (struct line){0};
        chain = before;
        if (step->is_static) {
            continue;
        }
        *line = (struct line){step->text, step->text, step->is_fused, s, 1, {0.0}};
        if (op != NULL) {
            line->kind = op->kind == OP_KIND_AGGREGATE ? aggregate_defs[op->aggregate]->name
                                                       : op_defs[op->kind]->name;
        }
        memcpy(line->number, &step->work, sizeof step->work); /* FLOP, BYTE, GATHERED */
        line_add(&chain, line);
        for (int k = 0; k < 2; k++) { /* it has what it adds to the chain's floors */
            chain.number[FLOOR + k] = fmax(chain.number[FLOP] / device->number[device->peak] / 1e9,
                                           chain.number[BYTE + k] / device->number[ROOFLINE_BANDWIDTH] / 1e6);
            line->number[FLOOR + k] = chain.number[FLOOR + k] - before.number[FLOOR + k];
        }
        n_step++;
    }
    n = n_step;
    for (int s = 0; s < n_step; s++) {
        int at = n_step;
        while (at < n && strcmp(lines[at].kind, lines[s].kind) != 0) {
            at++;
        }
        n = at == n ? n + 1 : n;
        lines[at].kind = lines[at].what = lines[s].kind;
        lines[at].step = -1;
        line_add(&lines[at], &lines[s]);
        line_add(&all, &lines[s]);
    }
    lines[n] = all;
    *n_out = n + 1;
    return lines;
}

/* --- to people and programs --- */

void roofline_print(const struct plan_input *in, const struct plan *plan, FILE *file)
{
    const struct roofline *device = in->roofline;
    int n;
    struct line *lines = lines_of(in, &plan->worker[0], &n);
    fprintf(file,
            "\nroofline of worker 0 on %s: %g TFLOP/s (%.4s), %g GB/s; gathered: rows are read for each edge\n"
            "%7s  %-48s %10s %11s %11s %10s %10s\n",
            device->name, device->number[device->peak], keys[device->peak], device->number[ROOFLINE_BANDWIDTH],
            "step", "what", "GFLOP", "bytes", "gathered", "floor ms", "gathered");
    for (int i = 0; i < n; i++) {
        const double *number = lines[i].number;
        bool is_step = lines[i].step >= 0;
        fprintf(file, "%6d%s %c%-48s %10.4g %11s %11s %10.4g %10.4g\n", is_step ? lines[i].step : lines[i].n_step,
                is_step ? " " : "×", lines[i].is_fused ? '+' : ' ', lines[i].what, number[FLOP] / 1e9,
                figure_bytes(number[BYTE]).text, figure_bytes(number[GATHERED]).text, number[FLOOR],
                number[FLOOR_GATHERED]);
    }
    free(lines);
}

json_t *roofline_json(const struct plan_input *in, const struct plan *plan)
{
    json_t *all = json_pack("{s:s, s:s}", "device", in->roofline->name, "precision",
                            in->roofline->peak == ROOFLINE_BF16 ? "bf16" : "fp32");
    json_t *workers = json_array();
    for (int k = 0; k < ROOFLINE_N; k++) {
        double number = in->roofline->number[k];
        json_object_set_new(all, keys[k], number > 0.0 ? json_real(number) : json_null());
    }
    for (int32_t rank = 0; rank < plan->n_worker; rank++) {
        json_t *list[] = {json_array(), json_array()};
        int n;
        struct line *lines = lines_of(in, &plan->worker[rank], &n);
        for (int i = 0; i < n; i++) {
            json_t *one = json_pack("{s:s, s:s, s:i, s:b}", "what", lines[i].what, "kind", lines[i].kind, "steps",
                                    lines[i].n_step, "fused", lines[i].is_fused);
            for (int k = 0; k < N_NUMBER; k++) {
                json_object_set_new(one, numbers[k], json_real(lines[i].number[k]));
            }
            json_array_append_new(list[lines[i].step < 0], one);
        }
        free(lines);
        json_array_append_new(workers, json_pack("{s:o, s:o}", "steps", list[0], "kinds", list[1]));
    }
    json_object_set_new(all, "workers", workers);
    return all;
}
