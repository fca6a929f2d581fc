/* The metrics of an evaluation; and the one evaluation of a trained model. */
#include "protocol/base/clock.h"
#include "protocol/base/memory.h"
#include "trainerd/coordinator/epochs/training.h"

static void sums_score(const struct training *training, const struct fleet_report *report,
                       struct training_scores *out)
{
    double all[SCORE_N_SUM] = {0};
    out->valid_loss = score_loss(report->score[DATASET_SPLIT_VALID]);
    for (int split = DATASET_SPLIT_NONE; split <= DATASET_SPLIT_TEST; split++) {
        for (int k = 0; k < SCORE_N_SUM; k++) {
            all[k] += report->score[split][k] -
                      (split == DATASET_SPLIT_TEST ? report->score[DATASET_SPLIT_VALID_TEST][k] : 0.0);
        }
    }
    for (int i = 0; i < training->metrics.n; i++) {
        for (int split = 0; split < SCORE_N_SPLIT; split++) {
            const double *sums = split == SCORE_SPLIT_ALL ? all : report->score[split];
            out->of[i][split] = score_from_sums((enum job_metric)training->metrics.of[i], training->multi_label,
                                                sums);
        }
    }
}

/* Metrics that take rows, from logits n_node × n_class. */
static enum status rows_score(const struct training *training, const float *logits, int first, int last,
                              struct training_scores *out)
{
    enum status status = STATUS_OK;
    for (int i = 0; i < training->metrics.n; i++) {
        enum job_metric metric = (enum job_metric)training->metrics.of[i];
        for (int split = first; split <= last && score_takes_rows(metric) && status == STATUS_OK; split++) {
            status = score_rows(metric, &training->labels, logits, split, &out->of[i][split]);
        }
    }
    return status;
}

enum status training_decoder_open(const struct training *training, struct decoder *out)
{
    const struct program *program = training->links.program;
    enum status status = decoder_open(program, out);
    if (status != STATUS_OK || out->weights == NULL) {
        return status;
    }
    return fleet_get(training->fleet, WORKER_STATE_WEIGHTS, 0, out->weights,
                     (size_t)program->n_weight * sizeof *out->weights);
}

/* Held-out edges, from their nodes' rows. */
static enum status links_score_split(const struct training *training, const struct score_rows *rows, int split,
                                     struct training_scores *out)
{
    enum links_split of_links = split == DATASET_SPLIT_VALID ? LINKS_SPLIT_VALID : LINKS_SPLIT_TEST;
    const struct links_held *held = &training->links.held.held[of_links];
    const struct job *loss = split == DATASET_SPLIT_VALID ? training->job : NULL;
    struct score_links scores;
    double of[JOB_CHOICES_MOST];
    enum status status = score_links_open(held, &training->links.known[of_links], rows, loss, &scores);
    if (status == STATUS_OK) {
        status = score_links_metrics(&training->metrics, &scores, of);
    }
    for (int i = 0; i < training->metrics.n && status == STATUS_OK; i++) {
        out->of[i][split] = of[i];
    }
    if (status == STATUS_OK && loss != NULL) {
        out->valid_loss = score_links_loss(training->job, &scores);
    }
    score_links_close(&scores);
    return status;
}

static enum status links_score_all(const struct training *training, const float *rows, struct training_scores *out)
{
    struct decoder decoder;
    enum status status = training_decoder_open(training, &decoder);
    const struct score_rows all = {.decoder = &decoder, .of = rows, .n_node = training->partition->n_node};
    for (int split = DATASET_SPLIT_VALID; split <= DATASET_SPLIT_TEST && status == STATUS_OK; split++) {
        status = links_score_split(training, &all, split, out);
    }
    decoder_close(&decoder);
    return status;
}

/* All that is scored by rows n_node × n_class. */
static enum status all_score(const struct training *training, const float *rows, int first, int last,
                             struct training_scores *out)
{
    return job_predicts_links(training->job) ? links_score_all(training, rows, out)
                                             : rows_score(training, rows, first, last, out);
}

enum status training_score(struct training *training, const struct fleet_report *report, int first, int last,
                           struct training_scores *out)
{
    size_t n = (size_t)training->partition->n_node * (size_t)training->n_class;
    float *logits;
    sums_score(training, report, out);
    bool takes_rows = job_predicts_links(training->job) ? !job_predicts(training->job) /* which holds no edge out */
                                                        : score_any_takes_rows(&training->metrics);
    if (!takes_rows) {
        return STATUS_OK;
    }
    enum status status = memory_acquire(MEMORY_OTHER, n, sizeof *logits, &logits);
    if (status != STATUS_OK) {
        return status;
    }
    status = training_logits(training, logits);
    if (status == STATUS_OK) {
        status = all_score(training, logits, first, last, out);
    }
    memory_release(MEMORY_OTHER, logits, n, sizeof *logits);
    return status;
}

enum status training_predict(struct training *training, struct training_scores *out)
{
    struct fleet_report report = {0};
    double start = clock_s();
    enum status status = fleet_epoch(training->fleet, 0, false, true, &report);
    if (status != STATUS_OK) {
        return status;
    }
    training->spent.evaluate_s += clock_s() - start;
    training->state.n_call = (int64_t)report.n_call;
    return training_score(training, &report, DATASET_SPLIT_NONE, SCORE_SPLIT_ALL, out);
}
