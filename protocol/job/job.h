/* The job file: TOML text to a checked struct job, and back to canonical text.
 *
 * job_keys.def has everything about a key, and the struct below is made from it. TOML is read only through
 * protocol/toml/toml.h. Rules that need the data belong to the data's reader.
 */
#ifndef PROTOCOL_JOB_H
#define PROTOCOL_JOB_H

#include "protocol/base/status.h"
#include "protocol/vertex/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define JOB_TEXT_BYTES 1024
#define JOB_FILE_MOST_BYTES (1 << 18)
#define JOB_ENTRIES_MOST 1024 /* keys and sections of a file, and settings */

/* The value of a JOB_CHOICES key: different choices, in the order in which they are given. All metrics of
 * links are nine. */
#define JOB_CHOICES_MOST 9
struct job_choices {
    int n, of[JOB_CHOICES_MOST];
};

#define JOB_SECTION_BEGIN(section, help) struct job_##section {
#define JOB_SECTION_END(section)                                                                                     \
    }                                                                                                                \
    ;
#define JOB_TEXT(section, key, default_, help) char key[JOB_TEXT_BYTES];
#define JOB_INT(section, key, default_, least, most, help) int64_t key;
#define JOB_INT_OR(section, key, list, default_, least, most, help) int64_t key;
#define JOB_REAL(section, key, default_, least, most, help) double key;
#define JOB_BOOL(section, key, default_, help) bool key;
#define JOB_SIZE(section, key, default_, help) int64_t key;
#define JOB_CHOICE(section, key, list, default_, help) int key;
#define JOB_CHOICES(section, key, list, help) struct job_choices key;
#include "protocol/job/job_keys.def"

/* enum job_format { JOB_FORMAT_AUTO, … } for every list of choices. */
#define JOB_ENUM_ROW(list, name, ...) JOB_##list##_##name,
#define JOB_ENUM(lower, LIST) enum job_##lower{JOB_##LIST##_LIST(JOB_ENUM_ROW, LIST) JOB_##LIST##_N};
JOB_LISTS(JOB_ENUM)

/* The value of a JOB_INT_OR key that is a choice of its list. */
#define JOB_WORD(choice) (-1 - (int64_t)(choice))

/* What the text of a model says of it (model_kinds.h). */
struct model_kind {
    bool weighs;      /* its definition has edge weights: dataset.edge_weights = "auto" uses existing ones */
    bool needs_types; /* types of edges */
    bool adds_loops;  /* its definition adds a self loop to every node: what dataset.self_loops = "auto" means */
    /* independent layers: model.linear_layers may replace the last ones, model.jumping_knowledge read all */
    bool is_stack;
    /* its aggregates are sums of neighbours' rows, each times a factor of its edge (sage: except the maximum) */
    bool is_sum;
    /* it reads features of edges where the graph has them (dataset.edge_features) */
    bool takes_edge_features;
    bool reads_norm; /* e.norm */
    uint64_t keys;   /* MODEL_KEY of each option that is a parameter of the text, and no option of every stack */
};

/* The vertex program of a job with model.kind = "program". */
struct job_program {
    char text[VERTEX_TEXT_MOST + 1]; /* "": it is still in the file that model.program names */
    struct vertex_args args;         /* [model.args] */
    struct model_kind kind;          /* what the text needs of the data */
    bool reads_weights;              /* of edges: e.weight or e.norm */
    /* the first lines that read e.weight or e.norm, e.feature, e.relation; 0: none does */
    struct {
        int weight, feature, relation;
    } line;
};

/* [model.names]: what another program's file calls the model's tensors. A row renames one tensor, or all whose names
 * go on after a dot. "*" stands for the same part between two dots on both sides. */
#define JOB_TENSOR_BYTES 128
#define JOB_TENSOR_MOST 128
struct job_name {
    char ours[JOB_TENSOR_BYTES], theirs[JOB_TENSOR_BYTES]; /* theirs "": what goes on after the dot, alone */
};

struct job_names {
    int n;
    struct job_name of[JOB_TENSOR_MOST];
};

/* The checked job. Text values end in NUL; choices hold a JOB_<LIST>_<NAME>. */
struct job {
#define JOB_SECTION_BEGIN(section, help) struct job_##section section;
#define JOB_SECTION_END(section)
#define JOB_TEXT(section, key, default_, help)
#define JOB_INT(section, key, default_, least, most, help)
#define JOB_INT_OR(section, key, list, default_, least, most, help)
#define JOB_REAL(section, key, default_, least, most, help)
#define JOB_BOOL(section, key, default_, help)
#define JOB_SIZE(section, key, default_, help)
#define JOB_CHOICE(section, key, list, default_, help)
#define JOB_CHOICES(section, key, list, help)
#include "protocol/job/job_keys.def"
    struct job_program program;
    char decoder[VERTEX_TEXT_MOST + 1]; /* "": task.decoder names it, or a file that was not read yet */
    struct job_names names;
};

/* Every key at its default. */
void job_defaults(struct job *out);

