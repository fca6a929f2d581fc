/* Streams of a job: logs and metrics. */
#include "trainerd/ctl/base/run.h"
#include "trainerd/ctl/base/text.h"

#include <string.h>

/* Logs are printed as they are, metrics in fixed columns. */
static void print_event(const json_t *event, bool is_first)
{
    static const char *const keys[] = {"loss", "train_metric", "valid_metric", "test_metric"};
    if (strcmp(text_of(event, "event"), "log") == 0) {
        text_print_lines(stdout, text_of(event, "text"));
        return;
    }
    char text[TEXT_BYTES];
    if (is_first) {
        printf("%8s %12s %9s %9s %9s %9s %9s %9s %10s\n", "EPOCH", "LOSS", "TRAIN", "VALID", "TEST", "TIME",
               "COMPUTE", "WAIT", "SENT");
    }
    printf("%8lld", (long long)integer_of(event, "epoch"));
    text_value(number_of(event, keys[0]), text);
    printf(" %12s", text);
    for (int i = 1; i < 4; i++) {
        text_metric(event, keys[i], text);
        printf(" %9s", text);
    }
    static const char *const times[] = {"epoch_s", "compute_s", "wait_s"};
    for (int i = 0; i < 3; i++) {
        text_duration(number_of(event, times[i]), text);
        printf(" %9s", text);
    }
    text_bytes(number_of(event, "bytes_sent"), text);
    printf(" %10s\n", text);
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

static enum status set_tail(const struct ctl_arguments *arguments, json_t *request)
{
    long long n_tail;
    enum status status = ctl_int(arguments, CTL_OPTION_TAIL, 0, 1000000000, -1, &n_tail);
    if (n_tail >= 0) {
        json_object_set_new(request, "tail", json_integer(n_tail));
    }
    if (ctl_given(arguments, CTL_OPTION_FOLLOW)) {
        json_object_set_new(request, "follow", json_true());
    }
    return status;
}

enum status run_logs(const struct ctl_arguments *arguments, int *exit_code_out)
{
    long long rank;
    (void)exit_code_out;
    json_t *request = ctl_job_request(arguments, "logs");
    enum status status = set_tail(arguments, request);
    if (status != STATUS_OK || (status = ctl_int(arguments, CTL_OPTION_RANK, 0, 65535, -1, &rank)) != STATUS_OK) {
        json_decref(request);
        return status;
    }
    if (rank >= 0) {
        json_object_set_new(request, "rank", json_integer(rank));
    }
    return print_stream(arguments, request);
}

enum status run_metrics(const struct ctl_arguments *arguments, int *exit_code_out)
{
    (void)exit_code_out;
    json_t *request = ctl_job_request(arguments, "metrics");
    enum status status = set_tail(arguments, request);
    if (status != STATUS_OK) {
        json_decref(request);
        return status;
    }
    return print_stream(arguments, request);
}
