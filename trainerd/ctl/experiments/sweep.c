#include "trainerd/ctl/experiments/sweep.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "trainerd/base/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sweep_release(struct sweep *sweep)
{
    for (int k = 0; k < sweep->n_key; k++) {
        for (size_t i = 0; i < sweep->key[k].n; i++) {
            free(sweep->key[k].values[i]);
        }
        free(sweep->key[k].values);
        free(sweep->key[k].name);
    }
    *sweep = (struct sweep){0};
}

/* Bytes up to the next comma outside of quotes and brackets, or to the end. */
static size_t value_length(const char *text)
{
    int depth = 0;
    char quote = '\0';
    size_t n = 0;
    for (; text[n] != '\0'; n++) {
        char c = text[n];
        if (quote != '\0') {
            quote = c == quote ? '\0' : quote;
        } else if (c == '"' || c == '\'') {
            quote = c;
        } else if (c == '[' || c == '{') {
            depth++;
        } else if (c == ']' || c == '}') {
            depth--;
        } else if (c == ',' && depth <= 0) {
            break;
        }
    }
    return n;
}

static enum status add_value(struct sweep_key *key, const char *option, const char *text, size_t n)
{
    char *value = strndup(text, n);
    ASSERT(value != NULL);
    key->values[key->n++] = value;
    if (n == 0) {
        return status_fail(STATUS_USAGE, "%s: %s has an empty value, expected %s=VALUE,VALUE", option, key->name,
                           key->name);
    }
    for (size_t i = 0; i + 1 < key->n; i++) {
        if (strcmp(key->values[i], value) == 0) {
            return status_fail(STATUS_USAGE, "%s: %s has the value %s twice", option, key->name, value);
        }
    }
    return STATUS_OK;
}

/* Begin a key with at most n_most values; it is the sweep's at once, for sweep_release. */
static enum status begin_key(struct sweep *sweep, const char *option, const char *name, size_t n_name, size_t n_most,
                             struct sweep_key **out)
{
    for (int k = 0; k < sweep->n_key; k++) {
        if (strlen(sweep->key[k].name) == n_name && memcmp(sweep->key[k].name, name, n_name) == 0) {
            return status_fail(STATUS_USAGE, "%s: %s is swept already", option, sweep->key[k].name);
        }
    }
    if (sweep->n_key == SWEEP_KEYS_MOST) {
        return status_fail(STATUS_USAGE, "%s: more than %d keys are swept", option, SWEEP_KEYS_MOST);
    }
    *out = &sweep->key[sweep->n_key++];
    **out = (struct sweep_key){.name = strndup(name, n_name), .values = memory_alloc(n_most, sizeof *(*out)->values)};
    ASSERT((*out)->name != NULL);
    return STATUS_OK;
}

enum status sweep_add(struct sweep *sweep, const char *option, const char *text)
{
    struct sweep_key *key = NULL;
    size_t n_name = strcspn(text, "="), n_most = 1;
    if (n_name == 0 || text[n_name] == '\0') {
        return status_fail(STATUS_USAGE, "%s is '%s', expected KEY=VALUE,VALUE, as train.lr=0.01,0.003", option,
                           text);
    }
    for (const char *at = text; *at != '\0'; at++) {
        n_most += *at == ',';
    }
    enum status status = begin_key(sweep, option, text, n_name, n_most, &key);
    bool goes_on = true;
    for (const char *at = text + n_name + 1; status == STATUS_OK && goes_on;) {
        size_t n = value_length(at);
        status = add_value(key, option, at, n);
        goes_on = at[n] == ',';
        at += n + 1;
    }
    return status;
}

static enum status add_numbers(struct sweep *sweep, const char *option, const char *key, const char *text,
                               int64_t first, int64_t n)
{
    struct sweep_key *made = NULL;
    if (n < 1 || n > SWEEP_JOBS_MOST || first > INT64_MAX - n + 1) {
        return status_fail(STATUS_USAGE, "%s is '%s', expected 1 to %d, or numbers as 1,5,7", option, text,
                           SWEEP_JOBS_MOST);
    }
    enum status status = begin_key(sweep, option, key, strlen(key), (size_t)n, &made);
    for (int64_t i = 0; i < n && status == STATUS_OK; i++) {
        char number[32];
        int n_byte = snprintf(number, sizeof number, "%lld", (long long)(first + i));
        status = add_value(made, option, number, (size_t)n_byte);
    }
    return status;
}

enum status sweep_add_seeds(struct sweep *sweep, const char *option, const char *key, const char *text, int64_t base)
{
    struct sweep_key *made = NULL;
    const char *end = text;
    int64_t number = digits_read(&end, INT64_MAX);
    if (number >= 0 && *end == '\0') {
        return add_numbers(sweep, option, key, text, base, number);
    }
    enum status status = begin_key(sweep, option, key, strlen(key), strlen(text) + 1, &made);
    for (const char *at = text; status == STATUS_OK;) {
        end = at;
        if (digits_read(&end, INT64_MAX) < 0 || (*end != ',' && *end != '\0')) {
            return status_fail(STATUS_USAGE, "%s is '%s', expected how many, or whole numbers as 1,5,7", option,
                               text);
        }
        status = add_value(made, option, at, (size_t)(end - at));
        if (*end == '\0') {
            break;
        }
        at = end + 1;
    }
    return status;
}

/* The settings of the job in this place of the sweep. NULL: one is not UTF-8 */
static json_t *settings_of(const struct sweep *sweep, size_t place)
{
    json_t *all = json_array();
    for (int k = sweep->n_key - 1; k >= 0; k--) {
        const struct sweep_key *key = &sweep->key[k];
        const char *value = key->values[place % key->n];
        json_t *setting = json_sprintf("%s=%s", key->name, value);
        place /= key->n;
        if (setting == NULL || json_array_insert_new(all, 0, setting) != 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

enum status sweep_jobs(const struct sweep *sweep, json_t **out)
{
    size_t n = 1;
    for (int k = 0; k < sweep->n_key; k++) {
        n *= sweep->key[k].n;
        if (n > SWEEP_JOBS_MOST) {
            return status_fail(STATUS_USAGE, "the sweep has more than %d jobs, the most that are taken at once",
                               SWEEP_JOBS_MOST);
        }
    }
    *out = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *settings = settings_of(sweep, i);
        if (settings == NULL) {
            json_decref(*out);
            return status_fail(STATUS_USAGE, "a value of the sweep is not UTF-8");
        }
        json_array_append_new(*out, settings);
    }
    return STATUS_OK;
}
