/* Metrics of the daemon for Prometheus: one list, printed from the jobs' records.
 *
 * Jobs shown singly are those under way, and the newest of those that ended in the last METRICS_RECENT_S seconds, so
 * that the number of series does not grow with the history. An unknown number is left out. Knows no sockets.
 */
#ifndef TRAINERD_DAEMON_METRICS_H
#define TRAINERD_DAEMON_METRICS_H

#include "trainerd/daemon/jobs/queue.h"
#include "trainerd/daemon/store/job_record.h"

#include <stddef.h>
#include <stdio.h>

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define METRICS_RECENT_S 600.0
#define METRICS_N_RECENT 50

/* Print all metrics, those of this process included.
 *
 *   shapes  jobs n, those that live and those that ended last · n_of_state JOB_STATE_N, all jobs ·
 *           whole: the machine's capacity
 *   source  Prometheus' text format, version 0.0.4
 */
void metrics_print(FILE *file, const struct job_record *const *jobs, size_t n, const int64_t *n_of_state,
                   const struct queue_capacity *whole);

/* This process: memory, files, processor time, under Prometheus' usual names. */
void metrics_print_process(FILE *file);

/* The lines that begin a metric, and one value of it. labels: the text between the braces, "" for none */
void metrics_print_head(FILE *file, const char *name, const char *type, const char *help);
void metrics_print_value(FILE *file, const char *name, const char *labels, double value);

#endif
