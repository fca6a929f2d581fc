/* A value of a key from TOML, checked against the key's row. */
#include "protocol/job/job_hints.h"
#include "protocol/job/job_keys.h"
#include "protocol/toml/toml.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The format says what was found. */
static __attribute__((format(printf, 3, 4))) enum status wrong_value(const struct job_key *key, const char *where,
                                                                     const char *format, ...)
{
    char label[JOB_LABEL_BYTES], expect[JOB_EXPECT_BYTES], found[128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(found, sizeof found, format, arguments);
    va_end(arguments);
    job_key_label(key, label);
    job_key_expect(key, expect);
    return status_fail(STATUS_CONFIG, "%s: %s is %.100s; expected %s", where, label, found, expect);
}

static enum status wrong_type(const struct job_key *key, const char *where, const struct toml_entry *entry)
{
    if (entry->type == TOML_TYPE_TEXT) {
        return wrong_value(key, where, "the text \"%.80s\"", entry->text);
    }
    return wrong_value(key, where, "%.80s",
                       entry->type == TOML_TYPE_WORD ? entry->text : toml_type_text(entry->type));
}

static enum status read_choice(const struct job_key *key, const char *where, const char *text, int *out)
{
    int choice = name_find(key->choice, key->n_choice, text);
    if (choice >= 0) {
        *out = choice;
        return STATUS_OK;
    }
    char hint[JOB_HINT_BYTES];
    job_hint_choice(key, text, hint);
    enum status status = wrong_value(key, where, "\"%.80s\"", text);
    return status_fail(status, "%s%s", status_reason(), hint);
}

static enum status read_word(const struct job_key *key, const char *where, const char *text, int64_t *out)
{
    int choice = 0;
    enum status status = read_choice(key, where, text, &choice);
    if (status == STATUS_OK) {
        *out = JOB_WORD(choice);
    }
    return status;
}

bool job_size_read(const char *text, int64_t *out)
{
    static const struct {
        const char *unit;
        double factor;
    } units[] = {{"", 1},      {"B", 1},        {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
                 {"TB", 1e12}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
    size_t n = strspn(text, "0123456789.");
    char *end = NULL;
    double number = strtod(text, &end);
    if (n == 0 || end != text + n) {
        return false;
    }
    const char *unit = end + strspn(end, " ");
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcasecmp(unit, units[i].unit) == 0) {
            double bytes = number * units[i].factor;
            if (bytes >= 0x1p63) {
                return false;
            }
            *out = (int64_t)bytes;
            return true;
        }
    }
    return false;
}

static enum status read_text(const struct job_key *key, const char *where, const struct toml_entry *entry, char *out)
{
    size_t n = strlen(entry->text);
    if (n >= JOB_TEXT_BYTES) {
        char label[JOB_LABEL_BYTES];
        job_key_label(key, label);
        return status_fail(STATUS_CONFIG, "%s: %s has %zu bytes; expected at most %d", where, label, n,
                           JOB_TEXT_BYTES - 1);
    }
    memset(out, 0, JOB_TEXT_BYTES);
    memcpy(out, entry->text, n);
    return STATUS_OK;
}

static enum status read_real(const struct job_key *key, const char *where, double value, double *out)
{
    char text[JOB_REAL_BYTES];
    job_real_text(value, text);
    /* Written so that nan fails. */
    if (!(value >= key->real_least && value <= key->real_most)) {
        return wrong_value(key, where, "%s", text);
    }
    *out = value;
    return STATUS_OK;
}

static enum status read_int(const struct job_key *key, const char *where, int64_t value, int64_t *out)
{
    if (value < key->int_least || value > key->int_most) {
        return wrong_value(key, where, "%lld", (long long)value);
    }
    *out = value;
    return STATUS_OK;
}

/* One more choice of a list. */
static enum status choices_add(const struct job_key *key, const char *where, const char *text,
                               struct job_choices *out)
{
    int choice = 0;
    enum status status = read_choice(key, where, text, &choice);
    for (int i = 0; i < out->n && status == STATUS_OK; i++) {
        if (out->of[i] == choice) {
            status = wrong_value(key, where, "a list with \"%.80s\" twice", text);
        }
    }
    if (status == STATUS_OK && out->n == JOB_CHOICES_MOST) {
        status = wrong_value(key, where, "a list of more than %d", JOB_CHOICES_MOST);
    }
    if (status == STATUS_OK) {
        out->of[out->n++] = choice;
    }
    return status;
}

/* ["a", "b"], or "a, b" as --set takes it from a shell. */
static enum status read_choices(const struct job_key *key, const char *where, const struct toml_entry *entry,
                                struct job_choices *out)
{
    enum status status = STATUS_OK;
    *out = (struct job_choices){0};
    if (entry->type == TOML_TYPE_ARRAY && entry->item != NULL) {
        for (size_t i = 0; i < entry->n_item && status == STATUS_OK; i++) {
            status = choices_add(key, where, entry->item[i], out);
        }
        return status;
    }
    if (entry->type != TOML_TYPE_TEXT) {
        return wrong_type(key, where, entry);
    }
    const char *from = entry->text + strspn(entry->text, " ");
    while (*from != '\0' && status == STATUS_OK) {
        char name[JOB_LABEL_BYTES];
        size_t n = strcspn(from, ", ");
        snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : (int)sizeof name - 1, from);
        status = choices_add(key, where, name, out);
        from += n;
        from += strspn(from, ", ");
    }
    return status;
}

