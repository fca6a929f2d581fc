/* Commands with one answer: cancel, resume, checkpoint, scale, drain; and what all commands ask and print by. */
#include "trainerd/ctl/base/run.h"
#include "trainerd/ctl/base/text.h"

#include <stdlib.h>

enum status ctl_connect(const struct ctl_arguments *arguments, struct client *out)
{
    const char *to = arguments->value[CTL_OPTION_TO];
    struct known_host known;
    struct client_login login = {0};
    *out = (struct client){.file = -1}; /* to be closed also where no connection is tried */
    to = to != NULL ? to : getenv("TRAINERD_TO");
    to = to != NULL && to[0] != '\0' ? to : NULL;
    enum status status = to != NULL ? ctl_login(arguments, to, &known, &login) : STATUS_OK;
    if (status != STATUS_OK) {
        return status;
    }
    return client_open(to, &login, out);
}

enum status ctl_ask(const struct ctl_arguments *arguments, json_t *request, json_t **out)
{
    struct client client;
    enum status status = ctl_connect(arguments, &client);
    if (status != STATUS_OK) {
        json_decref(request);
        return status;
    }
    status = client_ask(&client, request, out);
    client_close(&client);
    return status;
}

enum status ctl_pages(const struct ctl_arguments *arguments, json_t *request, const char *list, const char *place,
                      int64_t n_most, json_t **out)
{
    struct client client;
    enum status status = ctl_connect(arguments, &client);
    if (status != STATUS_OK) {
        json_decref(request);
        return status;
    }
    status = client_pages(&client, request, list, place, n_most, out);
    client_close(&client);
    return status;
}

void ctl_print(const struct ctl_arguments *arguments, const json_t *value, ctl_printer *print)
{
    if (ctl_given(arguments, CTL_OPTION_JSON)) {
        text_print_json(value);
    } else if (print != NULL) {
        print(value);
    }
}

enum status ctl_answer(const struct ctl_arguments *arguments, json_t *request, ctl_printer *print)
{
    json_t *answer = NULL;
    enum status status = ctl_ask(arguments, request, &answer);
    if (status == STATUS_OK) {
        ctl_print(arguments, answer, print);
    }
    json_decref(answer);
    return status;
}

json_t *ctl_job_request(const char *command, const char *name)
{
    json_t *job = json_string(name);
    return json_pack("{s:s, s:o}", "cmd", command, "job", job != NULL ? job : json_null()); /* NULL: it is no text */
}

void ctl_ask_group(const struct ctl_arguments *arguments, json_t *request)
{
    /* The string of a text that is not given is NULL, which is not set. */
    json_object_set_new(request, "group", json_string(arguments->value[CTL_OPTION_GROUP]));
    json_object_set_new(request, "tag", json_string(arguments->value[CTL_OPTION_TAG]));
}

/* Try every job. The last failure is returned, earlier ones are printed at once. */
static enum status control_each(const struct ctl_arguments *arguments, const char *command)
{
    struct client client;
    enum status status = ctl_connect(arguments, &client);
    if (status != STATUS_OK) {
        return status;
    }
    for (int i = 0; i < arguments->n_operand; i++) {
        json_t *answer = NULL;
        if (status != STATUS_OK) {
            fprintf(stderr, "trainctl: %s\n", status_reason());
        }
        enum status one = client_ask(&client, ctl_job_request(command, arguments->operand[i]), &answer);
        status = one != STATUS_OK ? one : status;
        if (answer != NULL) {
            ctl_print(arguments, answer, NULL);
        }
        json_decref(answer);
    }
    client_close(&client);
    return status;
}

/* Each job, or all jobs of --group, by the daemon. */
enum status run_control(const struct ctl_arguments *arguments)
{
    const char *command = ctl_commands[arguments->command].name;
    if (ctl_given(arguments, CTL_OPTION_GROUP) == (arguments->n_operand > 0)) {
        return status_fail(STATUS_USAGE, "%s takes JOB%s; see trainctl %s --help", command,
                           arguments->command == CTL_COMMAND_checkpoint ? "" : ", or --group GROUP", command);
    }
    if (arguments->n_operand > 0) {
        return control_each(arguments, command);
    }
    json_t *request = json_pack("{s:s}", "cmd", command);
    ctl_ask_group(arguments, request);
    return ctl_answer(arguments, request, NULL);
}

enum status run_scale(const struct ctl_arguments *arguments)
{
    char *end;
    long long n_worker = strtoll(arguments->operand[1], &end, 10);
    if (end == arguments->operand[1] || *end != '\0') {
        return status_fail(STATUS_USAGE, "WORKERS is '%s', expected a whole number", arguments->operand[1]);
    }
    json_t *request = ctl_job_request("scale", arguments->operand[0]);
    json_object_set_new(request, "workers", json_integer(n_worker));
    return ctl_answer(arguments, request, NULL);
}

static void print_drained(const json_t *answer)
{
    long long n = field_integer(answer, "running");
    printf("no job starts until trainctl undrain; %lld %s\n", n, n == 1 ? "runs" : "run");
}

enum status run_drain(const struct ctl_arguments *arguments)
{
    bool drains = arguments->command == CTL_COMMAND_drain;
    return ctl_answer(arguments, json_pack("{s:s}", "cmd", drains ? "drain" : "undrain"),
                      drains ? print_drained : NULL);
}
