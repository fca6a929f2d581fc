/* From text to a checked struct job: every key is looked up in the table, every value read by job_value.c.
 *
 * Errors name the place and the nearest valid name. Rules across keys are job_rules.c's.
 */
#include "protocol/base/memory.h"
#include "protocol/base/mistakes.h"
#include "protocol/job/job.h"
#include "protocol/job/job_hints.h"
#include "protocol/job/job_keys.h"
#include "protocol/job/model_kinds.h"
#include "protocol/toml/toml.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    struct job job;
    struct job_places places;
    struct mistakes mistakes;
    struct job_place arg[VERTEX_ARG_MOST]; /* of [model.args] */
};

static uint32_t section_bit(const char *section)
{
    int i = job_section_find(section);
    return i >= 0 ? 1u << i : 0;
}

/* Record a mistake in this section, or of one of its keys, since it may be the only cause of a broken rule. */
static void doubt(struct reader *reader, const char *section)
{
    reader->places.doubted |= section != NULL ? section_bit(section) : 0;
}

/* An argument of the program; the last one of a name counts. */
static enum status read_arg(struct reader *reader, const char *where, struct job_place place,
                            const struct toml_entry *entry)
{
    int number = 0;
    enum status status = job_argument_read(&reader->job.program.args, where, entry, &number);
    if (status == STATUS_OK) {
        reader->arg[number] = place;
    }
    return status;
}

/* An entry of the table `name` of [model]. */
static enum status read_of_table(struct reader *reader, const char *name, const char *where, struct job_place place,
                                 const struct toml_entry *entry)
{
    return strcmp(name, "args") == 0 ? read_arg(reader, where, place, entry)
                                     : job_name_read(&reader->job.names, where, entry);
}

static bool is_table(const char *section, const char *name)
{
    return strcmp(section, "model") == 0 && (strcmp(name, "args") == 0 || strcmp(name, "names") == 0);
}

static enum status unknown_key(struct reader *reader, const char *where, const char *section, const char *name)
{
    char hint[JOB_HINT_BYTES], place[JOB_LABEL_BYTES] = "before the first section";
    const struct job_key *meant;
    if (strcmp(section, JOB_TOP_SECTION) != 0) {
        snprintf(place, sizeof place, "in [%.32s]", section);
    }
    job_hint_key(section, name, hint, &meant);
    doubt(reader, section);
    doubt(reader, meant != NULL ? meant->section : NULL);
    return status_fail(STATUS_CONFIG, "%s: unknown key '%.64s' %s; %s", where, name, place, hint);
}

/* Are both texts equal, as words or as numbers? */
static bool is_same_value(const char *a, const char *b)
{
    char *end_a, *end_b;
    double x = strtod(a, &end_a), y = strtod(b, &end_b);
    bool numbers = end_a != a && *end_a == '\0' && end_b != b && *end_b == '\0';
    return numbers ? x == y : strcmp(a, b) == 0;
}

/* A withdrawn key. */
static enum status withdrawn_key(struct reader *reader, const char *where, const struct job_withdrawn *key,
                                 const char *value)
{
    if (is_same_value(value, key->value)) {
        return STATUS_OK;
    }
    doubt(reader, key->section);
    return status_fail(STATUS_CONFIG, "%s: %s.%s was withdrawn in %s; use %s", where, key->section, key->key,
                       key->since, key->instead);
}

/* Likewise in a file, with its value. */
static enum status withdrawn_entry(struct reader *reader, const char *where, const struct job_withdrawn *key,
                                   const struct toml_entry *entry)
{
    char number[JOB_REAL_BYTES] = "";
    bool is_text = entry->type == TOML_TYPE_TEXT || entry->type == TOML_TYPE_WORD;
    if (entry->type == TOML_TYPE_INT || entry->type == TOML_TYPE_REAL) {
        job_real_text(entry->type == TOML_TYPE_INT ? (double)entry->integer : entry->real, number);
    }
    return withdrawn_key(reader, where, key, is_text ? entry->text : number);
}

static enum status check_section(struct reader *reader, const char *where, const struct toml_entry *entry)
{
    char hint[JOB_HINT_BYTES];
    if (strcmp(entry->key, JOB_TOP_SECTION) == 0) {
        return status_fail(STATUS_CONFIG, "%s: there is no section [%s]: its keys stand before the first section",
                           where, JOB_TOP_SECTION);
    }
    if (job_section_find(entry->key) >= 0) {
        return STATUS_OK;
    }
    doubt(reader, job_hint_section(entry->key, hint));
    return status_fail(STATUS_CONFIG, "%s: unknown section [%.64s]; %s", where, entry->key, hint);
}

