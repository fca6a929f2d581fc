#include "trainerd/daemon/monitor/metrics.h"

#include "protocol/base/memory.h"
#include "protocol/base/printable.h"
#include "protocol/base/version.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LABELS_BYTES 640 /* a name of which every byte is escaped twice, and the rest */

/* --- the text format --- */

void metrics_print_head(FILE *file, const char *name, const char *type, const char *help)
{
    fprintf(file, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metrics_print_value(FILE *file, const char *name, const char *labels, double value)
{
    const char *open = labels[0] != '\0' ? "{" : "", *close = labels[0] != '\0' ? "}" : "";
    bool is_whole = value == floor(value) && fabs(value) < 1e15;
    fprintf(file, is_whole ? "%s%s%s%s %.0f\n" : "%s%s%s%s %.10g\n", name, open, labels, close, value);
}

/* --- single jobs --- */

/* clang-format off */
/* Metrics of a job: rows of one name are adjacent, and the first has its type and help. */
static const struct job_metric {
    const char *name, *type, *help;
    const char *label;        /* besides the job's own; NULL: no other */
    size_t offset, int_bytes; /* int_bytes 0: a double */
} job_metrics[] = {
#define AT(field) offsetof(struct job_record, field)
#define INT(name, type, help, label, field)                                                                          \
    {"trainerd_job_" name, type, help, label, AT(field), sizeof((struct job_record *)0)->field},
#define REAL(name, type, help, label, field) {"trainerd_job_" name, type, help, label, AT(field), 0},
    INT("epoch", "gauge", "Epochs done.", NULL, progress.epoch)
    INT("epochs", "gauge", "Epochs of the whole job.", NULL, progress.n_epoch)
    REAL("loss", "gauge", "Training loss of the last epoch.", NULL, progress.loss)
    REAL("metric", "gauge",
         "The job's metric in its last evaluation, as a fraction; of numbers (rmse, mae) as it is.",
         "split=\"train\"", progress.train_metric)
    REAL("metric", "", "", "split=\"valid\"", progress.valid_metric)
    REAL("metric", "", "", "split=\"test\"", progress.test_metric)
    REAL("epoch_seconds", "gauge", "Time of the last epoch.", NULL, progress.epoch_s)
    REAL("phase_seconds", "gauge", "Time of the last epoch by phase; evaluating has a part in the others.",
         "phase=\"compute\"", progress.compute_s)
    REAL("phase_seconds", "", "", "phase=\"wait\"", progress.wait_s)
    REAL("phase_seconds", "", "", "phase=\"evaluate\"", progress.evaluate_s)
    REAL("epoch_bytes", "gauge", "Bytes between workers in the last epoch.", "direction=\"sent\"",
         progress.bytes_sent)
    REAL("epoch_bytes", "", "", "direction=\"received\"", progress.bytes_received)
    REAL("seconds_left", "gauge", "Estimated time of the remaining epochs.", NULL, progress.seconds_left)
    INT("memory_bytes", "gauge", "Memory of the job: of all processes by plan, and as its workers measure theirs.",
        "by=\"plan\"", memory)
    REAL("memory_bytes", "", "", "by=\"measure\"", progress.memory)
    INT("restarts_total", "counter", "Attempts that failed and were followed by another.", NULL, run.n_restart)
#undef INT
#undef REAL
#undef AT
};
/* clang-format on */

/* NaN where it is not known. */
static double job_value(const struct job_metric *metric, const struct job_record *job)
{
    const void *at = (const char *)job + metric->offset;
    if (metric->int_bytes == 0) {
        return *(const double *)at;
    }
    int64_t value = metric->int_bytes == sizeof(int32_t) ? *(const int32_t *)at : *(const int64_t *)at;
    return value < 0 ? NAN : (double)value;
}

/* job="7",name="cora": first unprintable bytes, then quotes and backslashes are escaped. */
static void job_labels(const struct job_record *job, const char *label, char out[LABELS_BYTES])
{
    char name[4 * JOB_NAME_BYTES];
    printable_copy(job->name, name, sizeof name);
    size_t at = (size_t)snprintf(out, LABELS_BYTES, "job=\"%lld\",name=\"", (long long)job->id);
    for (const char *c = name; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            out[at++] = '\\';
        }
        out[at++] = *c;
    }
    snprintf(out + at, LABELS_BYTES - at, "\"%s%s", label == NULL ? "" : ",", label == NULL ? "" : label);
}

static void print_jobs(FILE *file, const struct job_record *const *jobs, size_t n)
{
    const char *last = "";
    for (size_t m = 0; m < sizeof job_metrics / sizeof *job_metrics; m++) {
        const struct job_metric *metric = &job_metrics[m];
        if (strcmp(metric->name, last) != 0) {
            metrics_print_head(file, metric->name, metric->type, metric->help);
            last = metric->name;
        }
        for (size_t i = 0; i < n; i++) {
            bool has_begun = job_state_ended(jobs[i]->state) || jobs[i]->attempt > 0;
            double value = has_begun ? job_value(metric, jobs[i]) : (double)NAN;
            if (isfinite(value)) {
                char labels[LABELS_BYTES];
                job_labels(jobs[i], metric->label, labels);
                metrics_print_value(file, metric->name, labels, value);
            }
        }
    }
}

/* --- all jobs together --- */

struct sums {
    int64_t n_of_reason[JOB_REASON_N]; /* of those that wait */
    int64_t n_slot, memory;            /* held */
    uint64_t gpus;
};

static struct sums sum(const struct job_record *const *jobs, size_t n)
{
    struct sums sums = {0};
    for (size_t i = 0; i < n; i++) {
        const struct job_record *job = jobs[i];
        if (job->state == JOB_STATE_QUEUED) {
            sums.n_of_reason[job->reason]++;
        } else if (!job_state_ended(job->state) && !job_is_in_slurm(job)) {
            sums.n_slot += job->n_slot;
            sums.gpus |= job->gpus;
            sums.memory += job->memory > 0 ? job->memory : 0;
        }
    }
    return sums;
}

static void print_counts(FILE *file, const struct sums *sums, const int64_t *n_of_state)
{
    char label[64];
    metrics_print_head(file, "trainerd_jobs", "gauge", "Jobs by state.");
    for (int state = 0; state < JOB_STATE_N; state++) {
        snprintf(label, sizeof label, "state=\"%s\"", job_state_name((enum job_state)state));
        metrics_print_value(file, "trainerd_jobs", label, (double)n_of_state[state]);
    }
    metrics_print_head(file, "trainerd_jobs_queued", "gauge", "Queued jobs by what they wait for.");
    for (int reason = 0; reason < JOB_REASON_N; reason++) {
        if (sums->n_of_reason[reason] > 0) {
            snprintf(label, sizeof label, "reason=\"%s\"", job_reason_name((enum job_reason)reason));
            metrics_print_value(file, "trainerd_jobs_queued", label, (double)sums->n_of_reason[reason]);
        }
    }
}

static void print_resource(FILE *file, const char *name, const char *help, int64_t used, int64_t whole)
{
    metrics_print_head(file, name, "gauge", help);
    metrics_print_value(file, name, "state=\"used\"", (double)used);
    metrics_print_value(file, name, "state=\"free\"", (double)(whole > used ? whole - used : 0));
}

void metrics_print(FILE *file, const struct job_record *const *jobs, size_t n, const int64_t *n_of_state,
                   const struct queue_capacity *whole)
{
    metrics_print_head(file, "trainerd_build_info", "gauge", "The version that runs.");
    metrics_print_value(file, "trainerd_build_info", "version=\"" TRAINERD_VERSION "\"", 1);
    struct sums sums = sum(jobs, n);
    print_counts(file, &sums, n_of_state);
    print_resource(file, "trainerd_slots", "Worker slots.", sums.n_slot, whole->n_slot);
    print_resource(file, "trainerd_gpus", "GPUs.", gpus_n(sums.gpus & whole->gpus), gpus_n(whole->gpus));
    print_resource(file, "trainerd_memory_bytes", "Memory of running jobs, by their plans.", sums.memory,
                   whole->memory);
    print_jobs(file, jobs, n);
    metrics_print_process(file);
}