/* Read a job file, apply `section.key=value` settings in order, check every key and the rules across keys.
 *
 *   owns    borrows all; *out written only on success
 *   errors  STATUS_CONFIG "FILE:LINE:COLUMN: …" with the nearest valid name or the range, a line for each mistake;
 *           STATUS_NO_INPUT no such file; STATUS_CONFIG also for a folder, a file past JOB_FILE_MOST_BYTES, bytes
 *           that are not UTF-8; settings are named "--set section.key"
 */
enum status job_load(const char *path, const char *const *set, size_t n_set, struct job *out);

/* The same from an open file, from its beginning, wherever its offset is / from memory; `origin` stands for the
 * file's name in messages. model.program and task.decoder are texts then, and no files' names. */
enum status job_load_file(int file, const char *origin, const char *const *set, size_t n_set, struct job *out);
enum status job_load_text(const char *text, size_t n_bytes, const char *origin, const char *const *set, size_t n_set,
                          struct job *out);

/* As job_load_text, but for a job of this process's user: the files that model.program and task.decoder name are read
 * into the job, as job_load does; a path is relative to the working directory. */
enum status job_load_own(const char *text, size_t n_bytes, const char *origin, const char *const *set, size_t n_set,
                         struct job *out);

/* As job_load_text, for a process that many users share: of a program the grammar is checked alone, in time that
 * grows with its text; its operations are left to the job's own process. */
enum status job_load_untraced(const char *text, size_t n_bytes, const char *origin, const char *const *set,
                              size_t n_set, struct job *out);

/* Check a program's text, as far as no data is needed, and fill in job->program.kind. Messages name `origin`. Without
 * traces: its grammar, and what follows from it. */
enum status job_program_check(struct job *job, const char *origin, bool traces);

/* Likewise of the decoder's text. */
enum status job_decoder_check(const struct job *job, const char *origin, bool traces);

/* Replace "~" and "~/" at the beginning of paths by this process's home folder ($HOME): in all paths but output.dir,
 * which the daemon has to know, and workers.program, which is a path of another machine. job_home_path: in one path;
 * `key` names it in messages.
 * errors  STATUS_CONFIG no home folder, a path that is too long */
enum status job_home(struct job *job);
enum status job_home_path(const char *key, char path[JOB_TEXT_BYTES]);

/* Remarks (not errors) of this thread's last load: whole lines, "FILE:LINE:COLUMN: KEY is not used: …"; "" for
 * nothing. */
const char *job_remarks(void);

/* Canonical TOML: every key that applies, in the list's order; job_load_text gives a checked job's struct back.
 *
 *   owns    the caller frees the returned text
 */
char *job_print(const struct job *job);

/* The key reference: as a table for people (markdown false) or as configs/README.md's body. */
void job_describe(FILE *file, bool markdown);

/* Is the loss one of regression? Labels are then numbers instead of classes. */
bool job_regresses(const struct job *job);

/* Does it train on edges, to tell pairs of nodes that have one from others? */
bool job_predicts_links(const struct job *job);

/* Do scores of pairs depend on their relation: does the decoder's text read it? */
bool job_scores_relations(const struct job *job);

/* Are its pairs without an edge those of the ends of edges (task.sampling)? */
bool job_samples_ends(const struct job *job);

/* Is it a metric of ranked pairs of nodes alone: MRR, Hits@K? */
bool job_metric_is_of_links(enum job_metric metric);

/* Is less of this metric better? / Is it a fraction, best read in percent? */
bool job_metric_falls(enum job_metric metric);
bool job_metric_is_fraction(enum job_metric metric);

/* The job's metrics, the one that chooses the best weights first: train.metrics, else train.metric. "auto" is not
 * filled in. */
struct job_choices job_metrics(const struct job *job);

/* The metric of that name, as train.metric has it; false: unknown, or "auto". */
bool job_metric_find(const char *name, enum job_metric *out);

/* Does the job's model use edge weights, by default or with dataset.edge_weights = "yes"? */
bool job_takes_edge_weights(const struct job *job);

/* Does the job have features made of the graph (dataset.features is a word) in place of the data's own? */
bool job_makes_features(const struct job *job);

/* Text of a choice: job_choice_text("model", "kind", job->model.kind) is "gcn". */
const char *job_choice_text(const char *section, const char *key, int value);

/* Can its messages be sealed? If workers are started on other machines, this is decided when they have joined. */
bool job_seals(const struct job *job);

/* What train.products may be on a device (not auto): a bit of each choice. */
uint32_t job_device_products(int device);

/* Does the job predict with a trained model (predict.model) rather than train one? */
bool job_predicts(const struct job *job);

/* Does it ask a model of links for scores of pairs, or for partners of nodes? */
bool job_asks_links(const struct job *job);

/* The setting of job_load that makes a job predict with this model. owns  the caller frees the text */
char *job_predict_setting(const char *model);

/* Name of the job's runs: the job's name, for a prediction with "-predict" appended, so that runs/<name> remains the
 * model's. */
#define JOB_RUN_BYTES (JOB_TEXT_BYTES + 16)
void job_run_name(const struct job *job, char out[JOB_RUN_BYTES]);

#endif
