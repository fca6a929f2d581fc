#include "trainerd/ctl/base/text.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/base/printable.h"
#include "protocol/job/job.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* --- units --- */

struct figure text_duration_short(double seconds)
{
    struct figure out = {"-"};
    long long s = isfinite(seconds) && seconds < 1e13 ? (long long)(seconds > 0 ? seconds : 0) : 0;
    if (!isfinite(seconds)) {
        return out;
    }
    if (s < 60) {
        snprintf(out.text, sizeof out.text, "%llds", s);
    } else if (s < 3600) {
        snprintf(out.text, sizeof out.text, "%lldm", s / 60);
    } else if (s < 86400) {
        snprintf(out.text, sizeof out.text, "%lldh%02lldm", s / 3600, s / 60 % 60);
    } else {
        snprintf(out.text, sizeof out.text, "%lldd%02lldh", s / 86400, s / 3600 % 24);
    }
    return out;
}

struct figure text_moment(double at)
{
    time_t seconds = isfinite(at) ? (time_t)at : 0;
    struct tm local;
    struct figure out;
    if (seconds <= 0 || localtime_r(&seconds, &local) == NULL ||
        strftime(out.text, sizeof out.text, "%Y-%m-%d %H:%M:%S", &local) == 0) {
        return (struct figure){"-"};
    }
    return out;
}

struct figure text_metric(const json_t *object, const char *key)
{
    enum job_metric metric;
    bool is_fraction = !job_metric_find(field_text(object, "metric"), &metric) || job_metric_is_fraction(metric);
    return (is_fraction ? figure_fraction : figure_number)(field_number(object, key));
}

struct figure text_epochs(const json_t *job)
{
    struct figure out = {"-"};
    int64_t n = field_integer(job, "epochs");
    if (n > 0) {
        snprintf(out.text, sizeof out.text, "%lld/%lld", (long long)field_integer(job, "epoch"), (long long)n);
    }
    return out;
}

/* --- what is known of a job --- */

struct reason text_reason(const json_t *job)
{
    const char *reason = field_text(job, "reason"),
               *text = strcmp(reason, "NONE") != 0 ? field_text(job, "reason_text") : "";
    int64_t position = field_integer(job, "position");
    struct reason out = {""};
    size_t n = 0;
    if (position > 0) {
        n = (size_t)snprintf(out.text, sizeof out.text, "waiting, position %lld", (long long)position);
        text = strcmp(reason, "WAITING_TURN") == 0 ? "" : text; /* the position says it */
    }
    if (text[0] != '\0') {
        snprintf(out.text + n, sizeof out.text - n, "%s%.560s", n > 0 ? ": " : "", text);
    }
    return out;
}

void text_print_job(FILE *file, const json_t *job)
{
    char *reason = text_printable(text_reason(job).text);
    fprintf(file, "job %lld: %s%s%s\n", (long long)field_integer(job, "id"), field_text(job, "state"),
            reason[0] != '\0' ? ", " : "", reason);
    free(reason);
}

void text_print_epoch(FILE *file, const json_t *event)
{
    fprintf(file, "epoch %lld/%lld  loss %s  %s: valid %s  %s left\n", (long long)field_integer(event, "epoch"),
            (long long)field_integer(event, "epochs"), figure_number(field_number(event, "loss")).text,
            field_text(event, "metric"), text_metric(event, "valid_metric").text,
            figure_seconds(field_number(event, "seconds_left")).text);
}

enum status text_read_duration(const char *text, const char *what, double *out)
{
    static const struct {
        char letter;
        double seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    char *end;
    double value = strtod(text, &end), unit = end[0] == '\0' ? 1 : 0;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (end[0] == units[i].letter && end[1] == '\0') {
            unit = units[i].seconds;
        }
    }
    if (end == text || unit == 0 || !isfinite(value) || value < 0) {
        return status_fail(STATUS_USAGE, "%s is '%s', expected a time: 90, 90s, 15m, 2h or 1d", what, text);
    }
    *out = value * unit;
    return STATUS_OK;
}

