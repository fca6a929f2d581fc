#include "protocol/base/random.h"
#include "tests/support/process/folder.h"
#include "tests/system/attack/campaign.h"
#include "tests/system/attack/inputs/door.h"
#include "tests/system/attack/inputs/invocation.h"
#include "tests/system/attack/inputs/mutation.h"
#include "tests/system/attack/user.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { N_NODE = 12, F_IN = 4, N_EDGE = 2 * N_NODE };
#define N_OF(array) ((uint32_t)(sizeof(array) / sizeof *(array)))
#define ALLOWED(...) ((const int[]){__VA_ARGS__, -1})
#define RUN(...) invocation_run((const char *const[]){__VA_ARGS__, NULL}, NULL)

static const char *const arrays[] = {"edges.npy",     "features.npy", "labels.npy",     "train_idx.npy",
                                     "valid_idx.npy", "test_idx.npy", "edge_weight.npy"};
static const char meta[] = "{\"name\": \"ring\", \"nodes\": 12, \"features\": 4, \"classes\": 2}";
static const char job[] =
    "[dataset]\npath = \"data\"\nedge_weights = \"yes\"\n[partition]\nparts = 2\ncache = \"off\"\n[model]\nhidden = "
    "4\n"
    "[train]\nepochs = 8\ncheckpoint_every = 2\n[workers]\ncount = 1\nthreads = 1\n[output]\ndir = \"o\"\n";
static unsigned long long older; /* the results of o */

