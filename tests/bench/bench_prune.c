/* Pruned epochs against epochs of all rows: 100 000 nodes of a planted-community graph, mean degree 20, one in a hundred a training
 * node, four parts by METIS on two workers. Seconds per epoch (the shortest of a job) and bytes on the wire. Runs the programs beside
 * it.
 */
#include "tests/bench/bench.h"
#include "tests/bench/bench_job.h"

static const char job[] =
    "[dataset]\ngenerator = \"sbm\"\nnodes = 100000\ndegree = 10\nclasses = 20\nhomophily = 0.9\nfeatures = 64\n"
    "train_share = 0.01\n[partition]\nparts = 4\nmethod = \"metis\"\n[model]\nhidden = 128\ndropout = 0.5\n"
    "[train]\nepochs = 6\neval_every = 0\n[workers]\ncount = 2\n";

struct outcome {
    double epoch_s, n_bytes, left_out;
};

/* The last epoch's time includes the evaluation, so that it does not count. */
static void metrics_read(struct outcome *out)
{
    char line[4096];
    json_t *before = NULL;
    FILE *file = fopen(bench_path("o/metrics.jsonl"), "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        double epoch_s = json_number_value(json_object_get(before, "epoch_s"));
        if (before != NULL && (out->epoch_s == 0.0 || epoch_s < out->epoch_s)) {
            out->epoch_s = epoch_s;
            out->n_bytes = json_number_value(json_object_get(before, "bytes_received"));
        }
        json_decref(before);
        before = json_loads(line, 0, NULL);
    }
    json_decref(before);
    if (file != NULL) {
        fclose(file);
    }
}

static struct outcome run(const char *settings, const char *prune)
{
    char all[512];
    snprintf(all, sizeof all, "--set train.prune=%s %s", prune, settings);
    json_t *result = bench_job_run(all);
    struct outcome out = {.left_out = json_number_value(json_object_get(result, "left_out"))};
    json_decref(result);
    metrics_read(&out);
    return out;
}

int main(void)
{
    static const struct {
        const char *figure, *settings;
    } models[] = {
        {"sage, 2 layers", "--set model.kind=sage --set model.layers=2"},
        {"sage, 3 layers", "--set model.kind=sage --set model.layers=3"},
        {"gat, 2 layers", "--set model.kind=gat --set model.heads=4 --set model.hidden=32 --set model.layers=2"}};
    char figure[128];
    bench_job_open(job);
    bench_header();
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct outcome all = run(models[i].settings, "never"), needed = run(models[i].settings, "always");
        snprintf(figure, sizeof figure, "epoch, %s, %.0f %% left out", models[i].figure, 100.0 * needed.left_out);
        bench_line(figure, needed.epoch_s, "s", all.epoch_s, all.epoch_s / needed.epoch_s, 0.0);
        snprintf(figure, sizeof figure, "traffic, %s", models[i].figure);
        bench_line(figure, 1e-6 * needed.n_bytes, "MB", 1e-6 * all.n_bytes, all.n_bytes / needed.n_bytes, 0.0);
    }
    return bench_job_close();
}
