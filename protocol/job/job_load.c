/* From text to a checked struct job: every key is looked up in the table, every value checked against its row.
 *
 * Errors name the place and the nearest valid name. Rules across keys are job_rules.c's.
 */
#include "protocol/job/job.h"
#include "protocol/job/job_keys.h"
#include "protocol/job/toml.h"
#include "protocol/memory.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct reader {
    struct job job;
    struct job_places places;
};

/* The name nearest to a mistaken key, in words: " (did you mean 'lr'?)"; the section's keys when none is near. */
#define HINT_BYTES 512
static void key_hint(const char *section, const char *name, char out[HINT_BYTES])
{
    /* A key of the same section wins over one as near elsewhere. */
    int best = 2 * job_name_slip(name) + 2;
    const struct job_key *nearest = NULL;
    for (int i = 0; i < JOB_KEY_N; i++) {
        bool here = strcmp(job_keys[i].section, section) == 0;
        int distance = 2 * job_name_distance(name, job_keys[i].name) + (here ? 0 : 1);
        if (distance < best) {
            best = distance;
            nearest = &job_keys[i];
        }
    }
    if (nearest != NULL) {
        char label[JOB_LABEL_BYTES];
        job_key_label(nearest, label);
        snprintf(out, HINT_BYTES, "did you mean '%s'?", label);
        return;
    }
    size_t at = (size_t)snprintf(out, HINT_BYTES, "expected one of");
    const char *comma = " ";
    for (int i = 0; i < JOB_KEY_N && at < HINT_BYTES; i++) {
        if (strcmp(job_keys[i].section, section) == 0) {
            at += (size_t)snprintf(out + at, HINT_BYTES - at, "%s%s", comma, job_keys[i].name);
            comma = ", ";
        }
    }
}

/* What a name from elsewhere means here (job_aliases.def); false: it is none of these. */
static bool alias_hint(const char *name, char out[HINT_BYTES])
{
#define JOB_ALIAS(name, section, key) {#name, "did you mean '" #section "." #key "'?"},
#define JOB_FOREIGN(name, words) {#name, words},
    static const struct {
        const char *name, *hint;
    } aliases[] = {
#include "protocol/job/job_aliases.def"
    };
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
        if (strcasecmp(aliases[i].name, name) == 0) {
            snprintf(out, HINT_BYTES, "%s", aliases[i].hint);
            return true;
        }
    }
    return false;
}

static void section_hint(const char *name, char out[HINT_BYTES])
{
    int best = job_name_slip(name) + 1;
    const char *nearest = NULL;
    size_t at = (size_t)snprintf(out, HINT_BYTES, "expected one of");
    for (int i = 0; i < job_n_section; i++) {
        if (strcmp(job_sections[i].name, JOB_TOP_SECTION) == 0) {
            continue;
        }
        at += (size_t)snprintf(out + at, HINT_BYTES - at, " [%s]", job_sections[i].name);
        int distance = job_name_distance(name, job_sections[i].name);
        if (distance < best) {
            best = distance;
            nearest = job_sections[i].name;
        }
    }
    if (nearest != NULL) {
        snprintf(out, HINT_BYTES, "did you mean [%s]?", nearest);
    }
}

static enum status wrong_value(const struct job_key *key, const char *where, const char *found)
{
    char label[JOB_LABEL_BYTES], expect[JOB_EXPECT_BYTES];
    job_key_label(key, label);
    job_key_expect(key, expect);
    return status_fail(STATUS_CONFIG, "%s: %s is %.100s; expected %s", where, label, found, expect);
}

static enum status wrong_type(const struct job_key *key, const char *where, const struct toml_entry *entry)
{
    char found[128];
    if (entry->type == TOML_TYPE_TEXT) {
        snprintf(found, sizeof found, "the text \"%.80s\"", entry->text);
    } else {
        snprintf(found, sizeof found, "%s", toml_type_text(entry->type));
    }
    return wrong_value(key, where, found);
}

static enum status read_choice(const struct job_key *key, const char *where, const char *text, int *out)
{
    int best = job_name_slip(text) + 1;
    const char *nearest = NULL;
    char label[JOB_LABEL_BYTES];
    job_key_label(key, label);
    for (int i = 0; i < key->n_choice; i++) {
        if (strcmp(key->choice[i], text) == 0) {
            *out = i;
            return STATUS_OK;
        }
        int distance = job_name_distance(text, key->choice[i]);
        if (distance < best) {
            best = distance;
            nearest = key->choice[i];
        }
    }
    char found[256];
    snprintf(found, sizeof found, "\"%.80s\"", text);
    enum status status = wrong_value(key, where, found);
    return nearest == NULL ? status : status_fail(status, "%s (did you mean \"%s\"?)", status_reason(), nearest);
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
        return status_fail(STATUS_CONFIG, "%s: %s has %zu bytes; expected at most %d", where, label, n, JOB_TEXT_BYTES - 1);
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
        return wrong_value(key, where, text);
    }
    *out = value;
    return STATUS_OK;
}

