#include "trainerd/coordinator/records/metrics.h"

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "trainerd/coordinator/folder/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS_MOST 256 /* with more, their times are left out: a line is read in one piece */

/* Of each worker [compute, pack, wait, evaluate], in four digits each: of many workers they are most of the line. */
static void put_times(FILE *file, const struct fleet *fleet, int64_t n_worker)
{
    fputs(",\"seconds_workers\":[", file);
    for (uint32_t rank = 0; n_worker <= WORKERS_MOST && rank < n_worker; rank++) {
        struct fleet_times times = fleet_times(fleet, rank);
        const double seconds[] = {times.compute_s, times.pack_s, times.wait_s, times.evaluate_s};
        for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
            fputs(i > 0 ? "," : rank > 0 ? ",[" : "[", file);
            fprintf(file, isfinite(seconds[i]) ? "%.4g" : "null", seconds[i]);
        }
        fputc(']', file);
    }
    fputc(']', file);
}

/* All that is received is one of forward, backward, evaluate and reduce; the first three by layer, too. */
static void put_bytes(json_t *all, const struct fleet_report *report)
{
    uint64_t sum[TRAFFIC_N_WHAT] = {0}, payloads = 0;
    json_t *layers = json_array();
    for (int l = 0; l < report->n_layer; l++) {
        json_t *layer = json_array();
        for (int what = 0; what < TRAFFIC_N_WHAT; what++) {
            sum[what] += report->layer[l][what];
            payloads += report->layer[l][what];
            json_array_append_new(layer, json_integer((json_int_t)report->layer[l][what]));
        }
        json_array_append_new(layers, layer);
    }
    json_object_set_new(all, "bytes_sent", json_integer((json_int_t)report->bytes_sent));
    json_object_set_new(all, "bytes_received", json_integer((json_int_t)report->bytes_received));
    json_object_set_new(all, "bytes_forward", json_integer((json_int_t)sum[TRAFFIC_FORWARD]));
    json_object_set_new(all, "bytes_backward", json_integer((json_int_t)sum[TRAFFIC_BACKWARD]));
    json_object_set_new(all, "bytes_evaluate", json_integer((json_int_t)sum[TRAFFIC_EVALUATE]));
    json_object_set_new(all, "bytes_reduce", json_integer((json_int_t)(report->bytes_received - payloads)));
    json_object_set_new(all, "bytes_layers", layers);
}

/* Of the last comparison of gradients. */
static void put_guard(json_t *all, const struct checkpoint_state *state)
{
    json_object_set_new(all, "back_offs", json_integer(state->n_back_off));
    json_object_set_new(all, "guard_epoch", state->guard_epoch >= 0 ? json_integer(state->guard_epoch) : json_null());
    json_object_set_new(all, "guard_loss", number_json(state->guard_loss));
    json_object_set_new(all, "guard_error", number_json(state->guard_error));
    json_object_set_new(all, "guard_cosine", number_json(state->guard_cosine));
}

static json_t *epoch_json(const struct metrics_epoch *epoch)
{
    const struct fleet_report *report = epoch->report;
    json_t *all = json_object();
    json_object_set_new(all, "epoch", json_integer(epoch->epoch));
    json_object_set_new(all, "metric", json_string(score_name(epoch->metrics->of[0])));
    report_score(all, epoch->job, epoch->metrics, &epoch->score);
    json_object_set_new(all, "lr", number_json(epoch->lr));
    json_object_set_new(all, "epoch_s", number_json(report->epoch_s));
    json_object_set_new(all, "compute_s", number_json(report->compute_s));
    json_object_set_new(all, "pack_s", number_json(report->pack_s));
    json_object_set_new(all, "wait_s", number_json(report->wait_s));
    json_object_set_new(all, "evaluate_s", number_json(report->evaluate_s));
    put_bytes(all, report);
    if (epoch->job->train.clip_norm > 0.0) {
        json_object_set_new(all, "grad_norm", number_json(report->grad_norm));
    }
    if (epoch->job->exchange.guard_every > 0) {
        put_guard(all, epoch->state);
    }
    json_object_set_new(all, "rollbacks", json_integer(epoch->state->n_rollback));
    json_object_set_new(all, "time", json_real(floor(1e3 * clock_wall_s()) / 1e3));
    return all;
}

enum status metrics_write(struct output *output, const struct metrics_epoch *epoch)
{
    json_t *all = epoch_json(epoch);
    char *text = json_dumps(all, JSON_COMPACT), *line = NULL;
    size_t n_line = 0;
    FILE *file = open_memstream(&line, &n_line);
    ASSERT(text != NULL && file != NULL);
    fwrite(text, 1, strlen(text) - 1, file); /* all but the last brace */
    put_times(file, epoch->fleet, epoch->job->workers.count);
    fputs("}\n", file);
    fclose(file);
    enum status status = output_metrics_append(output, line, n_line);
    free(line);
    free(text);
    json_decref(all);
    return status;
}
