/* A job whose activations are three times memory.limit, spilled, against the same job in memory: seconds per epoch, and the most
 * that was resident against the limit. Runs the programs that lie beside.
 *
 *   usage: bench_spill [DIR]      where it spills; the system's temporary folder when none is given
 */
#include "tests/bench/bench.h"

#include <jansson.h>
#include <libgen.h>
#include <string.h>
#include <unistd.h>

#define TEXT_BYTES 2048

static const char job[] = "[dataset]\ngenerator = \"sbm\"\nnodes = 120000\ndegree = 8\nclasses = 120\nhomophily = 0.9\nfeatures = 64\n"
                          "[partition]\nparts = 16\nmethod = \"metis\"\n[model]\nkind = \"sage\"\nhidden = 512\nlayers = 4\n"
                          "dropout = 0.5\n[train]\nepochs = 1\neval_every = 0\n[memory]\nrecompute = \"never\"\n";

struct outcome {
    double epoch_s, activations, resident, spilled;
};

/* Run it with further settings; false: it failed and said why. */
static int run(const char *bin, const char *folder, const char *settings, struct outcome *out)
{
    char command[3 * TEXT_BYTES], path[TEXT_BYTES];
    snprintf(command, sizeof command, "%s/trainerd --config %s/job.toml --set output.dir=%s/o %s 2>%s/log", bin, folder, folder,
             settings, folder);
    if (system(command) != 0) {
        fprintf(stderr, "failed, see %s/log: %s\n", folder, command);
        return 0;
    }
    snprintf(path, sizeof path, "%s/o/result.json", folder);
    json_t *result = json_load_file(path, 0, NULL), *memory = json_array_get(json_object_get(result, "memory"), 0);
    *out = (struct outcome){
        .epoch_s = json_number_value(json_object_get(json_object_get(result, "seconds"), "epoch_mean")),
        .activations = json_number_value(json_object_get(json_object_get(memory, "planned"), "activations")),
        .resident = json_number_value(json_object_get(memory, "resident_peak")),
        .spilled = json_number_value(json_object_get(memory, "spilled"))};
    json_decref(result);
    return 1;
}

int main(int argc, char **argv)
{
    char self[TEXT_BYTES], folder[] = "/tmp/bench-spill-XXXXXX", path[TEXT_BYTES], settings[TEXT_BYTES], figure[128];
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
    struct outcome plain, spilled;
    if (!run(bin, folder, "", &plain)) {
        return 1;
    }
    double limit = plain.activations / 3;
    snprintf(settings, sizeof settings, "--set memory.limit=%.0f --set memory.spill=%s", limit, argc > 1 ? argv[1] : folder);
    if (!run(bin, folder, settings, &spilled)) {
        return 1;
    }
    bench_header();
    snprintf(figure, sizeof figure, "epoch, activations 3 x memory.limit of %.0f MB, spilled", 1e-6 * limit);
    bench_line(figure, spilled.epoch_s, "s", plain.epoch_s, spilled.epoch_s / plain.epoch_s, 0.0);
    bench_line("memory.limit against the most of the worker resident", 1e-6 * limit, "MB", 1e-6 * spilled.resident,
               limit / spilled.resident, 1 / 1.1);
    snprintf(settings, sizeof settings, "rm -r %s", folder);
    return system(settings) == 0 ? 0 : 1;
}