/* --- printing --- */

int text_width(const char *text)
{
    int n = 0;
    for (; *text != '\0'; text++) {
        n += (*text & 0xc0) != 0x80;
    }
    return n;
}

int text_prefix_bytes(const char *text, int n_character)
{
    int at = 0;
    while (text[at] != '\0' && (n_character > 0 || (text[at] & 0xc0) == 0x80)) {
        n_character -= (text[at] & 0xc0) != 0x80;
        at++;
    }
    return at;
}

char *text_format(const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int n = vasprintf(&text, format, arguments);
    va_end(arguments);
    ASSERT(n >= 0);
    return text;
}

char *text_printable(const char *text)
{
    size_t n = 4 * strlen(text) + 1;
    char *out = memory_alloc(n, 1);
    printable_copy(text, out, n);
    return out;
}

char *text_cut(const char *text, int n_most, bool keeps_end)
{
    char *whole = text_printable(text);
    int n = text_width(whole);
    if (n_most == 0 || n <= n_most) {
        return whole;
    }
    char *cut = keeps_end ? text_format("…%s", whole + text_prefix_bytes(whole, n - n_most + 1))
                          : text_format("%.*s…", text_prefix_bytes(whole, n_most - 1), whole);
    free(whole);
    return cut;
}

char *text_list(const json_t *array)
{
    char *text = NULL;
    size_t n, i;
    FILE *file = open_memstream(&text, &n);
    const json_t *value;
    ASSERT(file != NULL);
    json_array_foreach(array, i, value)
    {
        fputs(i > 0 ? ", " : "", file);
        if (json_is_string(value)) {
            fputs(json_string_value(value), file);
        } else {
            fprintf(file, "%lld", (long long)json_integer_value(value));
        }
    }
    fclose(file);
    return text;
}

void text_print_lines(FILE *file, const char *text)
{
    while (*text != '\0') {
        size_t n = printable_length(text);
        if (n > 0 || *text == '\n' || *text == '\t') {
            fwrite(text, 1, n > 0 ? n : 1, file);
        } else if ((unsigned char)*text >= 0x80) {
            fprintf(file, "\\x%02x", (unsigned char)*text);
        }
        text += n > 0 ? n : 1;
    }
}

/* A character of a JSON text that is not printable, as JSON writes it: only its strings have such. */
static void print_escaped(const char *text, size_t n, FILE *file)
{
    const unsigned char *at = (const unsigned char *)text;
    unsigned character = n == 1 ? at[0] : at[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        character = character << 6 | (at[i] & 0x3fu);
    }
    if (character < 0x10000) {
        fprintf(file, "\\u%04x", character);
    } else {
        fprintf(file, "\\u%04x\\u%04x", 0xd800u + ((character - 0x10000u) >> 10), 0xdc00u + (character & 0x3ffu));
    }
}

void text_write_json(FILE *file, const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT);
    ASSERT(text != NULL);
    for (const char *at = text; *at != '\0';) {
        size_t n = printable_character(at);
        ASSERT(n > 0); /* JSON is UTF-8 */
        if (printable_length(at) > 0) {
            fwrite(at, 1, n, file);
        } else {
            print_escaped(at, n, file);
        }
        at += n;
    }
    free(text);
    fputc('\n', file);
}

void text_print_json(const json_t *value)
{
    text_write_json(stdout, value);
    fflush(stdout);
}

static struct winsize size_of(FILE *file)
{
    struct winsize size = {0};
    bool is_terminal = isatty(fileno(file)) && ioctl(fileno(file), TIOCGWINSZ, &size) == 0;
    return is_terminal ? size : (struct winsize){0};
}

int text_columns(FILE *file)
{
    return size_of(file).ws_col;
}

int text_rows(FILE *file)
{
    return size_of(file).ws_row;
}
