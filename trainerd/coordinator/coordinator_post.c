/* After a training or a prediction: label propagation, and Correct & Smooth of the model's probabilities
 * (docs/smoothing.md). Each is a prediction by a vertex program without weights, which workers of its own run over
 * the same graph. Its features are the probabilities, and behind them training nodes' labels (model.label_input).
 */
#include "partition/files/mapped.h"
#include "partition/files/npy.h"
#include "protocol/base/clock.h"
#include "protocol/base/memory.h"
#include "trainerd/coordinator/coordinator_state.h"
#include "trainerd/coordinator/epochs/interrupt.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Z <- bound(alpha A Z + (1 - alpha) Y), where A has w / sqrt(d_i d_j), or w. bound(Z) is Z between low and high; or,
 * if `fixed`, Y for known nodes and Z for the others. Correct: Huang et al., ICLR 2021, section 3.1; Smooth: 3.2.
 * A node's errors of the sum s have the factor mean / s, or 1 where that is more than 1 000: where s < least. */
static const char text[] =
    "def propagated(v, y, layers, alpha, by_degree, low, high, fixed, free):\n"
    "    v.z = y\n"
    "    for i in range(layers):\n"
    "        z = alpha * sum((e.norm if by_degree else e.weight) * e.src.z for e in v.in_edges) + (1 - alpha) * y\n"
    "        v.z = z * free + y if fixed else clamp(z, low, high)\n"
    "    return v.z\n"
    "\n"
    "def factor(error, mean, least):\n"
    "    size = sum_columns(abs(error))\n"
    "    scales = clamp((size - least) * 1e30 + 1, 0, 1)\n"
    "    return scales * mean / clamp(size, least, 1e30) + 1 - scales\n"
    "\n"
    "def model(v, classes, corrects, layers, alpha, correct_layers, correct_alpha, by_degree, autoscale, scale,\n"
    "          mean=0, least=1):\n"
    "    known = v.x[:, v.x.width - classes:v.x.width]\n"
    "    free = 1 - sum_columns(known)\n"
    "    y = known\n"
    "    if corrects:\n"
    "        y = v.x[:, 0:classes]\n"
    "        if correct_layers > 0:\n"
    "            error = known - y * (1 - free)\n"
    "            error = propagated(v, error, correct_layers, correct_alpha, by_degree, -1, 1, not autoscale, free)\n"
    "            y = y + (factor(error, mean, least) if autoscale else scale) * error\n"
    "        y = known + free * y\n"
    "    return propagated(v, y, layers, alpha, by_degree, 0, 1, False, free)\n";

#define SCALE_MOST 1000.0
#define ERROR_LEAST 1e-30 /* of all training nodes together none: no factor */

static const struct kind {
    const char *key, *file, *what;
} kinds[RESULT_POST_N] = {[RESULT_POST_SMOOTHED] = {"correct_and_smooth", "smoothed.npy", "correct and smooth"},
                          [RESULT_POST_PROPAGATED] = {"label_propagation", "propagated.npy", "label propagation"}};

static bool wants(const struct job *job, enum result_post post)
{
    return post == RESULT_POST_SMOOTHED ? job->post.correct_and_smooth : job->post.label_propagation;
}

bool coordinator_has_post(const struct coordinator *c)
{
    return wants(&c->job, RESULT_POST_SMOOTHED) || wants(&c->job, RESULT_POST_PROPAGATED);
}

static bool is_known(const struct dataset *dataset, int64_t node)
{
    return dataset->labels.split[node] == DATASET_SPLIT_TRAIN && dataset->labels.classes[node] >= 0;
}

/* The file of post.probabilities_file. Columns beyond the data's classes are of classes without nodes. */
static enum status probabilities_open(const struct coordinator *c, int64_t n_node, int32_t n_class, struct npy *out)
{
    enum status status = npy_open(c->job.post.probabilities_file, out);
    if (status != STATUS_OK) {
        return status;
    }
    status = npy_expect(out, NPY_KIND_NUMBER, 2, n_node, -1);
    if (status == STATUS_OK && (out->shape[1] < n_class || out->shape[1] > INT32_MAX)) {
        status = status_fail(STATUS_DATA, "%s: %" PRId64 " columns, expected one for each of the %" PRId32 " classes",
                             out->name, out->shape[1], n_class);
    }
    for (int64_t i = 0; i < out->n_value && status == STATUS_OK; i++) {
        if (!isfinite(npy_real(out, i))) {
            status = status_fail(STATUS_DATA, "%s: row %" PRId64 " has %g, expected finite numbers", out->name,
                                 i / out->shape[1], npy_real(out, i));
        }
    }
    if (status != STATUS_OK) {
        npy_close(out);
    }
    return status;
}

static enum status check_probabilities(const struct coordinator *c)
{
    struct npy npy;
    if (!wants(&c->job, RESULT_POST_SMOOTHED) || c->job.post.probabilities_file[0] == '\0') {
        return STATUS_OK;
    }
    enum status status = probabilities_open(c, c->dataset.n_node, c->dataset.facts.n_class, &npy);
    if (status != STATUS_OK) {
        return status_fail(status, "post.probabilities_file: %s", status_reason());
    }
    npy_close(&npy);
    return STATUS_OK;
}

