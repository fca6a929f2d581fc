/* A job whose activations are three times memory.limit, spilled, against the same job in memory: seconds per epoch, and the peak of
 * the resident set against the limit. Runs the programs beside it.
 *
 *   usage: bench_spill [DIR]      the folder to spill into; by default one below /tmp
 */
#include "tests/bench/bench.h"
#include "tests/bench/bench_job.h"

static const char job[] =
    "[dataset]\ngenerator = \"sbm\"\nnodes = 120000\ndegree = 8\nclasses = 120\nhomophily = 0.9\nfeatures = 64\n"
    "[partition]\nparts = 16\nmethod = \"metis\"\n[model]\nkind = \"sage\"\nhidden = 512\nlayers = 4\n"
    "dropout = 0.5\n[train]\nepochs = 1\neval_every = 0\n[memory]\nrecompute = \"never\"\n";

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

int main(int argc, char **argv)
{
    char settings[BENCH_TEXT_BYTES], figure[128];
    bench_job_open(job);
    struct outcome plain = run("");
    double limit = plain.activations / 3;
    snprintf(settings, sizeof settings, "--set memory.limit=%.0f --set memory.spill=%s", limit,
             argc > 1 ? argv[1] : bench_folder);
    struct outcome spilled = run(settings);
    bench_header();
    snprintf(figure, sizeof figure, "epoch, activations 3 x memory.limit of %.0f MB, spilled", 1e-6 * limit);
    bench_line(figure, spilled.epoch_s, "s", plain.epoch_s, spilled.epoch_s / plain.epoch_s, 0.0);
    bench_line("memory.limit against the worker's resident peak", 1e-6 * limit, "MB", 1e-6 * spilled.resident,
               limit / spilled.resident, 1 / 1.1);
    return bench_job_close();
}