static void write_array(const char *name, const char *dtype, const char *shape, const void *values, size_t n)
{
    char head[128], path[64], bytes[4096];
    int n_head = snprintf(head, sizeof head, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", dtype, shape);
    int n_pad = 64 - (10 + n_head + 1) % 64;
    snprintf(path, sizeof path, "good-data/%s", name);
    memcpy(bytes, "\x93NUMPY\x01\x00", 8);
    bytes[8] = (char)(n_head + n_pad + 1);
    bytes[9] = 0;
    snprintf(bytes + 10, sizeof bytes - 10, "%s%*s\n", head, n_pad, "");
    memcpy(bytes + 10 + n_head + n_pad + 1, values, n);
    door_write(path, bytes, 10 + (size_t)(n_head + n_pad) + 1 + n);
}

/* A ring of two classes. */
static void write_data(void)
{
    int64_t edges[2][N_EDGE], labels[N_NODE], train[] = {0, 1, 6, 7}, valid[] = {2, 8}, test[] = {3, 4, 9, 10};
    float features[N_NODE][F_IN], weight[N_EDGE];
    for (int i = 0; i < N_NODE; i++) {
        edges[0][2 * i] = edges[1][2 * i + 1] = i;
        edges[1][2 * i] = edges[0][2 * i + 1] = (i + 1) % N_NODE;
        labels[i] = i / 6;
        weight[2 * i] = weight[2 * i + 1] = 0.5f;
        for (int f = 0; f < F_IN; f++) {
            features[i][f] = (float)((i * 7 + f * 3) % 5) - 2.0f;
        }
    }
    write_array("edges.npy", "<i8", "(2, 24)", edges, sizeof edges);
    write_array("features.npy", "<f4", "(12, 4)", features, sizeof features);
    write_array("labels.npy", "<i8", "(12,)", labels, sizeof labels);
    write_array("train_idx.npy", "<i8", "(4,)", train, sizeof train);
    write_array("valid_idx.npy", "<i8", "(2,)", valid, sizeof valid);
    write_array("test_idx.npy", "<i8", "(4,)", test, sizeof test);
    write_array("edge_weight.npy", "<f4", "(24,)", weight, sizeof weight);
    door_write("good-data/meta.json", meta, sizeof meta - 1);
}

/* A shell's command in the first user's home, as that user. */
static void shell(const char *command)
{
    char line[PATH_MAX + 512];
    snprintf(line, sizeof line, "cd '%s' && %s", folder_path(user_home(USER_FIRST)), command);
    user_become(USER_FIRST);
    int code = system(line);
    user_leave();
    HOLDS(code == 0, "%s: %d", line, code);
}

static unsigned long long hash_of(const char *name)
{
    static char bytes[MUTATION_BYTES];
    return XXH3_64bits(bytes, door_read(name, bytes));
}

static unsigned long long hash_of_results(const char *dir)
{
    static const char *const files[] = {"model.safetensors", "best.safetensors", "metrics.jsonl", "result.json",
                                        "logits.npy"};
    unsigned long long sum = 0;
    for (size_t i = 0; i < N_OF(files); i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        sum = sum * 31 + hash_of(path);
    }
    return sum;
}

void door_jobs_begin(void)
{
    shell("mkdir good-data");
    write_data();
    door_write("data.toml", job, sizeof job - 1);
    door_write("good-parts.txt", "0\n0\n0\n0\n0\n0\n1\n1\n1\n1\n1\n1\n", 24);
    shell("cp -r good-data data");
    int code = RUN("trainer-coordinator", "--config", "data.toml");
    HOLDS(code == 0, "exit %d: %s", code, invocation_said);
    older = hash_of_results("o");
    shell("cp -r o trained");
    /* A run that was killed after its sixth epoch. */
    setenv("TRAINERD_FAULTS", "coordinator.epoch=kill@7", 1);
    code = RUN("trainer-coordinator", "--config", "data.toml", "--set", "output.dir=killed");
    unsetenv("TRAINERD_FAULTS");
    HOLDS(code == INVOCATION_ENDED_BY + 9, "exit %d: %s", code, invocation_said);
}

/* Plan with it, or train; the data is there again afterwards, and older results are as they were unless new ones have
 * replaced them. */
static void read_by_job(const char *setting, const char *further, const char *where)
{
    bool plans = campaign_draw(3) > 0;
    const char *first = plans ? "--plan" : "--set", *second = plans ? "--set" : "train.epochs=3",
               *third = plans ? "train.epochs=3" : "--set";
    int code = RUN("trainer-coordinator", "--config", "data.toml", "--set", setting, "--set", further, first, second,
                   third, plans ? NULL : "train.eval_every=1");
    invocation_expect(code, ALLOWED(0, 1, 65, 66, 71, 78), where);
    if (code == 0 && !plans) {
        shell("rm -rf o && cp -r trained o");
    }
    HOLDS(hash_of_results("o") == older, "exit %d has changed older results: %s", code, invocation_said);
}

void door_array(void)
{
    char from[64], to[64];
    const char *name = arrays[campaign_draw(N_OF(arrays))];
    snprintf(from, sizeof from, "good-data/%s", name);
    snprintf(to, sizeof to, "data/%s", name);
    campaign_note("%s", name);
    door_mutate(from, to);
    read_by_job("train.seed=1", "train.lr=0.01", "data/|.npy|data set|loss|label|split|train.epochs|memory");
    shell("cp good-data/* data/");
}

void door_meta(void)
{
    door_mutate("good-data/meta.json", "data/meta.json");
    read_by_job("train.seed=1", "train.lr=0.01", "meta.json");
    shell("cp good-data/* data/");
}

void door_partition(void)
{
    door_mutate("good-parts.txt", "parts.txt");
    read_by_job("partition.method=file", "partition.file=parts.txt", "parts.txt|partition.");
}

void door_model(void)
{
    door_mutate("trained/model.safetensors", "begin.safetensors");
    read_by_job("model.init=begin.safetensors", "train.lr=0.01", "begin.safetensors|loss|weights");
}

void door_prediction(void)
{
    shell("rm -rf used && cp -r trained used");
    door_mutate("trained/best.safetensors", "used/best.safetensors");
    if (campaign_draw(3) == 0) {
        door_mutate("trained/result.json", "used/result.json");
    }
    int code = RUN("trainer-coordinator", "--config", "data.toml", "--set", "predict.model=used", "--set",
                   "output.dir=predicted");
    invocation_expect(code, ALLOWED(0, 1, 65, 66, 71, 78), "used|best.safetensors|result.json|model");
    shell("rm -rf predicted");
}

/* The bits of the run that went on are those of one that never stopped, or it was refused. */
static void resume(void)
{
    int code = RUN("trainer-coordinator", "--config", "data.toml", "--resume", "--set", "output.dir=resumed");
    invocation_expect(code, ALLOWED(0, 65, 66, 71, 73, 78), "resumed|checkpoint|metrics.jsonl|ckpt");
    HOLDS(code != 0 || hash_of("resumed/model.safetensors") == hash_of("trained/model.safetensors"),
          "a resumed job has other bits: %s", invocation_said);
}

/* A file of the killed run, by a part of its name. */
static void mutate_run(const char *find)
{
    char command[512];
    shell("rm -rf resumed && cp -r killed resumed");
    snprintf(command, sizeof command,
             "f=$(find resumed %s | sort | tail -n 1) && [ -n \"$f\" ] && cp \"$f\" before && echo -n \"$f\" > name",
             find);
    shell(command);
    char name[MUTATION_BYTES] = "";
    name[door_read("name", name)] = '\0';
    campaign_note("%s", name);
    door_mutate("before", name);
}

void door_checkpoint(void)
{
    mutate_run("-name '*.ckpt'");
    resume();
}

void door_run_folder(void)
{
    mutate_run(campaign_draw(2) == 0 ? "-type f -name 'metrics.jsonl'" : "-type f -not -name '*.ckpt'");
    resume();
}
