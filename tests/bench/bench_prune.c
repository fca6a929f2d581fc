/* Epochs that leave out what their loss does not depend on, against epochs of all rows: 100 000 nodes of a planted-community graph,
 * mean degree 20, one in a hundred trained on, four parts by METIS on two workers. Seconds per epoch (the shortest of a job's) and
 * bytes on the wire. Runs the programs that lie beside.
 */
#include "tests/bench/bench.h"

#include <jansson.h>
#include <libgen.h>
#include <string.h>
#include <unistd.h>

#define TEXT_BYTES 2048

static const char job[] = "[dataset]\ngenerator = \"sbm\"\nnodes = 100000\ndegree = 10\nclasses = 20\nhomophily = 0.9\nfeatures = 64\n"
                          "train_share = 0.01\n[partition]\nparts = 4\nmethod = \"metis\"\n[model]\nhidden = 128\ndropout = 0.5\n"
                          "[train]\nepochs = 6\neval_every = 0\n[workers]\ncount = 2\n";

struct outcome {
    double epoch_s, n_bytes, left_out;
};

/* The last epoch is followed by the evaluation: it does not count. */
static void metrics_read(const char *path, struct outcome *out)
{
    char line[4096];
    json_t *before = NULL;
    FILE *file = fopen(path, "r");
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

/* Run it with further settings; false: it failed and said why. */
static int run(const char *bin, const char *folder, const char *settings, const char *prune, struct outcome *out)
{
    char command[3 * TEXT_BYTES], path[TEXT_BYTES];
    snprintf(command, sizeof command, "%s/trainerd --config %s/job.toml --set output.dir=%s/o --set train.prune=%s %s 2>%s/log", bin,
             folder, folder, prune, settings, folder);
    if (system(command) != 0) {
        fprintf(stderr, "failed, see %s/log: %s\n", folder, command);
        return 0;
    }
    *out = (struct outcome){0};
    snprintf(path, sizeof path, "%s/o/metrics.jsonl", folder);
    metrics_read(path, out);
    snprintf(path, sizeof path, "%s/o/result.json", folder);
    json_t *result = json_load_file(path, 0, NULL);
    out->left_out = json_number_value(json_object_get(result, "left_out"));
    json_decref(result);
    return 1;
}

int main(void)
{
    static const struct {
        const char *figure, *settings;
    } models[] = {{"sage, 2 layers", "--set model.kind=sage --set model.layers=2"},
                  {"sage, 3 layers", "--set model.kind=sage --set model.layers=3"},
                  {"gat, 2 layers", "--set model.kind=gat --set model.heads=4 --set model.hidden=32 --set model.layers=2"}};
    char self[TEXT_BYTES], folder[] = "/tmp/bench-prune-XXXXXX", path[TEXT_BYTES], figure[128];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0 || mkdtemp(folder) == NULL) {
        return 1;
    }
    self[n] = '\0';
    const char *bin = dirname(self);
    snprintf(path, sizeof path, "%s/job.toml", folder);
    FILE *file = fopen(path, "w");
    if (file == NULL || fputs(job, file) < 0 || fclose(file) != 0) {
        return 1;
    }
    bench_header();
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct outcome all, needed;
        if (!run(bin, folder, models[i].settings, "never", &all) || !run(bin, folder, models[i].settings, "always", &needed)) {
            return 1;
        }
        snprintf(figure, sizeof figure, "epoch, %s, %.0f %% left out", models[i].figure, 100.0 * needed.left_out);
        bench_line(figure, needed.epoch_s, "s", all.epoch_s, all.epoch_s / needed.epoch_s, 0.0);
        snprintf(figure, sizeof figure, "traffic, %s", models[i].figure);
        bench_line(figure, 1e-6 * needed.n_bytes, "MB", 1e-6 * all.n_bytes, all.n_bytes / needed.n_bytes, 0.0);
    }
    snprintf(path, sizeof path, "rm -r %s", folder);
    return system(path) == 0 ? 0 : 1;
}