enum status coordinator_check_post(struct coordinator *c)
{
    const struct dataset *dataset = &c->dataset;
    const char *key = kinds[wants(&c->job, RESULT_POST_SMOOTHED) ? RESULT_POST_SMOOTHED : RESULT_POST_PROPAGATED].key;
    if (!coordinator_has_post(c)) {
        return STATUS_OK;
    }
    if (dataset->facts.multi_label || dataset->of_links) { /* of links: the model of a prediction */
        return status_fail(STATUS_CONFIG, "post.%s is for one label per node, dataset '%s' has %s", key,
                           dataset->name, dataset->of_links ? "none, for a model of links" : "several");
    }
    for (int64_t node = 0; node < dataset->n_node; node++) {
        if (is_known(dataset, node)) {
            return check_probabilities(c);
        }
    }
    return status_fail(
        STATUS_DATA,
        "dataset '%s' has no training nodes with a label, expected some for post.%s: it propagates their labels",
        dataset->name, key);
}

/* The mean over known nodes of Σ |label − probability|. probabilities n_node × n_class */
static double mean_error(const struct dataset *dataset, const float *probabilities)
{
    double sum = 0.0;
    int64_t n = 0;
    for (int64_t node = 0; node < dataset->n_node; node++) {
        for (int32_t k = 0; is_known(dataset, node) && k < dataset->facts.n_class; k++) {
            sum += fabs((dataset->labels.classes[node] == k ? 1.0 : 0.0) -
                        probabilities[node * dataset->facts.n_class + k]);
        }
        n += is_known(dataset, node);
    }
    return sum / (double)n;
}

static void add_arg(struct job *job, const char *name, enum vertex_arg_kind kind, double number)
{
    struct vertex_arg *arg = &job->program.args.of[job->program.args.n++];
    *arg = (struct vertex_arg){.kind = kind, .number = number};
    snprintf(arg->name, sizeof arg->name, "%s", name);
}

/* The job of a propagation: of this one the graph but for its features, the parts, the workers and the memory. */
static enum status job_make(const struct job *from, enum result_post post, struct job *out)
{
    const struct job_post *keys = &from->post;
    bool corrects = post == RESULT_POST_SMOOTHED;
    job_defaults(out);
    out->job = from->job;
    out->dataset = from->dataset;
    if (from->dataset.generator == JOB_GENERATOR_NONE || job_makes_features(from)) {
        out->dataset.features = JOB_WORD(
            JOB_FEATURES_DEGREE); /* so that none are read; generators' labels depend on them */
    }
    out->dataset.normalize_features = JOB_NORMALIZE_NONE;
    out->dataset.edge_features = JOB_SWITCH_NO;
    out->partition = from->partition;
    out->exchange.schedule = from->exchange.schedule;
    out->exchange.prefetch = from->exchange.prefetch;
    out->workers = from->workers;
    out->memory = from->memory;
    out->model.kind = JOB_KIND_PROGRAM;
    out->model.label_input = true;
    snprintf(out->predict.model, sizeof out->predict.model, "post"); /* forward alone */
    memcpy(out->program.text, text, sizeof text);
    add_arg(out, "corrects", VERTEX_ARG_BOOL, corrects);
    add_arg(out, "layers", VERTEX_ARG_NUMBER, (double)(corrects ? keys->smooth_layers : keys->layers));
    add_arg(out, "alpha", VERTEX_ARG_NUMBER, corrects ? keys->smooth_alpha : keys->alpha);
    add_arg(out, "correct_layers", VERTEX_ARG_NUMBER, (double)keys->correct_layers);
    add_arg(out, "correct_alpha", VERTEX_ARG_NUMBER, keys->correct_alpha);
    add_arg(out, "by_degree", VERTEX_ARG_BOOL, keys->normalize);
    add_arg(out, "autoscale", VERTEX_ARG_BOOL, keys->autoscale);
    add_arg(out, "scale", VERTEX_ARG_NUMBER, keys->scale);
    return job_program_check(out, "post", true);
}

/* Probabilities of the nodes' classes. */
struct rows {
    float *of; /* n_node × n_class; NULL: none */
    int64_t n_node;
    int32_t n_class;
};

static enum status rows_read(struct coordinator *c, struct rows *out)
{
    struct npy npy;
    enum status status = probabilities_open(c, c->sizes.n_node, c->sizes.facts.n_class, &npy);
    if (status != STATUS_OK) {
        return status;
    }
    out->n_class = (int32_t)npy.shape[1];
    status = memory_acquire(MEMORY_OTHER, (size_t)npy.n_value, sizeof *out->of, &out->of);
    for (int64_t i = 0; i < npy.n_value && status == STATUS_OK; i++) {
        out->of[i] = (float)npy_real(&npy, i);
    }
    npy_close(&npy);
    return status;
}

