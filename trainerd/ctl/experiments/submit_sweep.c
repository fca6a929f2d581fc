#include "trainerd/ctl/experiments/submit_sweep.h"

#include "protocol/base/memory.h"
#include "protocol/base/printable.h"
#include "protocol/base/program.h"
#include "protocol/files/capture.h"
#include "protocol/job/job.h"
#include "protocol/toml/toml.h"
#include "trainerd/ctl/base/text.h"
#include "trainerd/ctl/experiments/sweep.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL /* no library */
#include <xxhash.h>

#define COUNT_S 60.0  /* that counting the splits of a data folder may take */
#define GROUP_MOST 54 /* bytes of a job's name in its group's, which has 9 more and at most 63 */

/* The job file with its settings, the values chosen so far, and its name. owns  the caller frees *out */
static enum status load_first(const char *config, const json_t *request, const struct sweep *sweep, struct job **out)
{
    const json_t *set = json_object_get(request, "set");
    const char *name = field_text(request, "name");
    json_t *jobs = NULL;
    enum status status = sweep_jobs(sweep, &jobs);
    if (status != STATUS_OK) {
        return status;
    }
    const json_t *own = json_array_get(jobs, 0);
    size_t n_set = json_array_size(set), n_own = json_array_size(own), n = 0;
    const char **settings = memory_alloc(n_set + n_own + 1, sizeof *settings);
    char *quoted = toml_quote(name);
    json_t *named = json_sprintf("name=%s", quoted);
    for (size_t i = 0; i < n_set; i++) {
        settings[n++] = json_string_value(json_array_get(set, i));
    }
    for (size_t i = 0; i < n_own; i++) {
        settings[n++] = json_string_value(json_array_get(own, i));
    }
    if (name[0] != '\0') {
        settings[n++] = json_string_value(named);
    }
    *out = memory_alloc(1, sizeof **out);
    status = job_load_text(config, strlen(config), field_text(request, "file"), settings, n, *out);
    if (status != STATUS_OK) {
        free(*out);
        *out = NULL;
    }
    json_decref(named);
    free(quoted);
    free(settings);
    json_decref(jobs);
    return status;
}

/* --split all: as many as the data folder has, which trainer-partition counts. */
static enum status add_splits(const struct job *job, struct sweep *sweep)
{
    char program[PATH_MAX], printed[32] = "", path[640] = "";
    for (int k = 0; k < sweep->n_key; k++) {
        if (strcmp(sweep->key[k].name, "dataset.path") == 0) {
            return status_fail(
                STATUS_USAGE,
                "--split all: the paths of --sweep dataset.path may have other splits, expected their numbers");
        }
    }
    if (job->dataset.generator != JOB_GENERATOR_NONE) {
        return status_fail(STATUS_USAGE,
                           "--split all: the job's graph is generated and has one split, expected dataset.path");
    }
    enum status status = program_beside("trainer-partition", program);
    if (status != STATUS_OK) {
        return status;
    }
    if (!capture((const char *const[]){program, "--count-splits", job->dataset.path, NULL}, COUNT_S, printed,
                 sizeof printed)) {
        printable_copy(job->dataset.path, path, sizeof path);
        return status_fail(
            STATUS_DATA,
            "--split all: the splits of '%s' cannot be counted; trainer-partition --count-splits says why", path);
    }
    printed[strcspn(printed, "\n")] = '\0';
    return sweep_add_seeds(sweep, "--split all", "dataset.split", printed, 0);
}

static enum status read_sweep(const struct ctl_arguments *arguments, const struct job *job, struct sweep *sweep)
{
    const char *split = arguments->value[CTL_OPTION_SPLIT], *seeds = arguments->value[CTL_OPTION_SEEDS];
    enum status status = STATUS_OK;
    if (split != NULL && strcmp(split, "all") == 0) {
        status = add_splits(job, sweep);
    } else if (split != NULL) {
        char *text = text_format("dataset.split=%s", split);
        status = sweep_add(sweep, "--split", text);
        free(text);
    }
    if (status == STATUS_OK && seeds != NULL) {
        status = sweep_add_seeds(sweep, "--seeds", "train.seed", seeds, job->train.seed);
    }
    return status;
}

static void hash_texts(XXH3_state_t *hash, const json_t *texts)
{
    size_t i;
    const json_t *one;
    json_array_foreach(texts, i, one)
    {
        XXH3_64bits_update(hash, json_string_value(one), json_string_length(one) + 1);
    }
    XXH3_64bits_update(hash, "", 1);
}

/* A number for what is submitted: the same sweep sent again is the same submission. */
static uint64_t hash_request(const json_t *request)
{
    static const char *const keys[] = {"config", "folder", "name", "group"};
    XXH3_state_t *hash = XXH3_createState();
    size_t i;
    const json_t *one;
    XXH3_64bits_reset(hash);
    for (i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *text = field_text(request, keys[i]);
        XXH3_64bits_update(hash, text, strlen(text) + 1);
    }
    hash_texts(hash, json_object_get(request, "set"));
    json_array_foreach(json_object_get(request, "jobs"), i, one)
    {
        hash_texts(hash, one);
    }
    uint64_t value = XXH3_64bits_digest(hash);
    XXH3_freeState(hash);
    return value;
}

/* The submission's id, and its group, where they are not given. */
static void set_group(const struct ctl_arguments *arguments, const char *name, json_t *request)
{
    uint64_t hash = hash_request(request);
    size_t n = strlen(name) < GROUP_MOST ? strlen(name) : GROUP_MOST;
    while (n > 0 && n < strlen(name) && ((unsigned char)name[n] & 0xc0) == 0x80) { /* whole characters */
        n--;
    }
    if (!ctl_given(arguments, CTL_OPTION_GROUP)) {
        json_object_set_new(request, "group", json_sprintf("%.*s-%08x", (int)n, name, (unsigned)(hash >> 32)));
    }
    if (!ctl_given(arguments, CTL_OPTION_SUBMISSION_ID)) {
        json_object_set_new(request, "submission_id", json_sprintf("sweep-%016llx", (unsigned long long)hash));
    }
}

enum status submit_sweep(const struct ctl_arguments *arguments, const char *config, json_t *request)
{
    struct sweep sweep = {0};
    struct job *job = NULL;
    json_t *jobs = NULL;
    enum status status = STATUS_OK;
    if (arguments->list[CTL_OPTION_SWEEP].n == 0 && !ctl_given(arguments, CTL_OPTION_SEEDS) &&
        !ctl_given(arguments, CTL_OPTION_SPLIT)) {
        return STATUS_OK;
    }
    if (ctl_given(arguments, CTL_OPTION_GROUP) && arguments->value[CTL_OPTION_GROUP][0] == '\0') {
        return status_fail(STATUS_USAGE, "--group is empty, expected the name of the sweep's group");
    }
    for (size_t i = 0; i < arguments->list[CTL_OPTION_SWEEP].n && status == STATUS_OK; i++) {
        status = sweep_add(&sweep, arguments->command == CTL_COMMAND_sweep ? "sweep" : "--sweep",
                           arguments->list[CTL_OPTION_SWEEP].value[i]);
    }
    if (status == STATUS_OK && (status = load_first(config, request, &sweep, &job)) == STATUS_OK &&
        (status = read_sweep(arguments, job, &sweep)) == STATUS_OK) {
        status = sweep_jobs(&sweep, &jobs);
    }
    if (status == STATUS_OK) {
        json_object_set_new(request, "jobs", jobs);
        set_group(arguments, job->job.name, request);
    }
    free(job);
    sweep_release(&sweep);
    return status;
}