static enum status read_int(const struct job_key *key, const char *where, int64_t value, int64_t *out)
{
    if (value < key->int_least || value > key->int_most) {
        char text[32];
        snprintf(text, sizeof text, "%lld", (long long)value);
        return wrong_value(key, where, text);
    }
    *out = value;
    return STATUS_OK;
}

/* One more choice of a list. */
static enum status choices_add(const struct job_key *key, const char *where, const char *text, struct job_choices *out)
{
    int choice;
    enum status status = read_choice(key, where, text, &choice);
    for (int i = 0; i < out->n && status == STATUS_OK; i++) {
        if (out->of[i] == choice) {
            char found[128];
            snprintf(found, sizeof found, "a list with \"%.80s\" twice", text);
            status = wrong_value(key, where, found);
        }
    }
    if (status == STATUS_OK && out->n == JOB_CHOICES_MOST) {
        status = wrong_value(key, where, "a longer list than there may be");
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

static enum status read_value(struct job *job, const struct job_key *key, const char *where, const struct toml_entry *entry)
{
    void *at = (char *)job + key->offset;
    enum toml_type type = entry->type;
    switch (key->type) {
    case JOB_TYPE_TEXT:
        return type == TOML_TYPE_TEXT ? read_text(key, where, entry, at) : wrong_type(key, where, entry);
    case JOB_TYPE_CHOICE:
        return type == TOML_TYPE_TEXT ? read_choice(key, where, entry->text, at) : wrong_type(key, where, entry);
    case JOB_TYPE_CHOICES:
        return read_choices(key, where, entry, at);
    case JOB_TYPE_INT:
        return type == TOML_TYPE_INT ? read_int(key, where, entry->integer, at) : wrong_type(key, where, entry);
    case JOB_TYPE_REAL:
    case JOB_TYPE_REAL_OR_SAME:
        if (type == TOML_TYPE_TEXT && key->type == JOB_TYPE_REAL_OR_SAME && strcmp(entry->text, JOB_SAME_TEXT) == 0) {
            *(double *)at = JOB_SAME;
            return STATUS_OK;
        }
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

static enum status unknown_key(const char *where, const char *section, const char *name)
{
    char hint[HINT_BYTES], place[JOB_LABEL_BYTES] = "before the first section";
    if (strcmp(section, JOB_TOP_SECTION) != 0) {
        snprintf(place, sizeof place, "in [%s]", section);
    }
    if (!alias_hint(name, hint)) {
        key_hint(section, name, hint);
    }
    return status_fail(STATUS_CONFIG, "%s: unknown key '%.64s' %s; %s", where, name, place, hint);
}

static enum status check_section(const char *where, const struct toml_entry *entry)
{
    char hint[HINT_BYTES];
    if (strcmp(entry->key, JOB_TOP_SECTION) == 0) {
        return status_fail(STATUS_CONFIG, "%s: there is no section [%s]: its keys stand before the first section", where,
                           JOB_TOP_SECTION);
    }
    if (job_section_known(entry->key)) {
        return STATUS_OK;
    }
    section_hint(entry->key, hint);
    return status_fail(STATUS_CONFIG, "%s: unknown section [%.64s]; %s", where, entry->key, hint);
}

static enum status read_entry(struct reader *reader, const struct toml_entry *entry)
{
    char where[JOB_WHERE_BYTES];
    const char *origin = reader->places.origin;
    bool top = entry->section[0] == '\0';
    snprintf(where, sizeof where, "%s:%u:%u", origin, entry->key_at.line, entry->key_at.column);
    const char *section = top ? JOB_TOP_SECTION : entry->section;
    const struct job_key *key = job_key_find(section, entry->key);
    if (top && entry->type == TOML_TYPE_TABLE && key == NULL) {
        return check_section(where, entry);
    }
    if (key == NULL && top && job_section_known(entry->key)) {
        return status_fail(STATUS_CONFIG, "%s: '%s' is %s; expected the section [%s]", where, entry->key,
                           toml_type_text(entry->type), entry->key);
    }
    if (key == NULL) {
        return unknown_key(where, section, entry->key);
    }
    struct toml_position at = entry->value_at.line > 0 ? entry->value_at : entry->key_at;
    reader->places.of[key - job_keys] = (struct job_place){.line = at.line, .column = at.column};
    snprintf(where, sizeof where, "%s:%u:%u", origin, at.line, at.column);
    return read_value(&reader->job, key, where, entry);
}

/* A setting's value as TOML; a word that is no TOML, or no text where a text is wanted, is taken as it stands. */
static enum status read_setting_value(struct job *job, const struct job_key *key, const char *where, const char *value)
{
    bool quoted = value[0] == '"' || value[0] == '\'';
    bool wants_text = key->type == JOB_TYPE_TEXT || key->type == JOB_TYPE_CHOICE;
    size_t room = strlen(value) + sizeof "x = ";
    char *line = memory_alloc(room, 1);
    struct toml_list list = {0};
    snprintf(line, room, "x = %s", value);
    enum status status = toml_read(line, strlen(line), where, &list);
    bool fits = status == STATUS_OK && list.n_entry == 1 && (quoted || !wants_text);
    if (!fits && !quoted) {
        toml_release(&list);
        free(line);
        char *text = toml_quote(value);
        room = strlen(text) + sizeof "x = ";
        line = memory_alloc(room, 1);
        snprintf(line, room, "x = %s", text);
        free(text);
        status = toml_read(line, strlen(line), where, &list);
        fits = status == STATUS_OK;
    }
    if (fits) {
        status = read_value(job, key, where, &list.entry[0]);
    } else if (status == STATUS_OK) {
        status = status_fail(STATUS_CONFIG, "%s: expected one value", where);
    }
    toml_release(&list);
    free(line);
    return status;
}

static enum status read_setting(struct reader *reader, const char *setting)
{
    char where[JOB_WHERE_BYTES], name[2 * JOB_LABEL_BYTES];
    const char *equals = strchr(setting, '=');
    size_t n = equals == NULL ? strlen(setting) : (size_t)(equals - setting);
    while (n > 0 && isspace((unsigned char)setting[n - 1])) {
        n--;
    }
    snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : (int)sizeof name - 1, setting);
    snprintf(where, sizeof where, "--set %s", name);
    if (equals == NULL || n == 0) {
        return status_fail(STATUS_USAGE, "%s: expected section.key=value", where);
    }
    char *dot = strchr(name, '.');
    const char *section = dot == NULL ? JOB_TOP_SECTION : name;
    const char *key_name = dot == NULL ? name : dot + 1;
    if (dot != NULL) {
        *dot = '\0';
        if (!job_section_known(section) || strcmp(section, JOB_TOP_SECTION) == 0) {
            char hint[HINT_BYTES];
            section_hint(section, hint);
            return status_fail(STATUS_CONFIG, "%s: unknown section [%s]; %s", where, section, hint);
        }
    }
    const struct job_key *key = job_key_find(section, key_name);
    if (key == NULL) {
        return unknown_key(where, section, key_name);
    }
    reader->places.of[key - job_keys] = (struct job_place){.set = true};
    const char *value = equals + 1;
    return read_setting_value(&reader->job, key, where, value + strspn(value, " \t"));
}

static void defaults_set(struct job *out)
{
    memset(out, 0, sizeof *out);
    for (int i = 0; i < JOB_KEY_N; i++) {
        const struct job_key *key = &job_keys[i];
        void *at = (char *)out + key->offset;
        switch (key->type) {
        case JOB_TYPE_TEXT:
            snprintf(at, JOB_TEXT_BYTES, "%s", key->text_default);
            break;
        case JOB_TYPE_INT:
        case JOB_TYPE_SIZE:
            *(int64_t *)at = key->int_default;
            break;
        case JOB_TYPE_REAL:
        case JOB_TYPE_REAL_OR_SAME:
            *(double *)at = key->real_default;
            break;
        case JOB_TYPE_BOOL:
            *(bool *)at = key->int_default != 0;
            break;
        case JOB_TYPE_CHOICE:
            *(int *)at = (int)key->int_default;
            break;
        case JOB_TYPE_CHOICES: /* none */
            break;
        }
    }
}

/* What depends on another key. */
static void defaults_settle(struct job *out)
{
    bool launcher_counts = out->workers.launcher == JOB_LAUNCHER_SLURM || out->workers.launcher == JOB_LAUNCHER_SSH;
    if (out->workers.count == 0 && !launcher_counts) {
        out->workers.count = 1;
    }
}

void job_defaults(struct job *out)
{
    defaults_set(out);
    defaults_settle(out);
}

enum status job_load_text(const char *text, size_t n_bytes, const char *origin, const char *const *set, size_t n_set,
                          struct job *out)
{
    /* A message holds 1023 bytes, and its end says more than a long path's beginning. */
    size_t n_origin = strlen(origin);
    const char *shown = n_origin > 255 ? origin + n_origin - 255 : origin;
    struct toml_list list = {0};
    enum status status = toml_read(text, n_bytes, shown, &list);
    if (status != STATUS_OK) {
        return status;
    }
    struct reader *reader = memory_alloc(1, sizeof *reader);
    reader->places.origin = shown;
    defaults_set(&reader->job);
    for (size_t i = 0; i < list.n_entry && status == STATUS_OK; i++) {
        status = read_entry(reader, &list.entry[i]);
    }
    for (size_t i = 0; i < n_set && status == STATUS_OK; i++) {
        status = read_setting(reader, set[i]);
    }
    if (status == STATUS_OK) {
        defaults_settle(&reader->job);
        status = job_check_rules(&reader->job, &reader->places);
    }
    if (status == STATUS_OK) {
        *out = reader->job;
    }
    free(reader);
    toml_release(&list);
    return status;
}