/* A key of an unknown section: suggest its place in another section. Without a counterpart of section or key only the
 * section's mistake is reported. */
static enum status stray_key(struct reader *reader, const char *where, const struct toml_entry *entry)
{
    char hint[JOB_HINT_BYTES];
    const struct job_key *meant;
    if (strcmp(entry->section, JOB_TOP_SECTION) == 0 || job_hint_section(entry->section, hint) != NULL) {
        return STATUS_OK;
    }
    job_hint_key(entry->section, entry->key, hint, &meant);
    return meant != NULL ? unknown_key(reader, where, entry->section, entry->key) : STATUS_OK;
}

static enum status read_entry(struct reader *reader, const struct toml_entry *entry)
{
    char where[JOB_WHERE_BYTES];
    const char *origin = reader->places.origin;
    bool top = entry->section[0] == '\0';
    snprintf(where, sizeof where, "%s:%u:%u", origin, entry->key_at.line, entry->key_at.column);
    const char *section = top ? JOB_TOP_SECTION : entry->section;
    bool has_table = is_table(section, entry->table != NULL ? entry->table : entry->key);
    if (entry->table != NULL) { /* the table's own entry is what is refused */
        struct job_place at = {.line = entry->key_at.line, .column = entry->key_at.column};
        return has_table ? read_of_table(reader, entry->table, where, at, entry) : STATUS_OK;
    }
    if (has_table && entry->type == TOML_TYPE_TABLE) {
        return STATUS_OK;
    }
    const struct job_key *key = job_key_find(section, entry->key);
    if (entry->type == TOML_TYPE_FAULT) {
        reader->places.doubted = UINT32_MAX; /* its key is not known */
        return status_fail(STATUS_CONFIG, "%s: %s", where, entry->text);
    }
    if (top && entry->type == TOML_TYPE_TABLE && key == NULL) {
        return check_section(reader, where, entry);
    }
    if (!top && (job_section_find(section) < 0 || strcmp(section, JOB_TOP_SECTION) == 0)) {
        return stray_key(reader, where, entry);
    }
    if (key == NULL && top && job_section_find(entry->key) >= 0) {
        const char *words = job_hint_foreign(entry->key);
        return status_fail(STATUS_CONFIG, "%s: '%s' is %s; expected the section [%s]%s%s", where, entry->key,
                           toml_type_text(entry->type), entry->key, words != NULL ? ", and " : "",
                           words != NULL ? words : "");
    }
    if (key == NULL) {
        const struct job_withdrawn *was = job_withdrawn_find(section, entry->key);
        return was != NULL ? withdrawn_entry(reader, where, was, entry)
                           : unknown_key(reader, where, section, entry->key);
    }
    struct toml_position at = entry->value_at.line > 0 ? entry->value_at : entry->key_at;
    reader->places.of[key - job_keys] = (struct job_place){.line = at.line, .column = at.column};
    snprintf(where, sizeof where, "%s:%u:%u", origin, at.line, at.column);
    enum status status = job_value_read(&reader->job, key, where, entry);
    doubt(reader, status != STATUS_OK ? section : NULL);
    return status;
}

/* A setting's value as TOML, of a key, or without one of an entry of the table `table`. A word that is not TOML, or
 * not a text where a text is expected, is used as it is. */
static enum status read_setting_value(struct reader *reader, const struct job_key *key, const char *table,
                                      const char *name, const char *where, const char *value)
{
    bool quoted = value[0] == '"' || value[0] == '\'';
    bool wants_text = key != NULL && (key->type == JOB_TYPE_TEXT || key->type == JOB_TYPE_CHOICE);
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
    if (fits && key != NULL) {
        status = job_value_read(&reader->job, key, where, &list.entry[0]);
    } else if (fits) {
        struct toml_entry entry = list.entry[0];
        entry.key = name;
        status = read_of_table(reader, table, where, (struct job_place){.set = true}, &entry);
    } else if (status == STATUS_OK) {
        status = status_fail(STATUS_CONFIG, "%s: expected one value", where);
    }
    toml_release(&list);
    free(line);
    return status;
}

