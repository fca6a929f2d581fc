/* Streams of a job: logs and metrics. */
#include "trainerd/ctl/base/run.h"
#include "trainerd/ctl/base/text.h"

#include <string.h>

/* Logs are printed as they are, metrics in fixed columns. */
static void print_event(const json_t *event, bool is_first)
{
    if (strcmp(field_text(event, "event"), "log") == 0) {
        text_print_lines(stdout, field_text(event, "text"));
        return;
    }
    if (is_first) {
        printf("%8s %12s %9s %9s %9s %9s %9s %9s %10s\n", "EPOCH", "LOSS", "TRAIN", "VALID", "TEST", "TIME",
               "COMPUTE", "WAIT", "SENT");
    }
    printf("%8lld %12s %9s %9s %9s %9s %9s %9s %10s\n", (long long)field_integer(event, "epoch"),
           figure_number(field_number(event, "loss")).text, text_metric(event, "train_metric").text,
           text_metric(event, "valid_metric").text, text_metric(event, "test_metric").text,
           figure_seconds(field_number(event, "epoch_s")).text, figure_seconds(field_number(event, "compute_s")).text,
           figure_seconds(field_number(event, "wait_s")).text, figure_bytes(field_number(event, "bytes_sent")).text);
}

static enum status print_stream(const struct ctl_arguments *arguments, json_t *request)
{
    struct client client;
    bool is_first = true, is_json = ctl_given(arguments, CTL_OPTION_JSON);
    enum status status = ctl_connect(arguments, &client);
    if (status != STATUS_OK) {
        json_decref(request);
        return status;
    }
    status = client_send(&client, request);
    for (bool ends = false; status == STATUS_OK && !ends;) {
        json_t *event;
        status = client_next(&client, -1, &event);
        if (status != STATUS_OK || event == NULL) {
            continue;
        }
        ends = json_is_true(json_object_get(event, "end"));
        if (!ends && is_json) {
            json_object_del(event, "id");
            text_print_json(event);
        } else if (!ends) {
            print_event(event, is_first);
            is_first = false;
        }
        if (fflush(stdout) != 0) {
            status = status_fail(STATUS_IO, "cannot write to standard output");
        }
        json_decref(event);
    }
    client_close(&client);
    return status;
}

/* A number of the request, where the option is given. */
static enum status set_number(const struct ctl_arguments *arguments, enum ctl_option option, long long most,
                              json_t *request)
{
    long long n;
    enum status status = ctl_int(arguments, option, 0, most, -1, &n);
    if (n >= 0) {
        json_object_set_new(request, ctl_options[option].name, json_integer(n));
    }
    return status;
}

/* The stream that the command is named after. */
enum status run_stream(const struct ctl_arguments *arguments)
{
    json_t *request = ctl_job_request(ctl_commands[arguments->command].name, arguments->operand[0]);
    enum status status = set_number(arguments, CTL_OPTION_TAIL, 1000000000, request);
    if (status != STATUS_OK || (status = set_number(arguments, CTL_OPTION_RANK, 65535, request)) != STATUS_OK) {
        json_decref(request);
        return status;
    }
    if (ctl_given(arguments, CTL_OPTION_FOLLOW)) {
        json_object_set_new(request, "follow", json_true());
    }
    return print_stream(arguments, request);
}
