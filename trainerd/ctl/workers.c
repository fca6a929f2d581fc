/* Tables of a job's workers and of the daemon's GPUs. */
#include "protocol/base/program.h"
#include "protocol/files/capture.h"
#include "trainerd/ctl/base/columns.h"
#include "trainerd/ctl/base/run.h"
#include "trainerd/ctl/base/text.h"

#include <stdlib.h>

/* A driver may take long to begin. */
#define GPUS_WAIT_S 60.0

/* --- memory in use --- */

/* The first GPU with that value; NULL: no GPU has it. */
static json_t *find_gpu(const json_t *gpus, const char *key, const json_t *value)
{
    json_t *gpu;
    size_t i;
    json_array_foreach(gpus, i, gpu)
    {
        if (json_equal(json_object_get(gpu, key), value)) {
            return gpu;
        }
    }
    return NULL;
}

/* Add what a worker of this machine says to GPUs of the daemon: null of one that is not here. */
static void set_found(const json_t *gpus)
{
    static const char *const keys[] = {"memory_used", "numa_node", "network", "links"};
    static char printed[1 << 16];
    char worker[PATH_MAX];
    json_t *here = NULL, *gpu;
    size_t i;
    if (json_array_size(gpus) > 0 && program_beside("trainer-worker", worker) == STATUS_OK) {
        unsetenv("CUDA_VISIBLE_DEVICES"); /* of this user: the daemon may see other GPUs */
        capture((const char *const[]){worker, "--gpus", "--json", NULL}, GPUS_WAIT_S, printed, sizeof printed);
        here = json_loads(printed, 0, NULL);
    }
    json_array_foreach(gpus, i, gpu)
    {
        const json_t *found = find_gpu(json_object_get(here, "gpus"), "uuid", json_object_get(gpu, "uuid"));
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            json_t *value = json_object_get(found, keys[k]);
            json_object_set(gpu, keys[k], value != NULL ? value : json_null());
        }
    }
    json_decref(here);
}

/* Four columns. path: of the GPU in a row */
#define GPU_COLUMNS(path)                                                                                            \
    {"GPU", path "gpu", cell_integer, true, 0}, {"MODEL", path "name", cell_word, false, 0},                         \
        {"MEMORY", path "memory", cell_bytes, true, 0},                                                              \
    {                                                                                                                \
        "IN USE", path "memory_used", cell_bytes, true, 0                                                            \
    }

/* --- workers --- */

static char *cell_rank(const json_t *row, const char *path)
{
    return json_is_string(json_object_get(row, path)) ? cell_text(row, path) : cell_integer(row, path);
}

static const struct column worker_columns[] = {
    {"RANK", "rank", cell_rank, false, 0},
    {"PID", "pid", cell_integer, true, 0},
    {"HOST", "host", cell_word, false, 0},
    GPU_COLUMNS("on."),
};

/* The coordinator first, where it is known; "on": the GPU of each. */
static void print_workers(const json_t *answer)
{
    json_t *worker, *rows = json_array();
    const json_t *gpus = json_object_get(answer, "gpus");
    size_t i;
    if (field_integer(answer, "coordinator") != 0) {
        json_array_append_new(rows, json_pack("{s:s, s:O, s:O?}", "rank", "coordinator", "pid",
                                              json_object_get(answer, "coordinator"), "host",
                                              json_object_get(answer, "host")));
    }
    json_array_foreach(json_object_get(answer, "workers"), i, worker)
    {
        json_t *gpu = find_gpu(gpus, "gpu", json_object_get(worker, "gpu"));
        json_object_set(worker, "on", gpu != NULL ? gpu : json_null());
        json_array_append(rows, worker);
    }
    columns_print(worker_columns, json_array_size(gpus) > 0 ? 7 : 3, rows, 0);
    json_decref(rows);
}

/* Ask, and print the answer with what is found of its GPUs. */
static enum status answer_found(const struct ctl_arguments *arguments, json_t *request, ctl_printer *print)
{
    json_t *answer = NULL;
    enum status status = ctl_ask(arguments, request, &answer);
    if (status == STATUS_OK) {
        set_found(json_object_get(answer, "gpus"));
        ctl_print(arguments, answer, print);
    }
    json_decref(answer);
    return status;
}

enum status run_workers(const struct ctl_arguments *arguments)
{
    return answer_found(arguments, ctl_job_request("workers", arguments->operand[0]), print_workers);
}

/* --- GPUs --- */

static const struct column gpu_columns[] = {
    GPU_COLUMNS(""),
    {"JOB", "job", cell_integer, true, 0},
    {"NAME", "job_name", cell_word, false, 0},
    {"OWNER", "owner", cell_word, false, 0},
};

static void print_gpus(const json_t *answer)
{
    const json_t *gpus = json_object_get(answer, "gpus");
    columns_print(gpu_columns, sizeof gpu_columns / sizeof *gpu_columns, gpus, 0);
    if (json_array_size(gpus) == 0) {
        fprintf(stderr, "the daemon has no GPUs to give to jobs (daemon.gpus, in trainerd.toml)\n");
    }
}

enum status run_gpus(const struct ctl_arguments *arguments)
{
    return answer_found(arguments, json_pack("{s:s}", "cmd", "gpus"), print_gpus);
}