static enum status read_setting(struct reader *reader, const char *setting)
{
    char where[JOB_WHERE_BYTES], name[2 * JOB_LABEL_BYTES + JOB_TENSOR_BYTES];
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
        if (job_section_find(section) < 0 || strcmp(section, JOB_TOP_SECTION) == 0) {
            char hint[JOB_HINT_BYTES];
            const struct job_key *meant = NULL;
            const char *section_meant = job_hint_section(section, hint);
            if (section_meant == NULL) {
                job_hint_key(section, key_name, hint, &meant);
            }
            if (section_meant == NULL && meant == NULL) {
                job_hint_section(section, hint);
            }
            doubt(reader, meant != NULL ? meant->section : section_meant);
            return status_fail(STATUS_CONFIG, "%s: unknown section [%s]; %s", where, section, hint);
        }
    }
    const char *value = equals + 1 + strspn(equals + 1, " \t");
    char *in_table = dot == NULL ? NULL : strchr(dot + 1, '.');
    if (in_table != NULL) {
        *in_table = '\0';
        if (is_table(section, key_name)) {
            return read_setting_value(reader, NULL, key_name, in_table + 1, where, value);
        }
        *in_table = '.';
    }
    const struct job_key *key = job_key_find(section, key_name);
    if (key == NULL) {
        const struct job_withdrawn *was = job_withdrawn_find(section, key_name);
        return was != NULL ? withdrawn_key(reader, where, was, value) : unknown_key(reader, where, section, key_name);
    }
    reader->places.of[key - job_keys] = (struct job_place){.set = true};
    enum status status = read_setting_value(reader, key, NULL, NULL, where, value);
    doubt(reader, status != STATUS_OK ? section : NULL);
    return status;
}