static enum status rows_make(struct coordinator *c, struct rows *out)
{
    *out = (struct rows){.n_node = c->sizes.n_node, .n_class = c->sizes.facts.n_class};
    if (!wants(&c->job, RESULT_POST_SMOOTHED)) {
        return STATUS_OK;
    }
    if (c->job.post.probabilities_file[0] != '\0') {
        return mapped_check(rows_read(c, out));
    }
    size_t n = (size_t)out->n_node * (size_t)out->n_class;
    enum status status = memory_acquire(MEMORY_OTHER, n, sizeof *out->of, &out->of);
    if (status == STATUS_OK && (status = training_logits(&c->training, out->of)) == STATUS_OK) {
        score_probabilities(out->n_node, out->n_class, false, out->of);
    }
    return status;
}

static void rows_release(struct rows *rows)
{
    memory_release(MEMORY_OTHER, rows->of, (size_t)rows->n_node * (size_t)rows->n_class, sizeof *rows->of);
}

/* The graph again, with these features; NULL: it keeps those that it has. */
static enum status load(struct coordinator *own, const struct coordinator *c, const struct rows *rows)
{
    enum status status = coordinator_load(own);
    if (status != STATUS_OK) {
        return status;
    }
    const struct dataset_model fits = {.folder = c->output.dir.path,
                                       .n_feature = own->dataset.facts.n_feature,
                                       .n_class = rows != NULL ? rows->n_class : c->sizes.facts.n_class};
    status = dataset_fit_model(&own->dataset, &fits);
    if (status == STATUS_OK && rows != NULL) {
        double mean = mean_error(&own->dataset, rows->of);
        own->dataset.features.f32 = rows->of;
        own->dataset.facts.n_feature = own->dataset.facts.n_class;
        add_arg(&own->job, "mean", VERTEX_ARG_NUMBER, mean);
        add_arg(&own->job, "least", VERTEX_ARG_NUMBER, fmax(mean / SCALE_MOST, ERROR_LEAST));
    }
    return status;
}

/* By `own`, the coordinator of the propagation. */
static enum status propagate_by(struct coordinator *own, const struct coordinator *c, enum result_post post,
                                const struct rows *rows)
{
    own->options = c->options;
    own->events = c->events;
    own->progress = c->progress;
    own->output.dir = c->output.dir;
    own->training.metrics = c->training.metrics;
    enum status status = job_make(&c->job, post, &own->job);
    if (status == STATUS_OK) {
        status = load(own, c, rows);
    }
    if (status == STATUS_OK) {
        status = coordinator_evaluate(own);
    }
    if (status == STATUS_OK) {
        status = coordinator_write_rows(own, kinds[post].file, WORKER_STATE_LOGITS, own->sizes.facts.n_class, NULL);
    }
    own->output.dir.file = own->output.metrics = -1; /* which remain open */
    return status;
}

static enum status propagate(struct coordinator *c, enum result_post post, const struct rows *rows)
{
    struct coordinator *own = memory_alloc(1, sizeof *own);
    struct result_posted *result = &c->result.posted[post];
    double start = clock_s();
    enum status status = propagate_by(own, c, post, rows);
    *result = (struct result_posted){
        .key = kinds[post].key, .file = kinds[post].file, .scores = own->result.scores, .seconds = clock_s() - start};
    char reason[STATUS_REASON_BYTES];
    snprintf(reason, sizeof reason, "%s", status_reason());
    coordinator_close(own, status);
    return status == STATUS_OK
               ? STATUS_OK
               : status_fail(status, "post.%s: %s%s", kinds[post].key, reason,
                             c->training.has_saved ? "; the training is saved, --resume continues from there" : "");
}

enum status coordinator_post(struct coordinator *c)
{
    struct rows rows;
    if (!coordinator_has_post(c)) {
        return STATUS_OK;
    }
    enum status status = rows_make(c, &rows);
    if (status == STATUS_OK) {
        fleet_close(c->workers.fleet);
        c->workers.fleet = c->training.fleet = NULL;
        interrupt_mode(INTERRUPT_MODE_STOP);
    }
    for (int post = 0; post < RESULT_POST_N && status == STATUS_OK; post++) {
        if (wants(&c->job, (enum result_post)post)) {
            status = propagate(c, (enum result_post)post, post == RESULT_POST_SMOOTHED ? &rows : NULL);
        }
    }
    rows_release(&rows);
    return status;
}

void coordinator_print_post(struct coordinator *c)
{
    for (int post = 0; post < RESULT_POST_N; post++) {
        const double *scores = c->result.posted[post].scores.of[0];
        if (wants(&c->job, (enum result_post)post)) {
            progress_print(&c->progress, "%s: test %s %s (valid %s), in %s", kinds[post].what,
                           score_name(c->training.metrics.of[0]),
                           progress_metric(&c->progress, scores[DATASET_SPLIT_TEST]).text,
                           progress_metric(&c->progress, scores[DATASET_SPLIT_VALID]).text, kinds[post].file);
        }
    }
}
