/* Bytes of an epoch's payloads (mean of 20, what reduces gradients taken off) where a tenth of the boundary rows is sent or rows are sent in low
 * precision, against all rows in float32; of exact epochs against a plain exchange, in all and by technique, and with many parts against few; and seconds of an epoch on four machines whose links carry 100 Mbit/s (scripts/netlab, where network
 * namespaces are allowed). Ratios are how many times less. Runs the programs beside it; data sets as bench_accuracy.
 */
#include "tests/bench/bench.h"

#include <jansson.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BENCH_TEXT_BYTES 2048

static char bench_folder[] = "/tmp/bench-job-XXXXXX";

/* The path of a file of the folder, until the next call. */
static const char *bench_path(const char *name)
{
    static char path[BENCH_TEXT_BYTES];
    snprintf(path, sizeof path, "%s/%s", bench_folder, name);
    return path;
}

/* Make the folder and write the job file. */
static void bench_job_open(const char *text)
{
    FILE *file = mkdtemp(bench_folder) != NULL ? fopen(bench_path("job.toml"), "w") : NULL;
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0) {
        perror(bench_folder);
        exit(1);
    }
}

/* Run a program beside the benchmark, what it prints going to a file of the folder; one that fails ends the benchmark. */
static void bench_program(const char *arguments, const char *settings, const char *out)
{
    char self[BENCH_TEXT_BYTES], command[3 * BENCH_TEXT_BYTES];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    snprintf(command, sizeof command, "%s/trainerd %s %s/job.toml --set output.dir=%s/o %s >%s/%s 2>%s/log",
             dirname(self), arguments, bench_folder, bench_folder, settings, bench_folder, out, bench_folder);
    if (system(command) != 0) {
        fprintf(stderr, "failed, see %s/log: %s\n", bench_folder, command);
        exit(1);
    }
}

static json_t *bench_json(const char *name)
{
    json_t *value = json_load_file(bench_path(name), 0, NULL);
    if (value == NULL) {
        fprintf(stderr, "%s: expected JSON\n", bench_path(name));
        exit(1);
    }
    return value;
}

/* Run the job with further settings; returns its result.json; its other files are in "o". */
static json_t *bench_job_run(const char *settings)
{
    bench_program("--config", settings, "printed");
    return bench_json("o/result.json");
}

/* What --plan says of the job with further settings. */
static json_t *bench_job_plan(const char *settings)
{
    bench_program("--json --plan", settings, "printed");
    return bench_json("printed");
}

/* Remove the folder; returns main's exit code. */
static int bench_job_close(void)
{
    char command[BENCH_TEXT_BYTES];
    snprintf(command, sizeof command, "rm -r %s", bench_folder);
    return system(command) == 0 ? 0 : 1;
}

static const char job[] =
    "[partition]\nparts = 4\n[model]\nlayers = 3\nhidden = 32\n[train]\nepochs = 21\neval_every = 0\n"
    "prune = \"never\"\n[workers]\ncount = 4\nthreads = 1\n";

#define SBM                                                                                                          \
    "--set dataset.generator=sbm --set dataset.nodes=100000 --set dataset.degree=30 --set dataset.classes=8 "        \
    "--set dataset.features=64 "

static const char *physics(void)
{
    static char text[512];
    const char *folder = getenv("TRAINERD_SHARED");
    snprintf(text, sizeof text, "--set dataset.path=%s/datasets/coauthor_physics ",
             folder != NULL ? folder : "../shared");
    return text;
}

/* Mean bytes of the epochs but the last, which evaluates. */
static double epoch_bytes(const char *settings)
{
    json_decref(bench_job_run(settings));
    char line[4096];
    double sum = 0.0, last = 0.0;
    int n = 0;
    FILE *file = fopen(bench_path("o/metrics.jsonl"), "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        json_t *epoch = json_loads(line, 0, NULL);
        sum += last;
        last = json_number_value(json_object_get(epoch, "bytes_received"));
        json_decref(epoch);
        n++;
    }
    if (file != NULL) {
        fclose(file);
    }
    return n > 1 ? sum / (n - 1) : 0.0;
}

struct layout {
    int parts, workers;
};

static double lossy_bytes(const char *data, const char *model, struct layout layout, const char *loss)
{
    char settings[1024];
    snprintf(settings, sizeof settings, "%s --set partition.parts=%d --set workers.count=%d %s %s", data,
             layout.parts, layout.workers, model, loss);
    return epoch_bytes(settings);
}

