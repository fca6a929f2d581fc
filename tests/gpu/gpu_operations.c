/* Every operation of the cuda device against the cpu device, and against the bits that it has emulated.
 *
 * usage  gpu_operations --print [CASE …]    the hash of each case's results, of all that have the same bits on every
 *                                            GPU, but for these cases
 *        gpu_operations HASHES [PREFIX]     compare with what --print wrote; PREFIX: of cases whose names begin so
 *                                            alone, without the cpu
 *
 * Needs trainer-cuda.so beside it (protocol/base/program.h), by nvcc or emulated. Closing line: tests: N passed, N
 * failed, 0 skipped. Exits with 69 where there is no usable GPU.
 */
#include "models/cuda/module.h"
#include "tests/support/operations/results.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const struct operation_case *const lists[] = {
    operation_dense_cases, operation_rows_cases,    operation_aggregate_cases, operation_attention_cases,
    operation_tile_cases,  operation_payload_cases, operation_loss_cases};
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

static uint64_t results_hash(const struct operation_results *r)
{
    uint64_t hash = 0;
    for (int i = 0; i < r->n; i++) {
        hash = XXH64(r->array[i].at, r->array[i].n_bytes, hash);
    }
    return hash;
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
    struct operation_results first = operation_results(cuda, c, 0), second = operation_results(cuda, c, 0);
    judge(c, "a second run", operation_compare(&second, &first, 0.0, 0.0));
    if (with_cpu) {
        struct operation_results expected = operation_results(cpu, c, 0);
        double tolerance = c->same == OPERATION_SAME_CPU ? 0.0 : c->tolerance;
        judge(c, "against the cpu", operation_compare(&first, &expected, tolerance, tolerance));
        operation_results_free(&expected);
    }
    if (c->same != OPERATION_SAME_NUMBERS) {
        judge(c, "against the emulated bits", hash_check(c, results_hash(&first)));
    }
    operation_results_free(&first);
    operation_results_free(&second);
}

static void print(const struct operation_case *c)
{
    if (c->same != OPERATION_SAME_NUMBERS) {
        struct operation_results results = operation_results(cuda, c, 0);
        printf("%s %016llx\n", c->name, (unsigned long long)results_hash(&results));
        operation_results_free(&results);
    }
}

static bool is_among(const char *name, int n, char *const names[])
{
    while (n > 0 && strcmp(names[n - 1], name) != 0) {
        n--;
    }
    return n > 0;
}

int main(int argc, char **argv)
{
    int n_hashed = 0, n_left_out = 0;
    bool prints = argc > 1 && strcmp(argv[1], "--print") == 0;
    if (argc < 2 || (argc > 3 && !prints)) {
        fprintf(stderr, "usage: gpu_operations --print [CASE ...] | gpu_operations HASHES [PREFIX]\n");
        return 2;
    }
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
            if (prints && is_among(c->name, argc - 2, argv + 2)) {
                n_left_out++;
            } else if (prints) {
                print(c);
            } else if (strncmp(c->name, prefix, strlen(prefix)) == 0) {
                check(c, argc == 2);
            }
        }
    }
    if (prints && n_left_out != argc - 2) {
        operation_give_up("there is no case of a name that is to be left out");
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
