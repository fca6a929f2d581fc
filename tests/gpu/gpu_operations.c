/* Every operation of the cuda device against the cpu device, and against the bits that it has emulated.
 *
 * usage  gpu_operations --print            the hash of each case's results, of all that have the same bits on every
 *        GPU gpu_operations HASHES [PREFIX]    compare with what --print wrote; PREFIX: of cases whose names begin so
 *        alone, without the cpu
 *
 * Needs trainer-cuda.so beside it (protocol/base/program.h), by nvcc or emulated. Closing line: tests: N passed, N
 * failed, 0 skipped. Exits with 69 where there is no usable GPU.
 */
#include "models/cuda/module.h"
#include "tests/gpu/operations/operation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const struct operation_case *const lists[] = {operation_dense_cases,     operation_rows_cases,
                                                     operation_aggregate_cases, operation_attention_cases,
                                                     operation_payload_cases,   operation_loss_cases};
enum { N_LIST = sizeof lists / sizeof *lists };

static int n_passed, n_failed;

static void judge(const struct operation_case *c, const char *what, const char *wrong)
{
    n_passed += wrong == NULL;
    n_failed += wrong != NULL;
    if (wrong != NULL) {
        printf("FAIL: %s: %s: %s\n", c->name, what, wrong);
    }
}

/* --- results, in host memory --- */

struct results {
    int n;
    struct operation_array array[OPERATION_RESULTS_MOST];
};

static struct results results_of(struct device *device, const struct operation_case *c)
{
    static struct operation_run run;
    struct results out = {0};
    run = (struct operation_run){.device = device, .ops = device->ops, .seed = 100};
    c->run(&run, c->shape);
    if (device_sync(run.device) != STATUS_OK) {
        operation_give_up(status_reason());
    }
    for (out.n = 0; out.n < run.n_result; out.n++) {
        out.array[out.n] = run.result[out.n];
        out.array[out.n].at = malloc(run.result[out.n].n_bytes + 1);
        if (out.array[out.n].at == NULL) {
            operation_give_up("out of memory");
        }
        run.ops->download(run.device, out.array[out.n].at, run.result[out.n].at, run.result[out.n].n_bytes);
    }
    for (int i = 0; i < run.n_taken; i++) {
        run.ops->release(run.device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, run.taken[i].at, run.taken[i].n_bytes);
    }
    if (device_sync(run.device) != STATUS_OK) {
        operation_give_up(status_reason());
    }
    return out;
}

static void results_free(struct results *r)
{
    for (int i = 0; i < r->n; i++) {
        free(r->array[i].at);
    }
}

static uint64_t results_hash(const struct results *r)
{
    uint64_t hash = 0;
    for (int i = 0; i < r->n; i++) {
        hash = XXH64(r->array[i].at, r->array[i].n_bytes, hash);
    }
    return hash;
}

static double element(const struct operation_array *a, size_t i)
{
    return a->type == OPERATION_FLOATS ? (double)((const float *)a->at)[i] : ((const double *)a->at)[i];
}

/* What is wrong with `got`; NULL: nothing. A tolerance of 0: the same bits. */
static const char *compare(const struct results *got, const struct results *expected, double tolerance)
{
    static char text[128];
    for (int k = 0; k < got->n || k < expected->n; k++) {
        const struct operation_array *a = &got->array[k], *b = &expected->array[k];
        if (k >= got->n || k >= expected->n || a->n_bytes != b->n_bytes) {
            snprintf(text, sizeof text, "result %d is of another size", k);
            return text;
        }
        if (memcmp(a->at, b->at, a->n_bytes) == 0) {
            continue;
        }
        if (tolerance == 0.0 || a->type == OPERATION_BYTES) {
            snprintf(text, sizeof text, "result %d has other bits", k);
            return text;
        }
        size_t n = a->n_bytes / (a->type == OPERATION_FLOATS ? sizeof(float) : sizeof(double));
        double largest = 0.0;
        for (size_t i = 0; i < n; i++) {
            largest = fmax(largest, isfinite(element(b, i)) ? fabs(element(b, i)) : 0.0);
        }
        for (size_t i = 0; i < n; i++) {
            double x = element(a, i), y = element(b, i);
            if (x != y && !(fabs(x - y) <= tolerance * largest)) {
                snprintf(text, sizeof text, "result %d, element %zu is %.9g, expected %.9g", k, i, x, y);
                return text;
            }
        }
    }
    return NULL;
}

