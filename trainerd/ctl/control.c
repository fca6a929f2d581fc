/* Commands with one answer: cancel, resume, checkpoint, scale, drain; and the connection of all commands. */
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

json_t *ctl_job_request(const struct ctl_arguments *arguments, const char *command)
{
    json_t *request = json_object();
    json_t *job = json_string(arguments->operand[0]);
    json_object_set_new(request, "cmd", json_string(command));
    json_object_set_new(request, "job", job != NULL ? job : json_null());
    return request;
}

void ctl_ask_group(const struct ctl_arguments *arguments, json_t *request)
{
    const char *group = arguments->value[CTL_OPTION_GROUP], *tag = arguments->value[CTL_OPTION_TAG];
    if (group != NULL) {
        json_object_set_new(request, "group", json_string(group));
    }
    if (tag != NULL) {
        json_object_set_new(request, "tag", json_string(tag));
    }
}

/* All jobs of --group, by the daemon. */
static enum status control_group(const struct ctl_arguments *arguments)
{
    json_t *answer = NULL, *request = json_pack("{s:s}", "cmd", ctl_commands[arguments->command].name);
    ctl_ask_group(arguments, request);
    enum status status = ctl_ask(arguments, request, &answer);
    if (status == STATUS_OK && ctl_given(arguments, CTL_OPTION_JSON)) {
        text_print_json(answer);
    }
    json_decref(answer);
    return status;
}

/* Try every job. The last failure is returned, earlier ones are printed at once. */
enum status run_control(const struct ctl_arguments *arguments, int *exit_code_out)
{
    struct client client;
    (void)exit_code_out;
    if (ctl_given(arguments, CTL_OPTION_GROUP) == (arguments->n_operand > 0)) {
        const char *name = ctl_commands[arguments->command].name;
        return status_fail(STATUS_USAGE, "%s takes JOB%s; see trainctl %s --help", name,
                           arguments->command == CTL_COMMAND_checkpoint ? "" : ", or --group GROUP", name);
    }
    if (ctl_given(arguments, CTL_OPTION_GROUP)) {
        return control_group(arguments);
    }
    enum status status = ctl_connect(arguments, &client);
    if (status != STATUS_OK) {
        return status;
    }
    const char *command = ctl_commands[arguments->command].name;
    for (int i = 0; i < arguments->n_operand; i++) {
        json_t *answer = NULL, *request = json_object(), *job = json_string(arguments->operand[i]);
        if (status != STATUS_OK) {
            fprintf(stderr, "trainctl: %s\n", status_reason());
        }
        json_object_set_new(request, "cmd", json_string(command));
        json_object_set_new(request, "job", job != NULL ? job : json_null());
        enum status one = client_ask(&client, request, &answer);
        status = one != STATUS_OK ? one : status;
        if (answer != NULL && ctl_given(arguments, CTL_OPTION_JSON)) {
            text_print_json(answer);
        }
        json_decref(answer);
    }
    client_close(&client);
    return status;
}

enum status run_scale(const struct ctl_arguments *arguments, int *exit_code_out)
{
    char *end;
    (void)exit_code_out;
    long long n_worker = strtoll(arguments->operand[1], &end, 10);
    if (end == arguments->operand[1] || *end != '\0') {
        return status_fail(STATUS_USAGE, "WORKERS is '%s', expected a whole number", arguments->operand[1]);
    }
    json_t *answer, *request = ctl_job_request(arguments, "scale");
    json_object_set_new(request, "workers", json_integer(n_worker));
    enum status status = ctl_ask(arguments, request, &answer);
    if (status == STATUS_OK) {
        if (ctl_given(arguments, CTL_OPTION_JSON)) {
            text_print_json(answer);
        }
        json_decref(answer);
    }
    return status;
}

enum status run_drain(const struct ctl_arguments *arguments, int *exit_code_out)
{
    json_t *answer;
    (void)exit_code_out;
    enum status status = ctl_ask(arguments, json_pack("{s:s}", "cmd", ctl_commands[arguments->command].name),
                                 &answer);
    if (status != STATUS_OK) {
        return status;
    }
    if (ctl_given(arguments, CTL_OPTION_JSON)) {
        text_print_json(answer);
    } else if (arguments->command == CTL_COMMAND_drain) {
        long long n = integer_of(answer, "running");
        printf("no job starts until trainctl undrain; %lld %s\n", n, n == 1 ? "runs" : "run");
    }
    json_decref(answer);
    return STATUS_OK;
}