/* Payloads alone: less those of an epoch that sends none. Against all rows that travel without covers. */
static void share_print(const char *name, const char *data, const char *model, struct layout layout, const char *loss,
                        double bar)
{
    char figure[128];
    double none = lossy_bytes(data, model, layout, "--set exchange.sampling=0.0"),
           all = lossy_bytes(data, model, layout, "--set exchange.cover=false") - none;
    double some = lossy_bytes(data, model, layout, loss) - none;
    snprintf(figure, sizeof figure, "%s, %d parts on %d workers", name, layout.parts, layout.workers);
    bench_line(figure, 1e-6 * some, "MB", 1e-6 * all, all / some, bar);
}

static void samples_print(void)
{
    static const struct {
        const char *name, *settings;
        double bar; /* 1 / 0.105 and 1 / 0.16 */
    } models[] = {{"sage", "--set model.kind=sage", 9.52},
                  {"gcn", "--set model.kind=gcn", 9.52},
                  {"gat, 4 heads", "--set model.kind=gat --set model.heads=4 --set model.hidden=16", 6.25}};
    for (int graph = 0; graph < 2; graph++) {
        for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
            static const struct layout layouts[] = {{4, 4}, {8, 8}, {8, 4}};
            for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++) {
                char name[64];
                bool alone = layouts[l].parts == layouts[l].workers; /* else what returns is each part's own */
                snprintf(name, sizeof name, "p = 0.1, %s, %s", graph == 0 ? "sbm" : "physics", models[m].name);
                share_print(name, graph == 0 ? SBM : physics(), models[m].settings, layouts[l],
                            "--set exchange.sampling=0.1", alone ? models[m].bar : 0.0);
            }
        }
    }
}

/* At 256 columns in every layer. */
static void codecs_print(void)
{
    static const struct {
        const char *codec;
        double bar;
    } codecs[] = {{"bf16", 2.0}, {"int8", 1.0 / 0.255}, {"int4", 1.0 / 0.130}, {"int2", 1.0 / 0.067}};
    for (size_t k = 0; k < sizeof codecs / sizeof *codecs; k++) {
        char loss[64];
        snprintf(loss, sizeof loss, "--set exchange.codec=%s", codecs[k].codec);
        share_print(
            codecs[k].codec,
            "--set dataset.generator=sbm --set dataset.nodes=20000 --set dataset.degree=10 --set "
            "dataset.features=256 --set train.epochs=3",
            "--set model.kind=sage --set model.hidden=256 --set model.linear_layers=1 --set model.input_dropout=0.2",
            (struct layout){4, 4}, loss, codecs[k].bar);
    }
}

/* --plan's figures of a job with as many workers as parts. */
static json_t *plan_of(const char *data, const char *model, int parts, const char *loss)
{
    char settings[1024];
    snprintf(settings, sizeof settings, "%s %s --set partition.parts=%d --set workers.count=%d %s", data, model,
             parts, parts, loss);
    return bench_job_plan(settings);
}

static double planned_bytes(const char *data, const char *model, int parts, const char *loss)
{
    json_t *plan = plan_of(data, model, parts, loss);
    double bytes = json_number_value(json_object_get(plan, "bytes_per_epoch"));
    json_decref(plan);
    return bytes;
}

static const char *const kinds[] = {"physics", "rmat", "sbm"};
#define MADE_BY "--set dataset.features=128 --set dataset.classes=8 --set dataset.generator="
#define GRAPHS                                                                                                       \
    {                                                                                                                \
        physics(), MADE_BY "rmat --set dataset.nodes=131072 --set dataset.degree=32 ",                               \
            MADE_BY "sbm --set dataset.nodes=100000 --set dataset.degree=30 "                                        \
    }

/* Exact epochs, as planned (a test holds that against what is sent), against a plain exchange: of each layer's halo rows the input's columns,
 * at most 256, forth and back, in float32. Three layers of 256; 128 features and 8 classes, or the data set's. */
static void exact_print(void)
{
    static const char sage[] = "--set model.kind=sage --set model.hidden=256 --set partition.objective=cut ";
    static const double bars[] = {1.0 / 0.25, 1.0 / 0.29, 1.0 / 0.43}, f_in[] = {256, 128, 128};
    const char *const graphs[] = GRAPHS;
    for (int i = 0; i < 9; i++) {
        int g = i / 3, parts = 4 << i % 3;
        char figure[128];
        json_t *plan = plan_of(graphs[g], sage, parts, "");
        double rows = json_number_value(json_object_get(json_object_get(plan, "partition"), "halo_rows"));
        double exact = json_number_value(json_object_get(plan, "bytes_per_epoch"));
        double plain = rows * 2.0 * (f_in[g] + 256.0 + 256.0) * 4.0;
        json_decref(plan);
        exact -= planned_bytes(graphs[g], sage, parts, "--set exchange.sampling=0.0");
        snprintf(figure, sizeof figure, "exact, sage 3 x 256, %s, %d parts, of a plain exchange", kinds[g], parts);
        bench_line(figure, 1e-6 * exact, "MB", 1e-6 * plain, plain / exact, bars[g]);
    }
}

