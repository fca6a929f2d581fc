#include "tests/unit/trainerd/daemon/commands/talk.h"
#include "tests/support/process/expect.h"

#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct server *server;
static struct commands *commands;
struct jobs *jobs;
struct jobs_options talk_jobs = {.gpus = &gpus};
struct supervisor supervisor;
struct client client;
struct gpus gpus = {.n = 2,
                    .gpu = {{.number = 0, .n_bytes = 1000, .name = "H100", .uuid = "GPU-a", .visible = "GPU-a"},
                            {.number = 3, .n_bytes = -1, .visible = "3"}}};

static uint64_t now_ns(void)
{
    return supervisor.clock_ns += supervisor.clock_step_ns;
}

struct commands_options talk_options = {.max_restarts = 3};

void talk_begin(void)
{
    folder_make();
    cr_assert_eq(chmod(folder, 0755), 0);
    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(mkdir(folder_path("state"), 0700), 0);
    expect_done(jobs_open(folder_path("state"), &talk_jobs, &jobs));
    supervisor.jobs = jobs;
    cr_assert_eq(commands_open(&loop, jobs, &supervisor, &talk_options, &commands), STATUS_OK);
    char address[128];
    snprintf(address, sizeof address, "unix:%s/socket", folder);
    struct server_options options = {.address = address,
                                     .n_most_connection = 100,
                                     .n_most_of_uid = 50,
                                     .n_most_frame = 1u << 21,
                                     .n_most_unread = 1u << 20,
                                     .hello_s = 100,
                                     .idle_s = 100,
                                     .now_ns = now_ns};
    struct server_handler handler = commands_handler(commands);
    expect_done(server_open(&loop, &options, &handler, &server));
    client_open(&client, server_address(server));
}

void talk_end(void)
{
    client_close(&client);
    server_close(server);
    commands_close(commands);
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&loop), 0);
    jobs_close(jobs);
    folder_remove();
}

json_t *answer_of(struct client *from)
{
    const char *line = client_line(from);
    json_t *answer = line == NULL ? NULL : json_loads(line, 0, NULL);
    cr_assert_not_null(answer, "%s", line != NULL ? line : "no answer");
    return answer;
}

/* Requests and expected answers are written with ' for ", and ` for '. */
static char *json_text(const char *written)
{
    char *text = strdup(written);
    cr_assert_not_null(text);
    for (char *c = text; *c != '\0'; c++) {
        *c = *c == '\'' ? '"' : *c == '`' ? '\'' : *c;
    }
    return text;
}

void tell(struct client *from, const char *request)
{
    char *text = json_text(request);
    client_send(from, text);
    client_send(from, "\n");
    free(text);
}

json_t *ask_by(struct client *from, const char *request)
{
    tell(from, request);
    return answer_of(from);
}

json_t *ask(const char *request)
{
    return ask_by(&client, request);
}

static bool has(const json_t *got, const json_t *expected)
{
    const char *key;
    size_t i;
    json_t *value;
    if (json_is_object(expected)) {
        json_object_foreach((json_t *)expected, key, value)
        {
            if (!has(json_object_get(got, key), value)) {
                return false;
            }
        }
        return json_is_object(got);
    }
    if (json_is_array(expected)) {
        json_array_foreach(expected, i, value)
        {
            if (!has(json_array_get(got, i), value)) {
                return false;
            }
        }
        return json_is_array(got) && json_array_size(got) == i;
    }
    if (json_is_number(expected)) {
        double difference = json_number_value(got) - json_number_value(expected);
        return json_is_number(got) && difference < 1e-6 && difference > -1e-6;
    }
    return json_equal(got, expected) != 0;
}

void expect_answer(json_t *answer, const char *expected)
{
    char *text = json_text(expected);
    json_t *wanted = json_loads(text, 0, NULL);
    cr_assert_not_null(wanted, "%s", text);
    cr_assert(has(answer, wanted), "not %s: %s", text, json_dumps(answer, 0));
    json_decref(wanted);
    json_decref(answer);
    free(text);
}

void gives(const char *request, const char *expected)
{
    expect_answer(ask(request), expected);
}

void expect_failure(json_t *answer, int exit_code, const char *part)
{
    const char *error = json_string_value(json_object_get(answer, "error"));
    cr_assert(json_is_false(json_object_get(answer, "ok")), "%s", json_dumps(answer, 0));
    cr_assert(error != NULL && strstr(error, part) != NULL, "'%s' is not in: %s", part, error != NULL ? error : "-");
    cr_assert_eq(json_integer_value(json_object_get(answer, "exit_code")), exit_code);
    json_decref(answer);
}

int64_t number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value != NULL ? value : "";
}

void fails(const char *request, int exit_code, const char *part)
{
    expect_failure(ask(request), exit_code, part);
}

int64_t submit(const char *request)
{
    json_t *answer = ask(request);
    cr_assert(json_is_true(json_object_get(answer, "ok")), "%s", text(answer, "error"));
    int64_t id = number(answer, "job");
    json_decref(answer);
    return id;
}

void other_user_open(struct client *other_user)
{
    need_root();
    cr_assert_eq(seteuid(STRANGER), 0);
    client_open(other_user, server_address(server));
    cr_assert_eq(seteuid(0), 0);
}

void job_become(int64_t id, enum job_state state)
{
    struct job_record record = *jobs_get(jobs, id);
    record.state = state;
    record.reason = JOB_REASON_NONE;
    record.attempt = 1;
    record.run.pid = state == JOB_STATE_RUNNING ? 4711 : 0;
    expect_done(jobs_change(jobs, &record));
}

void job_run(int64_t id)
{
    job_become(id, JOB_STATE_PREPARING);
    job_become(id, JOB_STATE_RUNNING);
}

size_t n_jobs(void)
{
    return (size_t)jobs_n(jobs);
}

void job_epochs(int64_t id, int64_t n)
{
    struct job_progress progress = jobs_get(jobs, id)->progress;
    progress.epoch = n;
    jobs_progress(jobs, id, &progress, 0);
}

void job_write(int64_t id, const char *name, const char *words)
{
    char path[PATH_MAX + 64];
    jobs_folder(jobs, id, path);
    mkdir(path, 0700);
    strcat(strcat(path, "/"), name);
    FILE *file = fopen(path, "a");
    cr_assert_not_null(file, "%s", path);
    fputs(words, file);
    fclose(file);
}