/* --- hashes --- */

struct hash {
    char name[64];
    uint64_t value;
};

static struct hash hashes[256];
static int n_hash;

static void hashes_read(const char *path)
{
    FILE *file = fopen(path, "r");
    unsigned long long value;
    char name[64];
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    while (n_hash < (int)(sizeof hashes / sizeof *hashes) && fscanf(file, "%63s %16llx", name, &value) == 2) {
        memcpy(hashes[n_hash].name, name, sizeof name);
        hashes[n_hash++].value = value;
    }
    if (!feof(file)) {
        operation_give_up("the file of hashes has a line that is not 'NAME HASH'");
    }
    fclose(file);
}

static const char *hash_check(const struct operation_case *c, uint64_t got)
{
    static char text[96];
    for (int i = 0; i < n_hash; i++) {
        if (strcmp(hashes[i].name, c->name) == 0) {
            snprintf(text, sizeof text, "%016llx, expected %016llx", (unsigned long long)got,
                     (unsigned long long)hashes[i].value);
            return hashes[i].value == got ? NULL : text;
        }
    }
    return "it has no hash";
}

/* --- all of it --- */

static struct device *cpu, *cuda;

static void check(const struct operation_case *c, bool with_cpu)
{
    struct results first = results_of(cuda, c), second = results_of(cuda, c);
    judge(c, "a second run", compare(&second, &first, 0.0));
    if (with_cpu) {
        struct results expected = results_of(cpu, c);
        judge(c, "against the cpu", compare(&first, &expected, c->same == OPERATION_SAME_CPU ? 0.0 : c->tolerance));
        results_free(&expected);
    }
    if (c->same != OPERATION_SAME_NUMBERS) {
        judge(c, "against the emulated bits", hash_check(c, results_hash(&first)));
    }
    results_free(&first);
    results_free(&second);
}

static void print(const struct operation_case *c)
{
    if (c->same != OPERATION_SAME_NUMBERS) {
        struct results results = results_of(cuda, c);
        printf("%s %016llx\n", c->name, (unsigned long long)results_hash(&results));
        results_free(&results);
    }
}

int main(int argc, char **argv)
{
    int n_hashed = 0;
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: gpu_operations --print | gpu_operations HASHES [PREFIX]\n");
        return 2;
    }
    bool prints = strcmp(argv[1], "--print") == 0;
    const char *prefix = argc == 3 ? argv[2] : "";
    if (device_cpu.open(1, &cpu) != STATUS_OK || device_cuda_module.open(1, &cuda) != STATUS_OK) {
        fprintf(stderr, "%s\n", status_reason());
        return status_exit_code(STATUS_PEER);
    }
    if (!prints) {
        hashes_read(argv[1]);
    }
    for (int l = 0; l < N_LIST; l++) {
        for (const struct operation_case *c = lists[l]; c->name != NULL; c++) {
            n_hashed += c->same != OPERATION_SAME_NUMBERS;
            if (prints) {
                print(c);
            } else if (strncmp(c->name, prefix, strlen(prefix)) == 0) {
                check(c, argc == 2);
            }
        }
    }
    if (!prints) {
        judge(&(struct operation_case){.name = argv[1]}, "as many hashes as cases",
              n_hashed == n_hash ? NULL : "others");
        printf("tests: %d passed, %d failed, 0 skipped\n", n_passed, n_failed);
    }
    cuda->ops->close(cuda);
    cpu->ops->close(cpu);
    return n_failed == 0 ? 0 : 1;
}