static void defaults_set(struct job *out)
{
    memset(out, 0, sizeof *out);
    out->program.kind = (struct model_kind){.is_sum = true, .is_stack = true, .takes_edge_features = true};
    out->program.reads_weights = true;
    for (int i = 0; i < JOB_KEY_N; i++) {
        const struct job_key *key = &job_keys[i];
        void *at = (char *)out + key->offset;
        switch (key->type) {
        case JOB_TYPE_TEXT:
            snprintf(at, JOB_TEXT_BYTES, "%s", key->text_default);
            break;
        case JOB_TYPE_INT:
        case JOB_TYPE_INT_OR:
        case JOB_TYPE_SIZE:
            *(int64_t *)at = key->int_default;
            break;
        case JOB_TYPE_REAL:
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

/* Values that depend on another key. */
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

/* Put the place of an argument before a message about it. */
static enum status at_argument(const struct reader *reader, enum status status)
{
    char reason[STATUS_REASON_BYTES], name[VERTEX_NAME_BYTES] = "";
    snprintf(reason, sizeof reason, "%s", status_reason());
    sscanf(reason, "model.args.%63[^:]", name);
    for (int i = 0; i < reader->job.program.args.n; i++) {
        const struct job_place *at = &reader->arg[i];
        if (strcmp(reader->job.program.args.of[i].name, name) == 0) {
            return at->set ? status_fail(status, "--set %s", reason)
                           : status_fail(status, "%s:%u:%u: %s", reader->places.origin, at->line, at->column, reason);
        }
    }
    return status;
}

/* A text that the job has, or that is in the file that it names. */
static enum status text_take(struct reader *reader, enum job_key_id key, bool reads_files)
{
    const struct job_key *row = &job_keys[key];
    char *text = job_key_program(&reader->job, key), where[JOB_WHERE_BYTES];
    const char *file = (const char *)&reader->job + row->offset;
    if (text[0] != '\0') {
        return STATUS_OK;
    }
    if (reads_files) {
        return job_text_read(key, file, text);
    }
    job_where(&reader->places, key, where);
    return status_fail(STATUS_CONFIG,
                       "%s: %s.%s names the file '%.200s'; expected its text, which trainctl and trainerd put into a "
                       "job that they are given as a file",
                       where, row->section, row->name, file);
}

static enum status check_program(struct reader *reader, bool reads_files, bool traces)
{
    struct job *job = &reader->job;
    const char *file = job->model.program;
    char where[JOB_WHERE_BYTES];
    if (job->model.kind != JOB_KIND_PROGRAM || (reader->places.doubted & section_bit("model")) != 0) {
        return STATUS_OK;
    }
    if (job->program.text[0] == '\0' && file[0] == '\0') {
        job_where(&reader->places, JOB_KEY_model_kind, where);
        return status_fail(STATUS_CONFIG, "%s: model.kind = \"program\" needs model.program, a file or a text",
                           where);
    }
    enum status status = text_take(reader, JOB_KEY_model_program, reads_files);
    if (status == STATUS_OK) {
        status = job_program_check(job, file[0] != '\0' ? file : "model.program", traces);
    }
    return status == STATUS_CONFIG ? at_argument(reader, status) : status;
}

/* One line without a dot or a slash is no file. */
static enum status unknown_decoder(const struct reader *reader)
{
    struct nearest nearest;
    char where[JOB_WHERE_BYTES], list[128] = "";
    nearest_init(reader->job.task.decoder, &nearest);
    for (int i = 0; decoder_name(i) != NULL; i++) {
        const size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", n > 0 ? ", " : "", decoder_name(i));
        nearest_offer(&nearest, decoder_name(i));
    }
    job_where(&reader->places, JOB_KEY_task_decoder, where);
    return status_fail(STATUS_CONFIG, "%s: task.decoder = \"%.64s\"; expected one of %s, or a file%s%s%s", where,
                       reader->job.task.decoder, list, nearest.best != NULL ? "; did you mean " : "",
                       nearest.best != NULL ? nearest.best : "", nearest.best != NULL ? "?" : "");
}

static enum status check_decoder(struct reader *reader, bool reads_files, bool traces)
{
    struct job *job = &reader->job;
    const char *file = job->task.decoder;
    if (!job_predicts_links(job) || decoder_is_known(job) || (reader->places.doubted & section_bit("task")) != 0) {
        return STATUS_OK;
    }
    if (job->decoder[0] == '\0' && strpbrk(file, "./~") == NULL) {
        return unknown_decoder(reader);
    }
    enum status status = text_take(reader, JOB_KEY_task_decoder, reads_files);
    if (status != STATUS_OK) {
        return status;
    }
    return job_decoder_check(job, file[0] != '\0' ? file : "task.decoder", traces);
}

static enum status read_all(const char *text, size_t n_bytes, const char *origin, const char *const *set,
                            size_t n_set, struct reader *reader)
{
    /* A message holds 1023 bytes, and its end is more useful than the beginning of a long path. */
    size_t n_origin = strlen(origin);
    struct toml_list list = {0};
    reader->places.origin = n_origin > 255 ? origin + n_origin - 255 : origin;
    enum status status = toml_read_all(text, n_bytes, reader->places.origin, &list);
    if (status != STATUS_OK) {
        return status;
    }
    if (list.n_entry + n_set > JOB_ENTRIES_MOST) { /* the nearest names of each take time */
        status = status_fail(STATUS_CONFIG, "%s: %zu keys, sections and settings; expected at most %d",
                             reader->places.origin, list.n_entry + n_set, JOB_ENTRIES_MOST);
        toml_release(&list);
        return status;
    }
    defaults_set(&reader->job);
    for (size_t i = 0; i < list.n_entry; i++) {
        mistakes_take(&reader->mistakes, read_entry(reader, &list.entry[i]));
    }
    for (size_t i = 0; i < n_set; i++) {
        mistakes_take(&reader->mistakes, read_setting(reader, set[i]));
    }
    defaults_settle(&reader->job);
    toml_release(&list);
    return STATUS_OK;
}

static enum status load(const char *text, size_t n_bytes, const char *origin, const char *const *set, size_t n_set,
                        bool reads_files, bool traces, struct job *out)
{
    struct reader *reader = memory_alloc(1, sizeof *reader);
    enum status status = read_all(text, n_bytes, origin, set, n_set, reader);
    if (status == STATUS_OK) {
        mistakes_take(&reader->mistakes, check_program(reader, reads_files, traces));
        mistakes_take(&reader->mistakes, check_decoder(reader, reads_files, traces));
        job_check_rules(&reader->job, &reader->places, &reader->mistakes);
        status = mistakes_end(&reader->mistakes);
    }
    if (status == STATUS_OK) {
        *out = reader->job;
    }
    free(reader);
    return status;
}

enum status job_load_text(const char *text, size_t n_bytes, const char *origin, const char *const *set, size_t n_set,
                          struct job *out)
{
    return load(text, n_bytes, origin, set, n_set, false, true, out);
}

enum status job_load_own(const char *text, size_t n_bytes, const char *origin, const char *const *set, size_t n_set,
                         struct job *out)
{
    return load(text, n_bytes, origin, set, n_set, true, true, out);
}

enum status job_load_untraced(const char *text, size_t n_bytes, const char *origin, const char *const *set,
                              size_t n_set, struct job *out)
{
    return load(text, n_bytes, origin, set, n_set, false, false, out);
}

bool job_text_file(const char *text, size_t n_bytes, const char *const *set, size_t n_set, enum job_key_id key,
                   char out[JOB_TEXT_BYTES])
{
    struct reader *reader = memory_alloc(1, sizeof *reader);
    const struct job *job = &reader->job;
    bool has = read_all(text, n_bytes, "", set, n_set, reader) == STATUS_OK;
    has = has && (key == JOB_KEY_model_program ? job->model.kind == JOB_KIND_PROGRAM
                                               : job_predicts_links(job) && !decoder_is_known(job));
    snprintf(out, JOB_TEXT_BYTES, "%s", has ? (const char *)job + job_keys[key].offset : "");
    free(reader);
    return has;
}
