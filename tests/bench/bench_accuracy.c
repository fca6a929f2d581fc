/* Test metrics of the jobs in configs/, mean over seeds, against the published ones. Runs the programs beside it.
 *
 *   usage: bench_accuracy [NAME ...]      names of configs/, without .toml; all when none is given
 */
#include "tests/bench/bench.h"

#include <jansson.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct experiment {
    const char *config;  /* configs/<config>.toml */
    const char *dataset; /* folder of the real graphs; NULL: the job's own generator */
    int n_seed;
    double published; /* percent; 0: none */
    double bar;
};

static const struct experiment experiments[] = {
    {"cora-gcn", "cora", 10, 81.5, 81.0},
    {"citeseer-gcn", "citeseer", 10, 70.3, 69.8},
    {"cora-sage", "cora", 10, 0.0, 79.0},
    {"cora-appnp", "cora", 10, 83.3, 82.0},
    {"cora-gat", "cora", 10, 83.0, 82.3},
    {"citeseer-gat", "citeseer", 10, 72.5, 71.0},
    {"cora-agnn", "cora", 10, 83.1, 82.0},
    {"cora-deep-gcn", "cora", 3, 0.0, 78.5},
    {"amazon-photo-gcn", "amazon_photo", 3, 96.1, 95.1},
    {"amazon-photo-sage", "amazon_photo", 3, 96.8, 95.8},
    {"amazon-photo-gat", "amazon_photo", 3, 96.6, 95.6},
    {"coauthor-cs-gcn", "coauthor_cs", 3, 96.2, 95.2},
    {"coauthor-cs-sage", "coauthor_cs", 3, 96.4, 95.4},
    {"coauthor-cs-gat", "coauthor_cs", 3, 96.2, 95.2},
    {"coauthor-physics-gcn", "coauthor_physics", 3, 97.5, 96.5},
    {"coauthor-physics-sage", "coauthor_physics", 3, 97.2, 96.2},
    {"tolokers-gcn", "tolokers", 3, 83.6, 82.6},
    {"tolokers-sage", "tolokers", 3, 82.4, 81.4},
    {"minesweeper-gcn", "minesweeper", 3, 97.9, 96.9},
    {"minesweeper-sage", "minesweeper", 3, 97.8, 96.8},
    {"acm-psp-sage", "acm_psp", 3, 83.8, 83.0},
    {"aifb-rgcn", "aifb", 10, 95.8, 93.0},
    {"hgb-acm-rgcn", "hgb_acm", 3, 91.4, 90.5},
    {"hgb-imdb-rgcn", "hgb_imdb", 3, 62.1, 61.0},
    {"sbm-multilabel-sage", NULL, 3, 100.0, 95.0},
};

static const char *shared(void)
{
    const char *folder = getenv("TRAINERD_SHARED");
    return folder != NULL ? folder : "../shared";
}

/* Run one seed; the test metric of the epoch that was best on the valid split, or -1. */
static double seed_run(const char *bin, const struct experiment *experiment, int seed, const char *out)
{
    char command[4096], data[2048] = "";
    if (experiment->dataset != NULL) {
        snprintf(data, sizeof data, "--set dataset.path=%s/datasets/%s", shared(), experiment->dataset);
    }
    snprintf(command, sizeof command,
             "%s/trainerd --config configs/%s.toml %s --set train.seed=%d --set output.dir=%s 2>%s.log", bin,
             experiment->config, data, seed, out, out);
    if (system(command) != 0) {
        fprintf(stderr, "failed, see %s.log: %s\n", out, command);
        return -1.0;
    }
    char path[2048];
    snprintf(path, sizeof path, "%s/result.json", out);
    json_t *result = json_load_file(path, 0, NULL);
    double metric = json_number_value(json_object_get(json_object_get(result, "best"), "test_metric"));
    json_decref(result);
    return metric;
}

static int experiment_run(const char *bin, const char *folder, const struct experiment *experiment)
{
    double sum = 0.0;
    for (int seed = 1; seed <= experiment->n_seed; seed++) {
        char out[1024];
        snprintf(out, sizeof out, "%s/%s.%d", folder, experiment->config, seed);
        double metric = seed_run(bin, experiment, seed, out);
        if (metric < 0.0) {
            return 1;
        }
        sum += 100.0 * metric;
    }
    double mean = sum / experiment->n_seed;
    char figure[64], published[32] = "-", ratio[16] = "-";
    snprintf(figure, sizeof figure, "%s, mean of %d seeds", experiment->config, experiment->n_seed);
    if (experiment->published > 0.0) {
        snprintf(published, sizeof published, "%7.2f %%   ", experiment->published);
        snprintf(ratio, sizeof ratio, "%6.3f", mean / experiment->published);
    }
    printf("%-56s | %7.2f %%    | %12s | %6s | >= %.2f%s\n", figure, mean, published, ratio, experiment->bar,
           mean >= experiment->bar ? "" : "  MISSED");
    fflush(stdout);
    return mean >= experiment->bar ? 0 : 1;
}

static int is_asked_for(int argc, char **argv, const char *name)
{
    for (int a = 1; a < argc; a++) {
        if (strcmp(argv[a], name) == 0) {
            return 1;
        }
    }
    return argc == 1;
}

int main(int argc, char **argv)
{
    char self[1024];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0) {
        return 1;
    }
    self[n] = '\0';
    char folder[] = "/tmp/bench-accuracy-XXXXXX";
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    const char *bin = dirname(self);
    int n_missed = 0;
    bench_header();
    for (size_t e = 0; e < sizeof experiments / sizeof *experiments; e++) {
        if (is_asked_for(argc, argv, experiments[e].config)) {
            n_missed += experiment_run(bin, folder, &experiments[e]);
        }
    }
    char command[1100];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return n_missed > 0 || system(command) != 0;
}
