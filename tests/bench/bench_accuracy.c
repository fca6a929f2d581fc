/* Test metrics of the jobs in configs/, mean over seeds, against the published ones; and what sampled and coded rows between eight parts cost
 * some of them, against the same seeds without. Runs the programs beside it.
 *
 *   usage: bench_accuracy [NAME ...]      names of configs/, without .toml, or "lossy"; all when none is given
 */
#include "tests/bench/bench.h"

#include <jansson.h>
#include <libgen.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* A job whose rows are sampled or coded. */
struct lossy {
    const char *config, *dataset;
    const char *name, *settings; /* of the job without what is lost */
    int n_seed;
};

static const struct lossy lossies[] = {
    {"cora-sage", "cora", "cora, sage", "", 10},
    {"cora-gcn", "cora", "cora, gcn", "", 10},
    {"cora-gat", "cora", "cora, gat", "", 10},
    {"coauthor-cs-sage", "coauthor_cs", "coauthor_cs, sage", "", 10},
    {"coauthor-cs-gcn", "coauthor_cs", "coauthor_cs, gcn", "", 10},
    {"coauthor-cs-gat", "coauthor_cs", "coauthor_cs, gat", "", 10},
    {"amazon-photo-sage", "amazon_photo", "amazon_photo, sage", "", 10},
    {"amazon-photo-gcn", "amazon_photo", "amazon_photo, gcn", "", 10},
    {"amazon-photo-gat", "amazon_photo", "amazon_photo, gat", "", 10},
    {"tolokers-sage", "tolokers", "tolokers, sage", "", 10},
    {"tolokers-gcn", "tolokers", "tolokers, gcn", "", 10},
    {"tolokers-gcn", "tolokers", "tolokers, gat", "--set model.kind=gat", 10},
};

/* What is lost, and the most points that it may cost on average: SAGE, and GCN and GAT. */
static const struct {
    const char *name, *settings;
    double sage, other; /* 0: a figure to watch, without a bar */
} losses[] = {
    {"p = 0.1", "--set exchange.sampling=0.1", 0.5, 1.0},
    {"int8", "--set exchange.codec=int8", 0.5, 0.5},
    {"int4", "--set exchange.codec=int4", 1.0, 1.5},
    {"int2", "--set exchange.codec=int2", 0.0, 0.0},
    {"p = 0.1, int8", "--set exchange.sampling=0.1 --set exchange.codec=int8", 0.0, 0.0},
};

#define N_LOSS (sizeof losses / sizeof *losses)
#define N_SEED_MOST 10

static const char *shared(void)
{
    const char *folder = getenv("TRAINERD_SHARED");
    return folder != NULL ? folder : "../shared";
}

/* Run one seed; the test metric of the epoch that was best on the valid split, or -1. */
static double seed_run(const char *bin, const char *config, const char *dataset, const char *settings, int seed,
                       const char *out)
{
    char command[4096], data[2048] = "";
    if (dataset != NULL) {
        snprintf(data, sizeof data, "--set dataset.path=%s/datasets/%s", shared(), dataset);
    }
    snprintf(command, sizeof command,
             "%s/trainerd --config configs/%s.toml %s %s --set train.seed=%d --set output.dir=%s 2>%s.log", bin,
             config, data, settings, seed, out, out);
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
        double metric = seed_run(bin, experiment->config, experiment->dataset, "", seed, out);
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

/* --- what is lost --- */

/* Points that each seed loses, by loss; the mean of the seeds without. -1: a job failed. */
static double losses_run(const char *bin, const char *folder, const struct lossy *lossy,
                         double lost[N_LOSS][N_SEED_MOST])
{
    double sum = 0.0;
    for (int seed = 0; seed < lossy->n_seed; seed++) {
        char out[1024], settings[512];
        snprintf(out, sizeof out, "%s/%s", folder, lossy->config);
        snprintf(settings, sizeof settings, "--set partition.parts=8 %s", lossy->settings);
        double exact = seed_run(bin, lossy->config, lossy->dataset, settings, seed + 1, out);
        sum += 100.0 * exact;
        for (size_t l = 0; l < N_LOSS && exact >= 0.0; l++) {
            snprintf(settings, sizeof settings, "--set partition.parts=8 %s %s", lossy->settings, losses[l].settings);
            double metric = seed_run(bin, lossy->config, lossy->dataset, settings, seed + 1, out);
            lost[l][seed] = 100.0 * (exact - metric);
            exact = metric < 0.0 ? -1.0 : exact;
        }
        if (exact < 0.0) {
            return -1.0;
        }
    }
    return sum / lossy->n_seed;
}

/* Mean and standard error of paired seeds. */
static int lossy_run(const char *bin, const char *folder, const struct lossy *lossy)
{
    double lost[N_LOSS][N_SEED_MOST], exact = losses_run(bin, folder, lossy, lost);
    int n = lossy->n_seed, n_missed = 0;
    if (exact < 0.0) {
        return 1;
    }
    for (size_t l = 0; l < N_LOSS; l++) {
        double sum = 0.0, square = 0.0, bar = strstr(lossy->name, "sage") != NULL ? losses[l].sage : losses[l].other;
        for (int s = 0; s < n; s++) {
            sum += lost[l][s];
            square += lost[l][s] * lost[l][s];
        }
        double mean = sum / n, error = sqrt(fmax(0.0, square / n - mean * mean) / (n - 1));
        char figure[96], wanted[32] = "-";
        snprintf(figure, sizeof figure, "%s, %s, points lost, %d seeds", lossy->name, losses[l].name, n);
        if (bar > 0.0) {
            snprintf(wanted, sizeof wanted, "<= %.2f%s", bar, mean <= bar ? "" : "  MISSED");
        }
        n_missed += bar > 0.0 && mean > bar;
        printf("%-56s | %7.2f      | %7.2f %%    | +-%4.2f | %s\n", figure, mean, exact, error, wanted);
        fflush(stdout);
    }
    return n_missed;
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
    for (size_t e = 0; e < sizeof lossies / sizeof *lossies; e++) {
        if (is_asked_for(argc, argv, "lossy")) {
            n_missed += lossy_run(bin, folder, &lossies[e]);
        }
    }
    char command[1100];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return n_missed > 0 || system(command) != 0;
}
