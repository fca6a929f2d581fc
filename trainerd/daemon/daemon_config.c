#include "trainerd/daemon/daemon_config.h"

#include "protocol/base/memory.h"
#include "protocol/base/mistakes.h"
#include "protocol/files/file.h"
#include "protocol/job/job_keys.h"
#include "protocol/toml/toml.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SECTION "daemon"
#define FILE_MOST_BYTES (1 << 20)

enum type { TYPE_TEXT, TYPE_INT, TYPE_AUTO, TYPE_REAL, TYPE_SIZE };

static const struct key {
    const char *name, *help, *text_default;
    enum type type;
    size_t offset;
    double number_default, real_least, real_most;
    int64_t int_least, int_most;
} keys[] = {
#define AT(key) offsetof(struct daemon_config, key)
#define DAEMON_TEXT(key, default_, help) {#key, help, default_, TYPE_TEXT, AT(key), 0, 0, 0, 0, 0},
#define DAEMON_INT(key, default_, least, most, help)                                                                 \
    {#key, help, NULL, TYPE_INT, AT(key), default_, 0, 0, least, most},
#define DAEMON_AUTO(key, default_, least, most, help)                                                                \
    {#key, help, NULL, TYPE_AUTO, AT(key), default_, 0, 0, least, most},
#define DAEMON_REAL(key, default_, least, most, help)                                                                \
    {#key, help, NULL, TYPE_REAL, AT(key), default_, least, most, 0, 0},
#define DAEMON_SIZE(key, default_, least, most, help)                                                                \
    {#key, help, NULL, TYPE_SIZE, AT(key), default_, 0, 0, least, most},
#include "trainerd/daemon/daemon_keys.def"
};
enum { N_KEY = sizeof keys / sizeof *keys };

void daemon_config_defaults(struct daemon_config *out)
{
    memset(out, 0, sizeof *out);
    for (int i = 0; i < N_KEY; i++) {
        void *at = (char *)out + keys[i].offset;
        switch (keys[i].type) {
        case TYPE_TEXT:
            snprintf(at, DAEMON_TEXT_BYTES, "%s", keys[i].text_default);
            break;
        case TYPE_INT:
        case TYPE_AUTO:
        case TYPE_SIZE:
            *(int64_t *)at = (int64_t)keys[i].number_default;
            break;
        case TYPE_REAL:
            *(double *)at = keys[i].number_default;
            break;
        }
    }
}

/* --- one value --- */

static void expect(const struct key *key, char out[JOB_EXPECT_BYTES])
{
    char least[JOB_REAL_BYTES], most[JOB_REAL_BYTES];
    switch (key->type) {
    case TYPE_TEXT:
        snprintf(out, JOB_EXPECT_BYTES, "a text of at most %d bytes", DAEMON_TEXT_BYTES - 1);
        break;
    case TYPE_INT:
    case TYPE_AUTO:
    case TYPE_SIZE:
        snprintf(out, JOB_EXPECT_BYTES, "%s from %" PRId64 " to %" PRId64 "%s",
                 key->type == TYPE_SIZE ? "bytes, as 1048576 or \"1GiB\"," : "a whole number", key->int_least,
                 key->int_most, key->type == TYPE_AUTO ? ", or \"auto\"" : "");
        break;
    case TYPE_REAL:
        job_real_text(key->real_least, least);
        job_real_text(key->real_most, most);
        snprintf(out, JOB_EXPECT_BYTES, "a number from %s to %s", least, most);
        break;
    }
}

static enum status wrong_value(const struct key *key, const char *where)
{
    char expected[JOB_EXPECT_BYTES];
    expect(key, expected);
    return status_fail(STATUS_CONFIG, "%s: " SECTION ".%s is not what is expected: %s", where, key->name, expected);
}

static enum status read_value(struct daemon_config *config, const struct key *key, const char *where,
                              const struct toml_entry *entry)
{
    void *at = (char *)config + key->offset;
    int64_t integer = entry->integer;
    double real = entry->type == TOML_TYPE_INT ? (double)entry->integer : entry->real;
    bool is_int = entry->type == TOML_TYPE_INT;
    if (key->type == TYPE_AUTO && entry->type == TOML_TYPE_TEXT && strcmp(entry->text, "auto") == 0) {
        *(int64_t *)at = DAEMON_IS_AUTO;
        return STATUS_OK;
    }
    switch (key->type) {
    case TYPE_TEXT:
        if (entry->type != TOML_TYPE_TEXT || strlen(entry->text) >= DAEMON_TEXT_BYTES) {
            return wrong_value(key, where);
        }
        snprintf(at, DAEMON_TEXT_BYTES, "%s", entry->text);
        return STATUS_OK;
    case TYPE_SIZE:
        is_int = is_int || (entry->type == TOML_TYPE_TEXT && job_size_read(entry->text, &integer));
        /* fallthrough */
    case TYPE_AUTO:
    case TYPE_INT:
        if (!is_int || integer < key->int_least || integer > key->int_most) {
            return wrong_value(key, where);
        }
        *(int64_t *)at = integer;
        return STATUS_OK;
    case TYPE_REAL:
        /* Written so that nan fails. */
        if ((!is_int && entry->type != TOML_TYPE_REAL) || !(real >= key->real_least && real <= key->real_most)) {
            return wrong_value(key, where);
        }
        *(double *)at = real;
        return STATUS_OK;
    }
    return STATUS_OK;
}

static enum status find_key(const char *name, const char *where, const struct key **out)
{
    struct nearest nearest;
    nearest_init(name, &nearest);
    for (int i = 0; i < N_KEY; i++) {
        if (name_distance(name, keys[i].name) == 0) {
            *out = &keys[i];
            return STATUS_OK;
        }
        nearest_offer(&nearest, keys[i].name);
    }
    return status_fail(STATUS_CONFIG, "%s: unknown key '%.64s' in [" SECTION "]; %s%s%s", where, name,
                       nearest.best != NULL ? "did you mean '" : "see trainerd --describe-daemon",
                       nearest.best != NULL ? nearest.best : "", nearest.best != NULL ? "'?" : "");
}

/* --- the file --- */

static enum status read_entry(struct daemon_config *config, const char *origin, const struct toml_entry *entry)
{
    char where[JOB_WHERE_BYTES];
    const struct key *key = NULL;
    snprintf(where, sizeof where, "%.300s:%u:%u", origin, entry->key_at.line, entry->key_at.column);
    if (entry->type == TOML_TYPE_FAULT) {
        return status_fail(STATUS_CONFIG, "%s: %s", where, entry->text);
    }
    bool is_section = entry->section[0] == '\0' && entry->type == TOML_TYPE_TABLE && strcmp(entry->key, SECTION) == 0;
    if (is_section || entry->table != NULL) { /* a table in the section is refused as a whole */
        return STATUS_OK;
    }
    if (strcmp(entry->section, SECTION) != 0) {
        return status_fail(STATUS_CONFIG, "%s: '%.64s' is not in [" SECTION "], the only section of this file", where,
                           entry->key);
    }
    enum status status = find_key(entry->key, where, &key);
    if (status != STATUS_OK) {
        return status;
    }
    return read_value(config, key, where, entry);
}

static enum status read_text(const char *text, size_t n, const char *origin, struct daemon_config *config,
                             struct mistakes *mistakes)
{
    struct toml_list list = {0};
    enum status status = toml_read_all(text, n, origin, &list);
    for (size_t i = 0; i < list.n_entry && status == STATUS_OK; i++) {
        mistakes_take(mistakes, read_entry(config, origin, &list.entry[i]));
    }
    toml_release(&list);
    return status;
}

static enum status read_file(const char *path, bool must_be_there, struct daemon_config *config,
                             struct mistakes *mistakes)
{
    char *text;
    size_t n;
    enum status status = file_load(path, FILE_MOST_BYTES, &text, &n);
    if (status != STATUS_OK) {
        return status == STATUS_NO_INPUT && !must_be_there
                   ? STATUS_OK
                   : status_fail(status, "the daemon's file: %s", status_reason());
    }
    status = read_text(text, n, path, config, mistakes);
    free(text);
    return status;
}

/* A setting's value as TOML; for a text key, the value needs no quotes. */
static enum status read_setting(struct daemon_config *config, const char *setting)
{
    char where[JOB_WHERE_BYTES], name[2 * JOB_LABEL_BYTES];
    const char *equals = strchr(setting, '=');
    size_t n = equals == NULL ? strlen(setting) : (size_t)(equals - setting);
    snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : (int)sizeof name - 1, setting);
    snprintf(where, sizeof where, "--set %s", name);
    if (equals == NULL || n == 0) {
        return status_fail(STATUS_USAGE, "%s: expected key=value", where);
    }
    const struct key *key = NULL;
    const char *bare = strncmp(name, SECTION ".", sizeof SECTION) == 0 ? name + sizeof SECTION : name;
    enum status status = find_key(bare, where, &key);
    if (status != STATUS_OK) {
        return status;
    }
    struct toml_list list = {0};
    char *quoted = key->type == TYPE_TEXT ? toml_quote(equals + 1) : NULL;
    size_t size = strlen(quoted != NULL ? quoted : equals + 1) + sizeof "x = ";
    char *line = memory_alloc(size, 1);
    snprintf(line, size, "x = %s", quoted != NULL ? quoted : equals + 1);
    status = toml_read(line, strlen(line), where, &list);
    if (status == STATUS_OK) {
        status = list.n_entry == 1 ? read_value(config, key, where, &list.entry[0]) : wrong_value(key, where);
    } else if (key->type == TYPE_SIZE || key->type == TYPE_AUTO) { /* 20GiB, auto: without quotes */
        const struct toml_entry entry = {.type = TOML_TYPE_TEXT, .text = equals + 1};
        status = read_value(config, key, where, &entry);
    } else {
        status = wrong_value(key, where);
    }
    toml_release(&list);
    free(line);
    free(quoted);
    return status;
}

enum status daemon_config_load(const char *path, const char *const *set, size_t n_set, struct daemon_config *out)
{
    struct mistakes mistakes = {0};
    daemon_config_defaults(out);
    enum status status = read_file(path != NULL ? path : DAEMON_FILE, path != NULL, out, &mistakes);
    if (status != STATUS_OK) {
        return status;
    }
    for (size_t i = 0; i < n_set; i++) {
        mistakes_take(&mistakes, read_setting(out, set[i]));
    }
    return mistakes_end(&mistakes);
}

void daemon_config_describe(FILE *file)
{
    fputs("# The daemon's configuration, every key at its default. trainerd reads " DAEMON_FILE
          ", or the file of --daemon-config.\n"
          "[" SECTION "]\n",
          file);
    for (int i = 0; i < N_KEY; i++) {
        const struct key *key = &keys[i];
        char expected[JOB_EXPECT_BYTES], real[JOB_REAL_BYTES];
        expect(key, expected);
        fprintf(file, "\n# %s\n", key->help);
        if (key->type == TYPE_TEXT) {
            char *quoted = toml_quote(key->text_default);
            fprintf(file, "%s = %s\n", key->name, quoted);
            free(quoted);
        } else if (key->type == TYPE_REAL) {
            job_real_text(key->number_default, real);
            fprintf(file, "# %s\n%s = %s\n", expected, key->name, real);
        } else {
            fprintf(file, "# %s\n%s = %" PRId64 "\n", expected, key->name, (int64_t)key->number_default);
        }
    }
}
