/* The table made from job_keys.def, and small queries of it: a key by name, its accepted values in words, the edit
 * distance of a name. */
#include "protocol/job/job_keys.h"

#include "protocol/job/model_kinds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST(first, ...) first
#define CHOICE_ROW(list, name, ...) FIRST(__VA_ARGS__, 0),
#define CHOICES(lower, LIST) static const char *const choices_##LIST[] = {JOB_##LIST##_LIST(CHOICE_ROW, LIST)};
JOB_LISTS(CHOICES)

#define ROW(section_, key_, type_, help_) .section = #section_, .name = #key_, .help = help_, .type = JOB_TYPE_##type_
#define AT(section_, key_) .offset = offsetof(struct job, section_.key_)
#define OF(list_) .list = JOB_LIST_##list_, .choice = choices_##list_, .n_choice = JOB_##list_##_N

const struct job_key job_keys[JOB_KEY_N] = {
#define JOB_SECTION_BEGIN(section_, help_)
#define JOB_SECTION_END(section_)
#define JOB_TEXT(section_, key_, default_, help_)                                                                    \
    {ROW(section_, key_, TEXT, help_), AT(section_, key_), .text_default = default_},
#define JOB_INT(section_, key_, default_, least_, most_, help_)                                                      \
    {ROW(section_, key_, INT, help_), AT(section_, key_), .int_default = default_, .int_least = least_,              \
     .int_most = most_},
#define JOB_INT_OR(section_, key_, list_, default_, least_, most_, help_)                                            \
    {ROW(section_, key_, INT_OR, help_),                                                                             \
     AT(section_, key_),                                                                                             \
     OF(list_),                                                                                                      \
     .int_default = default_,                                                                                        \
     .int_least = least_,                                                                                            \
     .int_most = most_},
#define JOB_REAL(section_, key_, default_, least_, most_, help_)                                                     \
    {ROW(section_, key_, REAL, help_), AT(section_, key_), .real_default = default_, .real_least = least_,           \
     .real_most = most_},
#define JOB_BOOL(section_, key_, default_, help_)                                                                    \
    {ROW(section_, key_, BOOL, help_), AT(section_, key_), .int_default = default_},
#define JOB_SIZE(section_, key_, default_, help_)                                                                    \
    {ROW(section_, key_, SIZE, help_), AT(section_, key_), .int_default = default_, .int_least = 0,                  \
     .int_most = INT64_MAX},
#define JOB_CHOICE(section_, key_, list_, default_, help_)                                                           \
    {ROW(section_, key_, CHOICE, help_), AT(section_, key_), OF(list_), .int_default = JOB_##list_##_##default_},
#define JOB_CHOICES(section_, key_, list_, help_)                                                                    \
    {ROW(section_, key_, CHOICES, help_), AT(section_, key_), OF(list_)},
#include "protocol/job/job_keys.def"
};

const struct job_section job_sections[] = {
#define JOB_SECTION_BEGIN(section_, help_) {#section_, help_},
#define JOB_SECTION_END(section_)
#define JOB_TEXT(section_, key_, default_, help_)
#define JOB_INT(section_, key_, default_, least_, most_, help_)
#define JOB_INT_OR(section_, key_, list_, default_, least_, most_, help_)
#define JOB_REAL(section_, key_, default_, least_, most_, help_)
#define JOB_BOOL(section_, key_, default_, help_)
#define JOB_SIZE(section_, key_, default_, help_)
#define JOB_CHOICE(section_, key_, list_, default_, help_)
#define JOB_CHOICES(section_, key_, list_, help_)
#include "protocol/job/job_keys.def"
};
const int job_n_section = (int)(sizeof job_sections / sizeof *job_sections);

const struct job_key *job_key_find(const char *section, const char *name)
{
    for (int i = 0; i < JOB_KEY_N; i++) {
        if (strcmp(job_keys[i].section, section) == 0 && strcmp(job_keys[i].name, name) == 0) {
            return &job_keys[i];
        }
    }
    return NULL;
}

int job_section_find(const char *name)
{
    for (int i = 0; i < job_n_section; i++) {
        if (strcmp(job_sections[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

bool job_only_find(enum job_key_id key, struct job_only *out)
{
#define ONLY_ROW(section, name, chooser, choices)                                                                    \
    {JOB_KEY_##section##_##name, JOB_KEY_##section##_##chooser, choices},
    static const struct job_only rows[] = {JOB_ONLY_LIST(ONLY_ROW)};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].key == key) {
            *out = rows[i];
            return true;
        }
    }
    *out = (struct job_only){.key = key, .by = JOB_KEY_model_kind, .with = model_kinds_with_key(key)};
    return out->with != 0;
}

bool job_key_applies(const struct job *job, enum job_key_id key)
{
    struct job_only only;
    const struct job_key *row = &job_keys[key];
    if (row->type == JOB_TYPE_INT_OR && job_word(row, *(const int64_t *)((const char *)job + row->offset)) != NULL) {
        return true; /* numbers alone are of some choices */
    }
    if (!job_program_takes(job, key) || !decoder_takes(job, key)) {
        return false;
    }
    return !job_only_find(key, &only) ||
           (only.with >> *(const int *)((const char *)job + job_keys[only.by].offset) & 1) != 0;
}

void job_key_help(enum job_key_id key, char out[JOB_HELP_BYTES])
{
    uint32_t kinds = model_kinds_with_key(key);
    size_t at = 0;
    for (int kind = 0; kind < JOB_KIND_N; kind++) {
        if ((kinds >> kind & 1) != 0) {
            at += (size_t)snprintf(out + at, JOB_HELP_BYTES - at, "%s%s", at > 0 ? ", " : "",
                                   job_keys[JOB_KEY_model_kind].choice[kind]);
        }
    }
    snprintf(out + at, JOB_HELP_BYTES - at, "%s%s", at > 0 ? ": " : "", job_keys[key].help);
}

char *job_key_program(struct job *job, enum job_key_id key)
{
    return key == JOB_KEY_model_program ? job->program.text : key == JOB_KEY_task_decoder ? job->decoder : NULL;
}

const char *job_key_text(const struct job *job, const struct job_key *key)
{
    const char *program = key == &job_keys[JOB_KEY_model_program]  ? job->program.text
                          : key == &job_keys[JOB_KEY_task_decoder] ? job->decoder
                                                                   : "";
    return program[0] != '\0' ? program : (const char *)job + key->offset;
}

const char *job_word(const struct job_key *key, int64_t value)
{
    return key->type == JOB_TYPE_INT_OR && value < 0 ? key->choice[-1 - value] : NULL;
}

/* appends "gcn, sage" to the text */
static void choices_expect(const struct job_key *key, char out[JOB_EXPECT_BYTES])
{
    size_t at = strlen(out);
    const char *comma = "";
    for (int i = 0; i < key->n_choice && at < JOB_EXPECT_BYTES; i++) {
        at += (size_t)snprintf(out + at, JOB_EXPECT_BYTES - at, "%s%s", comma, key->choice[i]);
        comma = ", ";
    }
}

void job_key_expect(const struct job_key *key, char out[JOB_EXPECT_BYTES])
{
    char least[JOB_REAL_BYTES], most[JOB_REAL_BYTES];
    switch (key->type) {
    case JOB_TYPE_TEXT:
        snprintf(out, JOB_EXPECT_BYTES, "a text");
        break;
    case JOB_TYPE_INT:
        snprintf(out, JOB_EXPECT_BYTES, "a whole number from %lld to %lld", (long long)key->int_least,
                 (long long)key->int_most);
        break;
    case JOB_TYPE_REAL:
        job_real_text(key->real_least, least);
        job_real_text(key->real_most, most);
        snprintf(out, JOB_EXPECT_BYTES, "a number from %s to %s", least, most);
        break;
    case JOB_TYPE_BOOL:
        snprintf(out, JOB_EXPECT_BYTES, "true or false");
        break;
    case JOB_TYPE_SIZE:
        snprintf(out, JOB_EXPECT_BYTES, "a size in bytes as 1048576 or \"20GiB\"");
        break;
    case JOB_TYPE_INT_OR:
        snprintf(out, JOB_EXPECT_BYTES, "a whole number from %lld to %lld, or one of ", (long long)key->int_least,
                 (long long)key->int_most);
        choices_expect(key, out);
        break;
    case JOB_TYPE_CHOICE:
        snprintf(out, JOB_EXPECT_BYTES, "one of ");
        choices_expect(key, out);
        break;
    case JOB_TYPE_CHOICES:
        snprintf(out, JOB_EXPECT_BYTES, "a list of any of ");
        choices_expect(key, out);
        break;
    }
}

void job_key_label(const struct job_key *key, char out[JOB_LABEL_BYTES])
{
    bool top = strcmp(key->section, JOB_TOP_SECTION) == 0;
    snprintf(out, JOB_LABEL_BYTES, "%s%s%s", top ? "" : key->section, top ? "" : ".", key->name);
}

void job_real_text(double value, char out[JOB_REAL_BYTES])
{
    if (value == floor(value) && fabs(value) < 1e15) {
        snprintf(out, JOB_REAL_BYTES, "%.1f", value);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, JOB_REAL_BYTES, "%.*g", digits, value);
        if (strtod(out, NULL) == value) {
            break;
        }
    }
}

const char *job_choice_text(const char *section, const char *key, int value)
{
    const struct job_key *row = job_key_find(section, key);
    bool known = row != NULL && row->type == JOB_TYPE_CHOICE && value >= 0 && value < row->n_choice;
    return known ? row->choice[value] : "unknown";
}

void job_where(const struct job_places *places, enum job_key_id key, char out[JOB_WHERE_BYTES])
{
    const struct job_place *place = &places->of[key];
    char label[JOB_LABEL_BYTES];
    job_key_label(&job_keys[key], label);
    if (place->set) {
        snprintf(out, JOB_WHERE_BYTES, "--set %s", label);
    } else if (place->line > 0) {
        snprintf(out, JOB_WHERE_BYTES, "%s:%u:%u", places->origin, place->line, place->column);
    } else {
        snprintf(out, JOB_WHERE_BYTES, "%s", places->origin);
    }
}
