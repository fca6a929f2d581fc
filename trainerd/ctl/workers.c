/* Tables of a job's workers and of the daemon's GPUs. */
#include "protocol/base/program.h"
#include "protocol/files/capture.h"
#include "trainerd/ctl/base/run.h"
#include "trainerd/ctl/base/text.h"

#include <stdlib.h>
#include <string.h>

/* A driver may take long to begin. */
#define GPUS_WAIT_S 60.0

/* --- memory in use --- */

/* The GPU of that UUID; NULL: there is none. */
static const json_t *find_gpu(const json_t *gpus, const char *uuid)
{
    const json_t *gpu;
    size_t i;
    json_array_foreach(gpus, i, gpu)
    {
        if (uuid[0] != '\0' && strcmp(text_of(gpu, "uuid"), uuid) == 0) {
            return gpu;
        }
    }
    return NULL;
}

/* Add memory_used, as a worker of this machine says it, to GPUs of the daemon: null of one that is not here. */
static void set_memory_used(const json_t *gpus)
{
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
        json_t *used = json_object_get(find_gpu(json_object_get(here, "gpus"), text_of(gpu, "uuid")), "memory_used");
        json_object_set(gpu, "memory_used", used != NULL ? used : json_null());
    }
    json_decref(here);
}

static void add_integer(struct table *table, const json_t *object, const char *key)
{
    char number[TEXT_BYTES] = "-";
    if (json_is_integer(json_object_get(object, key))) {
        snprintf(number, sizeof number, "%lld", (long long)integer_of(object, key));
    }
    table_add(table, number);
}

static void add_text(struct table *table, const json_t *object, const char *key)
{
    const char *text = text_of(object, key);
    table_add(table, text[0] != '\0' ? text : "-");
}

/* Four columns: number, model, memory, of it in use. gpu NULL: none. */
static void add_gpu(struct table *table, const json_t *gpu)
{
    char all[TEXT_BYTES], used[TEXT_BYTES];
    text_bytes(number_of(gpu, "memory"), all);
    text_bytes(number_of(gpu, "memory_used"), used);
    add_integer(table, gpu, "gpu");
    add_text(table, gpu, "name");
    table_add(table, all);
    table_add(table, used);
}

static void add_gpu_titles(struct table *table, int first)
{
    static const char *const titles[] = {"GPU", "MODEL", "MEMORY", "IN USE"};
    for (int i = 0; i < 4; i++) {
        table->is_right[first + i] = i != 1;
        table_add(table, titles[i]);
    }
}

/* --- workers --- */

/* The job's GPU of that number. */
static const json_t *gpu_of(const json_t *gpus, const json_t *number)
{
    const json_t *gpu;
    size_t i;
    json_array_foreach(gpus, i, gpu)
    {
        if (json_is_integer(number) && json_equal(json_object_get(gpu, "gpu"), number)) {
            return gpu;
        }
    }
    return NULL;
}

static void print_workers(const json_t *answer)
{
    const json_t *worker, *gpus = json_object_get(answer, "gpus");
    bool has_gpus = json_array_size(gpus) > 0;
    size_t i;
    struct table table;
    table_init(&table, has_gpus ? 7 : 3);
    table.is_right[1] = true;
    table_add(&table, "RANK");
    table_add(&table, "PID");
    table_add(&table, "HOST");
    if (has_gpus) {
        add_gpu_titles(&table, 3);
    }
    if (integer_of(answer, "coordinator") != 0) {
        table_add(&table, "coordinator");
        add_integer(&table, answer, "coordinator");
        add_text(&table, answer, "host");
        if (has_gpus) {
            add_gpu(&table, NULL);
        }
    }
    json_array_foreach(json_object_get(answer, "workers"), i, worker)
    {
        add_integer(&table, worker, "rank");
        add_integer(&table, worker, "pid");
        add_text(&table, worker, "host");
        if (has_gpus) {
            add_gpu(&table, gpu_of(gpus, json_object_get(worker, "gpu")));
        }
    }
    table_print(&table, stdout, 0, NULL);
}

enum status run_workers(const struct ctl_arguments *arguments, int *exit_code_out)
{
    json_t *answer = NULL;
    (void)exit_code_out;
    enum status status = ctl_ask(arguments, ctl_job_request(arguments, "workers"), &answer);
    if (status == STATUS_OK) {
        set_memory_used(json_object_get(answer, "gpus"));
    }
    if (status == STATUS_OK && ctl_given(arguments, CTL_OPTION_JSON)) {
        text_print_json(answer);
    } else if (status == STATUS_OK) {
        print_workers(answer);
    }
    json_decref(answer);
    return status;
}

/* --- GPUs --- */

static void print_gpus(const json_t *gpus)
{
    const json_t *gpu;
    size_t i;
    struct table table;
    table_init(&table, 7);
    add_gpu_titles(&table, 0);
    table.is_right[4] = true;
    table_add(&table, "JOB");
    table_add(&table, "NAME");
    table_add(&table, "OWNER");
    json_array_foreach(gpus, i, gpu)
    {
        add_gpu(&table, gpu);
        add_integer(&table, gpu, "job");
        add_text(&table, gpu, "job_name");
        add_text(&table, gpu, "owner");
    }
    table_print(&table, stdout, 0, NULL);
    if (json_array_size(gpus) == 0) {
        fprintf(stderr, "the daemon has no GPUs to give to jobs (daemon.gpus, in trainerd.toml)\n");
    }
}

enum status run_gpus(const struct ctl_arguments *arguments, int *exit_code_out)
{
    json_t *answer = NULL;
    (void)exit_code_out;
    enum status status = ctl_ask(arguments, json_pack("{s:s}", "cmd", "gpus"), &answer);
    if (status == STATUS_OK) {
        set_memory_used(json_object_get(answer, "gpus"));
    }
    if (status == STATUS_OK && ctl_given(arguments, CTL_OPTION_JSON)) {
        text_print_json(answer);
    } else if (status == STATUS_OK) {
        print_gpus(json_object_get(answer, "gpus"));
    }
    json_decref(answer);
    return status;
}
