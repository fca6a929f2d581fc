/* Jobs whose activations are more than memory.limit, spilled, against the same jobs in memory: seconds per epoch, and the peak of the
 * resident set against the limit. Runs the programs beside it.
 *
 *   usage: bench_spill [DIR]      the folder to spill into; by default one below /tmp
 */
#include "tests/bench/bench.h"
#include "tests/bench/bench_job.h"

static const char job[] =
    "[dataset]\ngenerator = \"sbm\"\nnodes = 120000\ndegree = 8\nclasses = 120\nhomophily = 0.9\nfeatures = 64\n"
    "[partition]\nparts = 16\nmethod = \"metis\"\n[model]\nkind = \"sage\"\nhidden = 512\nlayers = 4\n"
    "dropout = 0.5\n[train]\nepochs = 1\neval_every = 0\n[memory]\nrecompute = \"never\"\n";

/* Settings beside the job's, and activations over the limit. */
static const struct {
    const char *name, *settings;
    double times;
} jobs[] = {{"SAGE 4 x 512, 3 x the limit", "", 3.0},
            {"SAGE 3 x 256, 2.4 x the limit",
             "--set model.layers=3 --set model.hidden=256 --set dataset.nodes=100000 --set dataset.degree=30 --set "
             "dataset.classes=8 --set partition.parts=8 --set train.epochs=3",
             2.4},
            {"GCN 3 x 256, 2.4 x the limit",
             "--set model.kind=gcn --set model.layers=3 --set model.hidden=256 --set dataset.nodes=100000 --set "
             "dataset.degree=30 --set dataset.classes=8 --set partition.parts=8 --set train.epochs=3",
             2.4}};

struct outcome {
    double epoch_s, activations, resident;
};

static struct outcome run(const char *settings)
{
    json_t *result = bench_job_run(settings), *memory = json_array_get(json_object_get(result, "memory"), 0);
    struct outcome out = {
        .epoch_s = json_number_value(json_object_get(json_object_get(result, "seconds"), "epoch_mean")),
        .activations = json_number_value(json_object_get(json_object_get(memory, "planned"), "activations")),
        .resident = json_number_value(json_object_get(memory, "resident_peak"))};
    json_decref(result);
    return out;
}

static void compare(int j, const char *folder)
{
    char settings[BENCH_TEXT_BYTES], figure[128];
    struct outcome plain = run(jobs[j].settings);
    double limit = plain.activations / jobs[j].times;
    snprintf(settings, sizeof settings, "%s --set memory.limit=%.0f --set memory.spill=%s", jobs[j].settings, limit,
             folder);
    struct outcome spilled = run(settings);
    snprintf(figure, sizeof figure, "epoch, %s of %.0f MB, spilled", jobs[j].name, 1e-6 * limit);
    bench_line(figure, spilled.epoch_s, "s", plain.epoch_s, spilled.epoch_s / plain.epoch_s, 0.0);
    bench_line("memory.limit against the worker's resident peak", 1e-6 * limit, "MB", 1e-6 * spilled.resident,
               limit / spilled.resident, 1 / 1.08);
}

int main(int argc, char **argv)
{
    bench_job_open(job);
    bench_header();
    for (int j = 0; j < (int)(sizeof jobs / sizeof *jobs); j++) {
        compare(j, argc > 1 ? argv[1] : bench_folder);
    }
    return bench_job_close();
}
