/* Answers as text: fields of objects, durations, sizes. Text from outside is made printable before it reaches a
 * terminal. */
#ifndef TRAINERD_CTL_TEXT_H
#define TRAINERD_CTL_TEXT_H

#include "protocol/base/status.h"
#include "trainerd/base/fields.h"
#include "trainerd/base/figure.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* "-" when not finite. */
struct figure text_duration_short(double seconds); /* "45s", "12m", "3h05m", "2d04h" */
struct figure text_moment(double at);              /* local time */
/* The metric of that key; in percent where the object's "metric" is the name of a fraction, or is missing. */
struct figure text_metric(const json_t *object, const char *key);
/* "3/10" epochs of a job; "-" of a job without epochs: a prediction, and train.epochs = 0 */
struct figure text_epochs(const json_t *job);

/* Why a job is in its state: "waiting, position 3: too few worker slots are free"; or "". */
struct reason {
    char text[600];
};
struct reason text_reason(const json_t *job);

/* What an event tells, in one line: of "job" with its job, of "epoch". */
void text_print_job(FILE *file, const json_t *job);
void text_print_epoch(FILE *file, const json_t *event);

/* "90", "90s", "15m", "2h", "1d" to seconds. errors  STATUS_USAGE */
enum status text_read_duration(const char *text, const char *what, double *out);

/* As printf. owns  the caller frees it */
char *text_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A text made printable, in one line. owns  the caller frees it */
char *text_printable(const char *text);
/* The same, cut to n_most characters (0: not) by "…" at its end or its beginning. owns  the caller frees it */
char *text_cut(const char *text, int n_most, bool keeps_end);
/* Columns of a terminal that a text takes: one per character. / Bytes of its first n_character characters. */
int text_width(const char *text);
int text_prefix_bytes(const char *text, int n_character);
/* "0, 2, 3": the numbers or texts of an array; "" of an empty or missing one. owns  the caller frees it */
char *text_list(const json_t *array);
/* Print lines: keep newlines and tabs, drop other ASCII controls, print other unprintable bytes as \xNN. */
void text_print_lines(FILE *file, const char *text);

/* One JSON line, in which what is not printable is escaped as JSON does it: the same value / on standard output. */
void text_write_json(FILE *file, const json_t *value);
void text_print_json(const json_t *value);

/* Columns / rows of a file's terminal; 0: it is not a terminal. */
int text_columns(FILE *file);
int text_rows(FILE *file);

#endif
