/* The daemon's GPUs, and which jobs and workers have them. */
#include "trainerd/daemon/commands/job_json.h"
#include "trainerd/daemon/commands/pending.h"
#include "trainerd/daemon/server/answer.h"

/* A GPU of the daemon; one that it has no more, of which a job that runs has the number, by that alone. */
static json_t *gpu_json(const struct gpus *gpus, int32_t number)
{
    const struct gpu *gpu = NULL;
    for (int32_t i = 0; i < gpus->n; i++) {
        gpu = gpus->gpu[i].number == number ? &gpus->gpu[i] : gpu;
    }
    json_t *one = json_object();
    bool has_name = gpu != NULL && gpu->name[0] != '\0', has_uuid = gpu != NULL && gpu->uuid[0] != '\0';
    json_object_set_new(one, "gpu", json_integer(number));
    json_object_set_new(one, "name", has_name ? json_string(gpu->name) : json_null());
    json_object_set_new(one, "uuid", has_uuid ? json_string(gpu->uuid) : json_null());
    json_object_set_new(one, "memory", gpu != NULL && gpu->n_bytes >= 0 ? json_integer(gpu->n_bytes) : json_null());
    return one;
}

/* The job that holds it: number, name and owner are open to all. */
static void set_holder(json_t *one, const struct jobs *jobs, int32_t number)
{
    size_t n;
    const struct job_record *const *all = jobs_live(jobs, &n), *holder = NULL;
    for (size_t i = 0; i < n && holder == NULL; i++) {
        holder = (all[i]->gpus >> number & 1u) != 0 ? all[i] : NULL;
    }
    json_t *job = holder != NULL ? job_json(holder, false) : NULL;
    json_object_set_new(one, "job", holder != NULL ? json_integer(holder->id) : json_null());
    json_object_set(one, "job_name", holder != NULL ? json_object_get(job, "name") : json_null());
    json_object_set(one, "owner", holder != NULL ? json_object_get(job, "owner") : json_null());
    json_decref(job);
}

enum status handle_gpus(struct commands *commands, struct connection *connection, const json_t *request)
{
    const struct gpus *gpus = jobs_gpus(commands->jobs);
    json_t *list = json_array();
    for (int32_t i = 0; i < gpus->n; i++) {
        json_t *one = gpu_json(gpus, gpus->gpu[i].number);
        set_holder(one, commands->jobs, gpus->gpu[i].number);
        json_array_append_new(list, one);
    }
    connection_send(connection, answer_with(request, "{s:o}", "gpus", list));
    return STATUS_OK;
}

void show_gpu_set(const struct gpus *gpus, uint64_t set, json_t *answer)
{
    json_t *list = json_array(), *worker;
    size_t i;
    for (int32_t number = 0; number < GPUS_MOST; number++) {
        if ((set >> number & 1u) != 0) {
            json_array_append_new(list, gpu_json(gpus, number));
        }
    }
    json_array_foreach(json_object_get(answer, "workers"), i, worker)
    {
        size_t n = json_array_size(list), rank = (size_t)json_integer_value(json_object_get(worker, "rank"));
        const json_t *gpu = n > 0 ? json_array_get(list, rank % n) : NULL;
        json_object_set(worker, "gpu", gpu != NULL ? json_object_get(gpu, "gpu") : json_null());
    }
    json_object_set_new(answer, "gpus", list);
}
