/* Answers as text: fields of objects, durations, sizes. Text from outside is made printable before it reaches a
 * terminal. */
#ifndef TRAINERD_CTL_TEXT_H
#define TRAINERD_CTL_TEXT_H

#include "protocol/base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define TEXT_BYTES 32
#define REASON_BYTES 600

/* Fields: "" / NaN / 0 when they are missing, null or of another type. */
const char *text_of(const json_t *object, const char *key);
double number_of(const json_t *object, const char *key);
int64_t integer_of(const json_t *object, const char *key);

/* "-" when not finite. out TEXT_BYTES */
void text_duration(double seconds, char *out);
void text_duration_short(double seconds, char *out); /* "45s", "12m", "3h05m", "2d04h" */
void text_bytes(double n_bytes, char *out);
void text_percent(double fraction, char *out);
/* The metric of that key; in percent where the object's "metric" is the name of a fraction, or is missing. */
void text_metric(const json_t *object, const char *key, char *out);
void text_value(double value, char *out); /* four digits */
/* "1 epoch", "2 epochs". noun less than TEXT_BYTES - 22 bytes */
void text_count(int64_t n, const char *noun, char *out);
/* "3/10" epochs of a job; "-" of a job without epochs: a prediction, and train.epochs = 0 */
void text_epochs(const json_t *job, char *out);
void text_moment(double at, char *out); /* local time */
/* Why a job is in its state: "waiting, position 3: too few worker slots are free"; or "". out REASON_BYTES */
void text_reason(const json_t *job, char *out);

/* "90", "90s", "15m", "2h", "1d" to seconds. errors  STATUS_USAGE */
enum status text_read_duration(const char *text, const char *what, double *out);

/* A text made printable, in one line. owns  the caller frees it */
char *text_printable(const char *text);
/* The same, cut to n_most characters (0: not) by "…" at its end or its beginning. owns  the caller frees it */
char *text_cut(const char *text, int n_most, bool keeps_end);
/* Columns of a terminal that a text takes: one per character. / Bytes of its first n_character characters. */
int text_width(const char *text);
int text_bytes_of(const char *text, int n_character);
/* "0, 2, 3": the numbers of an array; "" of an empty or missing one. owns  the caller frees it */
char *text_numbers(const json_t *array);
/* Print lines: keep newlines and tabs, drop other ASCII controls, print other unprintable bytes as \xNN. */
void text_print_lines(FILE *file, const char *text);

/* One JSON line, in which what is not printable is escaped as JSON does it: the same value / on standard output. */
void text_write_json(FILE *file, const json_t *value);
void text_print_json(const json_t *value);

/* Columns / rows of a file's terminal; 0: it is not a terminal. */
int text_columns(FILE *file);
int text_rows(FILE *file);

#endif
