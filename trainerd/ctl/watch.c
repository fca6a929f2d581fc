/* Watch a job: on a terminal a live screen, elsewhere a line per event. */
#include "protocol/base/clock.h"
#include "trainerd/ctl/base/run.h"
#include "trainerd/ctl/base/text.h"
#include "trainerd/ctl/screen.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HISTORY_LINES 100000 /* of which the daemon sends those in the last MiB */
#define FRAME_MS 100

struct watch {
    struct client client;
    struct screen screen;
    struct history history;
    json_t *job; /* from the last event, with the newest epoch's numbers */
    char footer[256];
    bool is_live, is_json, ends;
    double drawn_ms;
};

/* --- lines --- */

static void print_event(const struct watch *watch, const json_t *event)
{
    const char *kind = field_text(event, "event");
    if (watch->is_json) {
        text_print_json(event);
    } else if (strcmp(kind, "job") == 0) {
        text_print_job(stdout, json_object_get(event, "job"));
    } else if (strcmp(kind, "epoch") == 0) {
        text_print_epoch(stdout, event);
    } else if (strcmp(kind, "checkpoint") == 0) {
        printf("checkpoint after epoch %lld\n", (long long)field_integer(event, "epoch"));
    }
    fflush(stdout);
}

/* --- the screen --- */

/* Copy an epoch's numbers to the job: events "job" come with changes of state only. */
static void handle_epoch(struct watch *watch, const json_t *event)
{
    static const struct {
        const char *field, *name; /* of the event, of the job */
    } keys[] = {
        {"epoch", "epoch"},
        {"epochs", "epochs"},
        {"metric", "metric"},
#define FIGURE(field, name, form) {#field, name},
#include "trainerd/base/epoch_figures.def"
    };
    history_add(&watch->history, event);
    if (watch->job == NULL) {
        return;
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get(event, keys[i].field);
        if (value != NULL && !json_is_null(value)) {
            json_object_set(watch->job, keys[i].name, value);
        }
    }
    double n = field_number(event, "epochs");
    if (n > 0) {
        json_object_set_new(watch->job, "percent", json_real(100.0 * field_number(event, "epoch") / n));
    }
}

static void handle_event(struct watch *watch, const json_t *event)
{
    const char *kind = field_text(event, "event");
    if (json_is_true(json_object_get(event, "end"))) {
        watch->ends = true;
        return;
    }
    if (strcmp(kind, "job") == 0) {
        json_decref(watch->job);
        watch->job = json_deep_copy(json_object_get(event, "job"));
    } else if (strcmp(kind, "epoch") == 0) {
        handle_epoch(watch, event);
    } else if (strcmp(kind, "checkpoint") == 0) {
        snprintf(watch->footer, sizeof watch->footer, "q: quit, the job runs on   checkpoint after epoch %lld",
                 (long long)field_integer(event, "epoch"));
    } else if (strcmp(kind, "end") == 0) {
        snprintf(watch->footer, sizeof watch->footer, "q: quit   attempt %lld ended: %.150s",
                 (long long)field_integer(event, "attempt"), field_text(event, "reason"));
    }
    if (!watch->is_live) {
        print_event(watch, event);
    }
}

static void draw(struct watch *watch)
{
    if (!watch->is_live || watch->job == NULL || 1e3 * clock_s() - watch->drawn_ms < FRAME_MS / 2.0) {
        return;
    }
    int n_column = text_columns(stdout), n_row = text_rows(stdout);
    bool is_known = n_column >= 20 && n_row >= 4;
    screen_draw(stdout, &(struct screen_view){.n_column = is_known ? n_column : 80,
                                              .n_row = is_known ? n_row : 24,
                                              .job = watch->job,
                                              .history = &watch->history,
                                              .footer = watch->footer});
    watch->drawn_ms = 1e3 * clock_s();
}

/* Handle all events that have arrived. */
static enum status handle_all(struct watch *watch, int wait_ms)
{
    json_t *event;
    enum status status;
    do {
        status = client_next(&watch->client, wait_ms, &event);
        if (event != NULL) {
            handle_event(watch, event);
            json_decref(event);
        }
        wait_ms = 0;
    } while (status == STATUS_OK && event != NULL && !watch->ends);
    return status;
}

static enum status run_live(struct watch *watch)
{
    enum status status = STATUS_OK;
    while (status == STATUS_OK && !watch->ends) {
        struct pollfd ready[2] = {{.fd = watch->client.file, .events = POLLIN},
                                  {.fd = watch->screen.input, .events = POLLIN}};
        poll(ready, 2, FRAME_MS);
        status = handle_all(watch, 0);
        draw(watch);
        char key = screen_key(&watch->screen);
        if (key == 'q' || key == 'Q' || (ready[1].revents & (POLLHUP | POLLERR)) != 0) {
            return STATUS_OK;
        }
    }
    return status;
}

/* Where the job was when its screen was left. */
static void print_left(const json_t *job)
{
    printf("job %lld: %s", (long long)field_integer(job, "id"), field_text(job, "state"));
    if (field_integer(job, "epochs") > 0) {
        printf(", epoch %lld of %lld", (long long)field_integer(job, "epoch"),
               (long long)field_integer(job, "epochs"));
    }
    printf("\n");
}

static enum status run(struct watch *watch)
{
    if (!watch->is_live) {
        enum status status = STATUS_OK;
        while (status == STATUS_OK && !watch->ends) {
            status = handle_all(watch, -1);
        }
        return status;
    }
    screen_open(&watch->screen, isatty(STDIN_FILENO) ? STDIN_FILENO : -1, stdout);
    enum status status = run_live(watch);
    screen_close(&watch->screen);
    if (watch->job != NULL) {
        print_left(watch->job);
    }
    return status;
}

enum status run_watch(const struct ctl_arguments *arguments)
{
    const char *term = getenv("TERM");
    struct watch watch = {.footer = "q: quit, the job runs on"};
    watch.is_json = ctl_given(arguments, CTL_OPTION_JSON);
    watch.is_live = !watch.is_json && isatty(STDOUT_FILENO) && (term == NULL || strcmp(term, "dumb") != 0);
    json_t *request = ctl_job_request("watch", arguments->operand[0]);
    json_object_set_new(request, "tail", json_integer(HISTORY_LINES));
    enum status status = ctl_connect(arguments, &watch.client);
    if (status != STATUS_OK) {
        json_decref(request);
        return status;
    }
    status = client_send(&watch.client, request);
    if (status == STATUS_OK) {
        status = run(&watch);
    }
    history_release(&watch.history);
    json_decref(watch.job);
    client_close(&watch.client);
    return status;
}