static enum status value_read(struct job *job, const struct job_key *key, const char *where,
                              const struct toml_entry *entry)
{
    void *at = (char *)job + key->offset;
    enum toml_type type = entry->type;
    switch (key->type) {
    case JOB_TYPE_TEXT:
        if (type == TOML_TYPE_TEXT && job_key_program(job, (enum job_key_id)(key - job_keys)) != NULL) {
            return job_program_take(job, (enum job_key_id)(key - job_keys), where, entry->text);
        }
        return type == TOML_TYPE_TEXT ? read_text(key, where, entry, at) : wrong_type(key, where, entry);
    case JOB_TYPE_CHOICE:
        if (type == TOML_TYPE_BOOL) {
            return read_choice(key, where, entry->boolean ? "true" : "false", at);
        }
        return type == TOML_TYPE_TEXT ? read_choice(key, where, entry->text, at) : wrong_type(key, where, entry);
    case JOB_TYPE_CHOICES:
        return read_choices(key, where, entry, at);
    case JOB_TYPE_INT_OR:
        if (type == TOML_TYPE_TEXT) {
            return read_word(key, where, entry->text, at);
        }
        /* fallthrough */
    case JOB_TYPE_INT:
        return type == TOML_TYPE_INT ? read_int(key, where, entry->integer, at) : wrong_type(key, where, entry);
    case JOB_TYPE_REAL:
        if (type == TOML_TYPE_INT || type == TOML_TYPE_REAL) {
            return read_real(key, where, type == TOML_TYPE_INT ? (double)entry->integer : entry->real, at);
        }
        return wrong_type(key, where, entry);
    case JOB_TYPE_BOOL:
        if (type == TOML_TYPE_BOOL) {
            *(bool *)at = entry->boolean;
            return STATUS_OK;
        }
        break;
    case JOB_TYPE_SIZE:
        if (type == TOML_TYPE_INT) {
            return read_int(key, where, entry->integer, at);
        }
        return type == TOML_TYPE_TEXT && job_size_read(entry->text, at) ? STATUS_OK : wrong_type(key, where, entry);
    }
    return wrong_type(key, where, entry);
}

/* A value without quotes, or a missing value: report the accepted values, and how TOML writes this one. */
static enum status word_refuse(struct job *job, const struct job_key *key, const char *where,
                               const struct toml_entry *entry)
{
    char label[JOB_LABEL_BYTES], number[JOB_REAL_BYTES], *end;
    struct toml_entry quoted = *entry;
    quoted.type = TOML_TYPE_TEXT;
    job_key_label(key, label);
    if (entry->text[0] == '\0') {
        char expect[JOB_EXPECT_BYTES];
        job_key_expect(key, expect);
        return status_fail(STATUS_CONFIG, "%s: %s has no value; expected %s", where, label, expect);
    }
    double value = strtod(entry->text, &end);
    if (key->type == JOB_TYPE_REAL && end != entry->text && *end == '\0' && isfinite(value)) {
        job_real_text(value, number);
        return status_fail(STATUS_CONFIG, "%s: %s is %.80s; expected it written as %s", where, label, entry->text,
                           number);
    }
    bool is_text = key->type == JOB_TYPE_TEXT || key->type == JOB_TYPE_CHOICE || key->type == JOB_TYPE_SIZE ||
                   key->type == JOB_TYPE_INT_OR;
    if (!is_text) {
        return wrong_type(key, where, entry);
    }
    enum status status = value_read(job, key, where, &quoted);
    return status != STATUS_OK ? status
                               : status_fail(STATUS_CONFIG, "%s: %s is %.80s without quotes; expected \"%.80s\"",
                                             where, label, entry->text, entry->text);
}

enum status job_value_read(struct job *job, const struct job_key *key, const char *where,
                           const struct toml_entry *entry)
{
    return (entry->type == TOML_TYPE_WORD ? word_refuse : value_read)(job, key, where, entry);
}
