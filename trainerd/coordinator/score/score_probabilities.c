/* Probabilities of logits, and whether they are as often right as they say. */
#include "trainerd/coordinator/score/score.h"

#include <math.h>

/* exp(x − max) / Σ exp(x − max) */
static void softmax(int32_t n_class, float *row)
{
    double most = row[0], sum = 0.0;
    for (int32_t k = 1; k < n_class; k++) {
        most = row[k] > most ? row[k] : most;
    }
    for (int32_t k = 0; k < n_class; k++) {
        sum += exp(row[k] - most);
    }
    for (int32_t k = 0; k < n_class; k++) {
        row[k] = (float)(exp(row[k] - most) / sum);
    }
}

void score_probabilities(int64_t n_row, int32_t n_class, bool multi_label, float *rows)
{
    for (int64_t r = 0; r < n_row && !multi_label; r++) {
        softmax(n_class, rows + r * n_class);
    }
    for (int64_t i = 0; i < n_row * n_class && multi_label; i++) {
        rows[i] = (float)(1.0 / (1.0 + exp(-(double)rows[i])));
    }
}

double score_calibration(const struct score_labels *labels, const float *probabilities, int split)
{
    enum { N_BIN = 15 };
    double gap[N_BIN] = {0}, sum = 0.0;
    int64_t n = 0;
    for (int64_t node = 0; node < labels->n_node; node++) {
        const float *row = probabilities + node * labels->n_class;
        if (labels->labels[node] < 0 || !score_counts(labels, node, split)) {
            continue;
        }
        int32_t given = score_class(labels->n_class, row);
        double confidence = row[given];
        if (isnan(confidence)) {
            return NAN;
        }
        int bin = (int)ceil(N_BIN * confidence) - 1; /* (bin / 15, (bin + 1) / 15] */
        gap[bin > 0 ? bin : 0] += (given == labels->labels[node] ? 1.0 : 0.0) - confidence;
        n++;
    }
    for (int bin = 0; bin < N_BIN; bin++) {
        sum += fabs(gap[bin]);
    }
    return n > 0 ? sum / (double)n : NAN;
}
