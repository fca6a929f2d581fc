#include "trainerd/coordinator/results/metrics.h"

#include "protocol/clock.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define N_NUMBER 9

static void put_number(FILE *file, const char *name, double value)
{
    if (isfinite(value)) {
        fprintf(file, ",\"%s\":%.17g", name, value);
    } else {
        fprintf(file, ",\"%s\":null", name);
    }
}

enum status metrics_write(struct output *output, struct tensorboard *tensorboard, const struct metrics_epoch *epoch)
{
    const struct fleet_report *report = epoch->report;
    const struct {
        const char *key, *tag;
        double value;
    } numbers[N_NUMBER] = {
        {"loss", "loss/train", epoch->score.loss},
        {"train_metric", "metric/train", epoch->score.train},
        {"valid_metric", "metric/valid", epoch->score.valid},
        {"test_metric", "metric/test", epoch->score.test},
        {"lr", "lr", epoch->lr},
        {"epoch_s", "seconds/epoch", report->epoch_s},
        {"compute_s", "seconds/compute", report->compute_s},
        {"wait_s", "seconds/wait", report->wait_s},
        {"evaluate_s", "seconds/evaluate", report->evaluate_s},
    };
    char line[1024];
    double time = clock_wall_s();
    struct tensorboard_scalar scalars[N_NUMBER + 1];
    FILE *file = fmemopen(line, sizeof line, "w");
    fprintf(file, "{\"epoch\":%lld", (long long)epoch->epoch);
    for (int i = 0; i < N_NUMBER; i++) {
        put_number(file, numbers[i].key, numbers[i].value);
        scalars[i] = (struct tensorboard_scalar){numbers[i].tag, numbers[i].value};
    }
    scalars[N_NUMBER] = (struct tensorboard_scalar){"bytes/received", (double)report->bytes_received};
    fprintf(file, ",\"bytes_sent\":%llu,\"bytes_received\":%llu,\"rollbacks\":%lld,\"time\":%.3f}\n",
            (unsigned long long)report->bytes_sent, (unsigned long long)report->bytes_received, (long long)epoch->n_rollback,
            time);
    fclose(file);
    enum status status = output_metrics_append(output, line, strlen(line));
    return status == STATUS_OK ? tensorboard_write(tensorboard, epoch->epoch, time, scalars, N_NUMBER + 1) : status;
}
