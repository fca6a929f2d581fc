/* job_keys.def as a table at run time: for readers and writers of job files (job_*.c), help and checks over all keys.
 *
 * Has the keys, their ranges and their places in struct job. Independent of files and TOML.
 */
#ifndef PROTOCOL_JOB_KEYS_H
#define PROTOCOL_JOB_KEYS_H

#include "protocol/base/mistakes.h"
#include "protocol/job/job.h"
#include "protocol/toml/toml.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum job_type {
    JOB_TYPE_TEXT,
    JOB_TYPE_INT,
    JOB_TYPE_INT_OR,
    JOB_TYPE_REAL,
    JOB_TYPE_BOOL,
    JOB_TYPE_SIZE,
    JOB_TYPE_CHOICE,
    JOB_TYPE_CHOICES
};

/* JOB_KEY_train_lr, …: the key's row in job_keys. */
enum job_key_id {
#define JOB_SECTION_BEGIN(section, help)
#define JOB_SECTION_END(section)
#define JOB_TEXT(section, key, default_, help) JOB_KEY_##section##_##key,
#define JOB_INT(section, key, default_, least, most, help) JOB_KEY_##section##_##key,
#define JOB_INT_OR(section, key, list, default_, least, most, help) JOB_KEY_##section##_##key,
#define JOB_REAL(section, key, default_, least, most, help) JOB_KEY_##section##_##key,
#define JOB_BOOL(section, key, default_, help) JOB_KEY_##section##_##key,
#define JOB_SIZE(section, key, default_, help) JOB_KEY_##section##_##key,
#define JOB_CHOICE(section, key, list, default_, help) JOB_KEY_##section##_##key,
#define JOB_CHOICES(section, key, list, help) JOB_KEY_##section##_##key,
#include "protocol/job/job_keys.def"
    JOB_KEY_N
};

/* JOB_LIST_KIND, …: the lists of choices. */
enum job_list {
    JOB_LIST_NONE,
#define JOB_LIST_ROW(lower, LIST) JOB_LIST_##LIST,
    JOB_LISTS(JOB_LIST_ROW)
#undef JOB_LIST_ROW
};

struct job_key {
    const char *section, *name, *help;
    enum job_type type;
    size_t offset;                              /* of the value in struct job */
    int64_t int_default, int_least, int_most;   /* INT, INT_OR, SIZE; the default also of BOOL and CHOICE */
    double real_default, real_least, real_most; /* REAL */
    const char *text_default;                   /* TEXT */
    enum job_list list;                         /* CHOICE, CHOICES, INT_OR */
    const char *const *choice;                  /* by value */
    int n_choice;
};

struct job_section {
    const char *name, *help;
};

extern const struct job_key job_keys[JOB_KEY_N];
extern const struct job_section job_sections[];
extern const int job_n_section;

/* The section whose keys stand before the first [section] of the file. */
#define JOB_TOP_SECTION "job"

/* A key by name, NULL: unknown. */
const struct job_key *job_key_find(const char *section, const char *name);

/* The place of a section in job_sections, -1: unknown. */
int job_section_find(const char *name);

/* A key that has an effect only with some choices of another key: bit c of `with` is set for choice c. */
struct job_only {
    enum job_key_id key, by;
    uint32_t with;
};

/* Find a key's row; false: the key always has an effect. */
bool job_only_find(enum job_key_id key, struct job_only *out);

/* Does the key have an effect beside the job's other keys? */
bool job_key_applies(const struct job *job, enum job_key_id key);

/* The help of a key, after the names of its model kinds ("appnp, sgc: propagation steps"). */
#define JOB_HELP_BYTES 512
void job_key_help(enum job_key_id key, char out[JOB_HELP_BYTES]);

/* The accepted values of a key, for messages and the reference: "a whole number from 0 to 9", "one of gcn, sage",
 * … */
#define JOB_EXPECT_BYTES 256
void job_key_expect(const struct job_key *key, char out[JOB_EXPECT_BYTES]);

