#include "trainerd/daemon/monitor/monitor.h"

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "trainerd/daemon/monitor/http.h"
#include "trainerd/daemon/monitor/metrics.h"

#include <stdlib.h>
#include <string.h>

#define PERIOD_S 1.0 /* more frequent requests get the last result, so that they cost no time */
#define HEALTH_BYTES 512

struct monitor {
    const struct jobs *jobs;
    const struct queue_capacity *whole;
    struct http *http;
    char *metrics; /* as they were at printed_s; NULL: not yet */
    size_t n_metrics;
    double printed_s, probed_s;
    enum status probed;
    char health[HEALTH_BYTES]; /* why the store cannot be written */
};

/* Jobs that are shown one by one. */
struct shown {
    const struct jobs *jobs;
    const struct job_record **job; /* n: those that live, then the last that ended */
    struct job_record *recent;
    size_t n, n_recent;
};

static void add_recent(void *context, const struct job_record *record)
{
    struct shown *shown = context;
    if (!jobs_is_live(shown->jobs, record->id)) {
        shown->recent[shown->n_recent] = *record;
        shown->job[shown->n++] = &shown->recent[shown->n_recent++];
    }
}

/* All metrics as they are now. */
static enum status update(struct monitor *monitor)
{
    static const struct store_filter all;
    int64_t n_of_state[JOB_STATE_N];
    struct shown shown = {.jobs = monitor->jobs, .recent = memory_alloc(METRICS_N_RECENT, sizeof *shown.recent)};
    struct store *store = jobs_store(monitor->jobs);
    const struct job_record *const *live = jobs_live(monitor->jobs, &shown.n);
    shown.job = memory_alloc(shown.n + METRICS_N_RECENT, sizeof *shown.job);
    for (size_t i = 0; i < shown.n; i++) {
        shown.job[i] = live[i];
    }
    enum status status = store_each_recent(store, clock_wall_s() - METRICS_RECENT_S, METRICS_N_RECENT, add_recent,
                                           &shown);
    if (status == STATUS_OK && (status = store_count(store, &all, n_of_state)) == STATUS_OK) {
        free(monitor->metrics);
        FILE *file = open_memstream(&monitor->metrics, &monitor->n_metrics);
        ASSERT(file != NULL);
        metrics_print(file, shown.job, shown.n, n_of_state, monitor->whole);
        fclose(file);
        monitor->printed_s = clock_s();
    }
    free(shown.job);
    free(shown.recent);
    return status;
}

static enum status print_metrics(void *context, FILE *file)
{
    struct monitor *monitor = context;
    bool is_old = monitor->metrics == NULL || clock_s() - monitor->printed_s >= PERIOD_S;
    enum status status = is_old ? update(monitor) : STATUS_OK;
    if (status == STATUS_OK) {
        fwrite(monitor->metrics, 1, monitor->n_metrics, file);
    }
    return status;
}

static enum status print_health(void *context, FILE *file)
{
    struct monitor *monitor = context;
    double now_s = clock_s();
    if (monitor->probed_s == 0 || now_s - monitor->probed_s >= PERIOD_S) {
        monitor->probed = store_probe(jobs_store(monitor->jobs));
        monitor->probed_s = now_s;
        snprintf(monitor->health, sizeof monitor->health, "%s",
                 monitor->probed == STATUS_OK ? "ok" : status_reason());
    }
    fprintf(file, "%s\n", monitor->health);
    return monitor->probed;
}

static const struct http_page page[] = {{"/metrics", METRICS_CONTENT_TYPE, print_metrics},
                                        {"/healthz", "text/plain; charset=utf-8", print_health}};

enum status monitor_open(uv_loop_t *loop, const char *address, const struct jobs *jobs,
                         const struct queue_capacity *whole, struct monitor **out)
{
    *out = NULL;
    if (address[0] == '\0') {
        return STATUS_OK;
    }
    struct monitor *monitor = memory_alloc(1, sizeof *monitor);
    *monitor = (struct monitor){.jobs = jobs, .whole = whole};
    const struct http_pages pages = {page, sizeof page / sizeof *page, monitor};
    enum status status = http_open(loop, address, "daemon.metrics", &pages, &monitor->http);
    if (status != STATUS_OK) {
        free(monitor);
        return status;
    }
    *out = monitor;
    return STATUS_OK;
}

void monitor_close(struct monitor *monitor)
{
    if (monitor != NULL) {
        http_close(monitor->http);
        free(monitor->metrics);
        free(monitor); /* http_close prints no page any more */
    }
}

const char *monitor_address(const struct monitor *monitor)
{
    return monitor == NULL ? "" : http_address(monitor->http);
}
