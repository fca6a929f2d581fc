#include "trainerd/coordinator/records/metrics.h"

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "trainerd/coordinator/score/score.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define N_NUMBER 11
#define NAME_BYTES 64
#define WORKERS_MOST 256 /* with more, their times are left out: a line is read in one piece */

static void put_value(FILE *file, double value, int digits)
{
    if (isfinite(value)) {
        fprintf(file, "%.*g", digits, value);
    } else {
        fputs("null", file);
    }
}

static void put_number(FILE *file, const char *name, double value)
{
    fprintf(file, ",\"%s\":", name);
    put_value(file, value, 17);
}

/* Of each worker [compute, pack, wait, evaluate]. */
static void put_times(FILE *file, const struct fleet *fleet, int64_t n_worker)
{
    fputs(",\"seconds_workers\":[", file);
    for (uint32_t rank = 0; n_worker <= WORKERS_MOST && rank < n_worker; rank++) {
        struct fleet_times times = fleet_times(fleet, rank);
        const double seconds[] = {times.compute_s, times.pack_s, times.wait_s, times.evaluate_s};
        for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
            fputs(i > 0 ? "," : rank > 0 ? ",[" : "[", file);
            put_value(file, seconds[i], 4);
        }
        fputc(']', file);
    }
    fputc(']', file);
}

/* All that is received is one of forward, backward, evaluate and reduce; the first three by layer, too. */
static void put_bytes(FILE *file, const struct fleet_report *report)
{
    uint64_t sum[TRAFFIC_N_WHAT] = {0}, payloads = 0;
    for (int l = 0; l < report->n_layer; l++) {
        for (int what = 0; what < TRAFFIC_N_WHAT; what++) {
            sum[what] += report->layer[l][what];
            payloads += report->layer[l][what];
        }
    }
    const struct {
        const char *key;
        uint64_t n_bytes;
    } numbers[] = {{"bytes_sent", report->bytes_sent},        {"bytes_received", report->bytes_received},
                   {"bytes_forward", sum[TRAFFIC_FORWARD]},   {"bytes_backward", sum[TRAFFIC_BACKWARD]},
                   {"bytes_evaluate", sum[TRAFFIC_EVALUATE]}, {"bytes_reduce", report->bytes_received - payloads}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        fprintf(file, ",\"%s\":%" PRIu64, numbers[i].key, numbers[i].n_bytes);
    }
    fputs(",\"bytes_layers\":[", file);
    for (int l = 0; l < report->n_layer; l++) {
        fprintf(file, "%s[%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", l > 0 ? "," : "", report->layer[l][TRAFFIC_FORWARD],
                report->layer[l][TRAFFIC_BACKWARD], report->layer[l][TRAFFIC_EVALUATE]);
    }
    fputc(']', file);
}

/* Of the last comparison of gradients. */
static void put_guard(FILE *file, const struct checkpoint_state *state)
{
    fprintf(file, ",\"back_offs\":%lld", (long long)state->n_back_off);
    put_number(file, "guard_epoch", state->guard_epoch >= 0 ? (double)state->guard_epoch : NAN);
    put_number(file, "guard_loss", state->guard_loss);
    put_number(file, "guard_error", state->guard_error);
    put_number(file, "guard_cosine", state->guard_cosine);
}

/* The metrics of train.metrics by their names. */
static void put_named(FILE *file, const struct metrics_epoch *epoch)
{
    for (int i = 0; i < epoch->metrics->n && epoch->job->train.metrics.n > 0; i++) {
        const char *name = score_name(epoch->metrics->of[i]);
        const struct checkpoint_metric *of = &epoch->score.of[i];
        const struct {
            const char *split;
            double value;
        } splits[] = {{"train", of->train}, {"valid", of->valid}, {"test", of->test}};
        for (size_t k = 0; k < sizeof splits / sizeof *splits; k++) {
            char key[NAME_BYTES];
            snprintf(key, sizeof key, "%s_%s", splits[k].split, name);
            put_number(file, key, splits[k].value);
        }
    }
}

enum status metrics_write(struct output *output, const struct metrics_epoch *epoch)
{
    const struct fleet_report *report = epoch->report;
    const struct checkpoint_score *score = &epoch->score;
    const struct {
        const char *key;
        double value;
    } numbers[N_NUMBER] = {
        {"loss", score->loss},
        {"valid_loss", score->valid_loss},
        {"train_metric", score->of[0].train},
        {"valid_metric", score->of[0].valid},
        {"test_metric", score->of[0].test},
        {"lr", epoch->lr},
        {"epoch_s", report->epoch_s},
        {"compute_s", report->compute_s},
        {"pack_s", report->pack_s},
        {"wait_s", report->wait_s},
        {"evaluate_s", report->evaluate_s},
    };
    char *line = NULL;
    size_t n_line = 0;
    FILE *file = open_memstream(&line, &n_line);
    ASSERT(file != NULL);
    fprintf(file, "{\"epoch\":%lld,\"metric\":\"%s\"", (long long)epoch->epoch, score_name(epoch->metrics->of[0]));
    for (int i = 0; i < N_NUMBER; i++) {
        put_number(file, numbers[i].key, numbers[i].value);
    }
    put_times(file, epoch->fleet, epoch->job->workers.count);
    put_named(file, epoch);
    put_bytes(file, report);
    if (epoch->job->train.clip_norm > 0.0) {
        put_number(file, "grad_norm", report->grad_norm);
    }
    if (epoch->job->exchange.guard_every > 0) {
        put_guard(file, epoch->state);
    }
    fprintf(file, ",\"rollbacks\":%lld,\"time\":%.3f}\n", (long long)epoch->state->n_rollback, clock_wall_s());
    fclose(file);
    enum status status = output_metrics_append(output, line, n_line);
    free(line);
    return status;
}