/* "train.lr", or "name" for a key of the top section. */
#define JOB_LABEL_BYTES 64
void job_key_label(const struct job_key *key, char out[JOB_LABEL_BYTES]);

/* The choice that an INT_OR key's value is; NULL: it is a number. */
const char *job_word(const struct job_key *key, int64_t value);

/* A double in the fewest digits that read back as the same double, always with a '.' or an exponent. */
#define JOB_REAL_BYTES 32
void job_real_text(double value, char out[JOB_REAL_BYTES]);

/* The value of a key as canonical TOML. */
void job_print_value(FILE *file, const struct job *job, const struct job_key *key);

/* The value of a TEXT key; of model.program and task.decoder the text, wherever it was read from. */
const char *job_key_text(const struct job *job, const struct job_key *key);

/* Where the text of such a key is, VERTEX_TEXT_MOST + 1 bytes; NULL: it is another key. */
char *job_key_program(struct job *job, enum job_key_id key);

/* Take over a value of such a key: a text, or a name, which is one line.
 * errors  STATUS_CONFIG it is longer than VERTEX_TEXT_MOST bytes */
enum status job_program_take(struct job *job, enum job_key_id key, const char *where, const char *text);

/* Does the job that these texts make have a text of its own at this key, model.program or task.decoder? The file that
 * it names; "": it is the text itself. Mistakes are left to job_load_text. */
bool job_text_file(const char *text, size_t n_bytes, const char *const *set, size_t n_set, enum job_key_id key,
                   char out[JOB_TEXT_BYTES]);

/* Read such a file.
 * errors  STATUS_NO_INPUT no such file; STATUS_CONFIG a folder, more than VERTEX_TEXT_MOST bytes, a NUL, nothing */
enum status job_text_read(enum job_key_id key, const char *path, char text[VERTEX_TEXT_MOST + 1]);

/* false: a key of a stack's layers (model.hidden, …), and the program is the whole model. */
bool job_program_takes(const struct job *job, enum job_key_id key);

/* Take over an entry of [model.args], in place of one of the same name. *number_out: its place in args
 * errors  STATUS_CONFIG "WHERE: …": no number, text or bool, too long, too many */
enum status job_argument_read(struct vertex_args *args, const char *where, const struct toml_entry *entry,
                              int *number_out);

/* The arguments of the job's program as lines of [model.args]. */
void job_print_args(FILE *file, const struct job *job);

/* Take over an entry of [model.names], in place of one of the same name.
 * errors  STATUS_CONFIG "WHERE: …": no text, too long, too many, a '*' too many or on one side only */
enum status job_name_read(struct job_names *names, const char *where, const struct toml_entry *entry);

/* The lines of [model.names]. */
void job_print_names(FILE *file, const struct job *job);

/* Take over the value of a key.
 * errors  STATUS_CONFIG "WHERE: …": of another type, not one of the choices, outside of the key's range */
enum status job_value_read(struct job *job, const struct job_key *key, const char *where,
                           const struct toml_entry *entry);

/* "20GiB", "1.5 GB", "4096": bytes. false: it is none of these. */
bool job_size_read(const char *text, int64_t *out);

/* Where a value came from, for messages of rules that see several keys. */
struct job_place {
    uint32_t line, column; /* 0: not in the file */
    bool set;              /* by --set */
};

struct job_places {
    const char *origin;
    uint32_t doubted; /* sections with mistakes, bit i for job_sections[i] */
    struct job_place of[JOB_KEY_N];
};

/* "FILE:LINE:COLUMN", "--set train.lr", or "FILE" when the value is the default. */
#define JOB_WHERE_BYTES 384
void job_where(const struct job_places *places, enum job_key_id key, char out[JOB_WHERE_BYTES]);

/* Rules across keys (job_rules.c), including those of the task and its metrics (job_rules_task.c). A rule that names
 * a key of a section with mistakes is skipped, since the mistake may be what breaks it. */
void job_check_rules(const struct job *job, const struct job_places *places, struct mistakes *mistakes);
enum status job_check_metrics(const struct job *job, const struct job_places *places);

#endif