/* Planned payloads of GraphSAGE 3 x 256 on four workers. */
static double four_bytes(const char *data, int parts, const char *exchange)
{
    static const char sage[] = "--set model.kind=sage --set model.hidden=256 --set partition.objective=cut";
    char settings[256];
    snprintf(settings, sizeof settings, "--set workers.count=4 %s", exchange);
    return planned_bytes(data, sage, parts, settings) -
           planned_bytes(data, sage, parts, "--set workers.count=4 --set exchange.sampling=0.0");
}

/* What each technique leaves of a plain exchange of the same parts: layers that narrow are multiplied first and inputs that never change
 * are aggregated once; upon that, sparse and dropped-out inputs are stored with the parts, and sums travel in place of rows; or, with four parts a worker, rows of several parts travel once. */
static void techniques_print(void)
{
    static const struct {
        const char *name, *exchange;
        int parts;
    } steps[] = {
        {"narrower side, static inputs once", "--set exchange.cover=false --set exchange.store_inputs=false", 4},
        {"and stored inputs", "--set exchange.cover=false", 4},
        {"and covers", "", 4},
        {"narrower side, stored inputs, shared rows, 16 parts", "--set exchange.cover=false", 16}};
    const char *const graphs[] = GRAPHS;
    for (int g = 0; g < 3; g++) {
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            char figure[128];
            double plain = four_bytes(graphs[g], steps[i].parts, "--set exchange.plain=true");
            double bytes = four_bytes(graphs[g], steps[i].parts, steps[i].exchange);
            snprintf(figure, sizeof figure, "4 workers, %s: %s", kinds[g], steps[i].name);
            bench_line(figure, 1e-6 * bytes, "MB", 1e-6 * plain, plain / bytes, 0.0);
        }
    }
}

/* Two workers with 128 parts each against two with one, all layers sent: of so many parts inputs are not stored. */
static void parts_print(void)
{
    static const char sage[] = "--set model.kind=sage --set partition.objective=cut --set train.epochs=3 "
                               "--set exchange.store_inputs=false ";
    static const char *const names[] = {"physics", "sbm, 50 000 nodes"};
    const char *const graphs[] = {
        physics(),
        "--set dataset.generator=sbm --set dataset.nodes=50000 --set dataset.degree=30 --set dataset.features=64 "};
    for (int g = 0; g < 2; g++) {
        char figure[128];
        double few = lossy_bytes(graphs[g], sage, (struct layout){2, 2}, ""),
               many = lossy_bytes(graphs[g], sage, (struct layout){256, 2}, "");
        snprintf(figure, sizeof figure, "sage, %s, two workers, 256 parts, of 2", names[g]);
        bench_line(figure, 1e-6 * many, "MB", 1e-6 * few, few / many, 1.0 / 1.2);
    }
}

/* Median seconds of an epoch; 0: no lab here. */
static double lab_s(const char *loss)
{
    char command[2048], line[256];
    double median = 0.0;
    snprintf(command, sizeof command,
             "scripts/netlab --machines 4 --rate 100mbit %s/job.toml " SBM
             "--set model.kind=sage --set model.hidden=256 --set train.epochs=4 %s 2>/dev/null",
             bench_folder, loss);
    FILE *lab = popen(command, "r");
    while (lab != NULL && fgets(line, sizeof line, lab) != NULL) {
        sscanf(line, "epoch %lf", &median);
    }
    return lab != NULL && pclose(lab) == 0 ? median : 0.0;
}

static void labs_print(void)
{
    double exact = lab_s(""), lossy = lab_s("--set exchange.sampling=0.1 --set exchange.codec=int8");
    if (exact == 0.0 || lossy == 0.0) {
        printf("no network namespaces here: nothing measured on slow links\n");
        return;
    }
    bench_line("epoch, 4 machines at 100 Mbit/s, p = 0.1 and int8", lossy, "s", exact, exact / lossy, 6.0);
}

int main(void)
{
    bench_job_open(job);
    bench_header();
    samples_print();
    codecs_print();
    exact_print();
    techniques_print();
    parts_print();
    labs_print();
    return bench_job_close();
}
