/* Train one job in several ways, as the property test asks.
 *
 * Each line of standard input is a request, each line of standard output its answer, a JSON object:
 *
 *     JOB OUT DEVICE RANKS     →     {"exit": 0, "loss": […], "unplanned": 0, "allocations": 0, "param": […], …}
 *
 *   JOB     a job file; workers.count, threads and device are its own
 *   OUT     a file that gets the floats: weights and embeddings before and after training, then logits; for a job of links also
 *           OUT.order: the nodes, part after part, in their order, and where each part begins (int64)
 *   DEVICE  job: the job's. narrow: the cpu device with short windows of rows. strict: on memory that the host cannot touch
 *   RANKS   the rank of each part, "0,1,0"
 */
#include "tests/support/cluster/cluster.h"
#include "tests/support/device/strict.h"

#include "partition/part/partition.h"
#include "protocol/base/log.h"
#include "protocol/job/job.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_PARTS = 64, MOST_TEXT = 1 << 16 };

static bool text_read(const char *path, char text[MOST_TEXT])
{
    FILE *file = fopen(path, "rb");
    size_t n = file != NULL ? fread(text, 1, MOST_TEXT - 1, file) : 0;
    text[n] = '\0';
    return file != NULL && fclose(file) == 0 && n > 0;
}

static const struct device_ops *device_of(const char *name)
{
    static struct device_ops narrow;
    narrow = device_cpu;
    narrow.n_window_float = device_strict.n_window_float;
    return strcmp(name, "job") == 0 ? NULL : strcmp(name, "strict") == 0 ? &device_strict : &narrow;
}

static void ranks_read(char *list, uint32_t ranks[MOST_PARTS])
{
    int n = 0;
    for (char *rank = strtok(list, ","); rank != NULL && n < MOST_PARTS; rank = strtok(NULL, ",")) {
        ranks[n++] = (uint32_t)strtoul(rank, NULL, 10);
    }
}

static bool floats_write(const char *path, const struct cluster_result *result)
{
    const struct {
        const float *floats;
        int64_t n;
    } arrays[] = {{result->initial, result->n_weight},
                  {result->initial_embeddings, result->n_embedding},
                  {result->weights, result->n_weight},
                  {result->embeddings, result->n_embedding},
                  {result->logits, result->n_logit}};
    FILE *file = fopen(path, "wb");
    bool written = file != NULL;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays && written; i++) {
        size_t n = (size_t)arrays[i].n;
        written = n == 0 || fwrite(arrays[i].floats, sizeof(float), n, file) == n;
    }
    return file != NULL && fclose(file) == 0 && written;
}

/* In a process of its own: the next jobs are forked from one without threads. */
static void order_write(const char *text, const char *out)
{
    struct job job;
    struct dataset dataset;
    struct partition partition;
    char path[4096];
    snprintf(path, sizeof path, "%s.order", out);
    FILE *file = fopen(path, "wb");
    if (file == NULL || job_load_text(text, strlen(text), "job", NULL, 0, &job) != STATUS_OK ||
        dataset_load(&job, &dataset) != STATUS_OK || partition_build(&dataset, &job, &partition) != STATUS_OK) {
        _exit(EXIT_FAILURE);
    }
    for (int64_t i = 0; i < partition.n_node; i++) {
        const int64_t node = partition.order[i];
        fwrite(&node, sizeof node, 1, file);
    }
    fwrite(partition.part_begin, sizeof *partition.part_begin, (size_t)partition.n_part + 1, file);
    _exit(fclose(file) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

static bool order_make(const char *text, const char *out)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        order_write(text, out);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static void param_print(const struct parameter *param)
{
    printf("{\"name\": \"%s\", \"offset\": %" PRId64 ", \"shared\": %" PRId64
           ", \"trains\": %s, \"embedding\": [%" PRId64 ", %" PRId64 ", %" PRId64 "], \"shape\": [",
           param->name, param->offset, param->n_shared, param->trains ? "true" : "false", param->embedding_at,
           param->embedding_width, param->embedding_row);
    for (int d = 0; d < param->n_dim; d++) {
        printf("%s%" PRId64, d > 0 ? ", " : "", param->shape[d]);
    }
    printf("]}");
}

static void result_print(const struct cluster_result *result)
{
    printf("{\"exit\": %d, \"unplanned\": %" PRId64 ", \"allocations\": %" PRId64, result->exit_code,
           result->n_unplanned, result->n_call);
    printf(", \"weights\": %" PRId64 ", \"embeddings\": %" PRId64 ", \"logits\": %" PRId64 ", \"param\": [",
           result->n_weight, result->n_embedding, result->n_logit);
    for (int p = 0; p < result->n_param; p++) {
        printf("%s", p > 0 ? ", " : "");
        param_print(&result->param[p]);
    }
    printf("], \"loss\": [");
    for (int e = 0; e < CLUSTER_MOST_EPOCHS; e++) {
        printf("%s\"%a\"", e > 0 ? ", " : "", result->loss[e]);
    }
    printf("], \"score\": [");
    for (int s = 0; s < 4; s++) {
        printf("%s\"%a %a\"", s > 0 ? ", " : "", result->score[s].loss, result->score[s].n_correct);
    }
    printf("]}\n");
}

int main(void)
{
    static char line[MOST_TEXT], text[MOST_TEXT];
    log_init("property", 0, LOG_LEVEL_WARN);
    cluster_stirs = true;
    while (fgets(line, sizeof line, stdin) != NULL) {
        const char *job = strtok(line, " \n"), *out = strtok(NULL, " \n"), *device = strtok(NULL, " \n");
        char *list = strtok(NULL, " \n");
        uint32_t ranks[MOST_PARTS] = {0};
        if (list == NULL || !text_read(job, text)) {
            fprintf(stderr, "expected JOB OUT DEVICE RANKS, JOB a job file\n");
            return EXIT_FAILURE;
        }
        ranks_read(list, ranks);
        cluster_ranks = ranks;
        cluster_device = device_of(device);
        struct cluster_result result;
        cluster_run(text, &result);
        bool of_links = strstr(text, "kind = \"link\"") != NULL;
        if (result.exit_code == 0 && (!floats_write(out, &result) || (of_links && !order_make(text, out)))) {
            perror(out);
            return EXIT_FAILURE;
        }
        result_print(&result);
        fflush(stdout);
        cluster_release(&result);
    }
    return EXIT_SUCCESS;
}
