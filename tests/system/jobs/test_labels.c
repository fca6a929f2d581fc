/* Jobs on several labels a node of which some are not known: what the loss is a mean over. */
#include "tests/support/graphs/array_save.h"
#include "tests/support/graphs/tiny_graph.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

enum { N_NODE = 120, N_EDGE = 480, N_FEATURE = 6, N_LABEL = 5, N_TRAIN = 70 };

static float labels[N_NODE][N_LABEL];

static void make_all(void)
{
    static int64_t edges[2][N_EDGE], train[N_TRAIN];
    static float features[N_NODE][N_FEATURE];
    folder_make();
    /* Where the rate is 0 the logits at the end are those of the first epoch. */
    folder_write("job.toml",
                 "[dataset]\npath = \"data\"\n[partition]\nparts = 3\ncache = \"off\"\n[model]\nhidden = 8\n"
                 "[train]\nepochs = 1\nlr = 0.0\n[workers]\ncount = 2\nthreads = 1\n[output]\ndir = \"o\"\n");
    cr_assert_eq(mkdir(folder_path("data"), 0700), 0);
    for (int i = 0; i < N_EDGE; i++) {
        edges[0][i] = i * 7 % N_NODE;
        edges[1][i] = (i * 11 + i / N_NODE) % N_NODE;
    }
    for (int i = 0; i < N_NODE; i++) {
        for (int c = 0; c < N_FEATURE; c++) {
            features[i][c] = 3.0F * test_number(5, (uint64_t)i, (uint32_t)c);
        }
        for (int c = 0; c < N_LABEL; c++) {
            labels[i][c] = c > 0 && (i + c) % 3 == 0 ? NAN : (float)((i * 5 + c) % 2);
        }
    }
    for (int i = 0; i < N_TRAIN; i++) {
        train[i] = i;
    }
    array_save("data/edges.npy", NPY_TYPE_I64, 2, (int64_t[]){2, N_EDGE}, edges);
    array_save("data/features.npy", NPY_TYPE_F32, 2, (int64_t[]){N_NODE, N_FEATURE}, features);
    array_save("data/labels.npy", NPY_TYPE_F32, 2, (int64_t[]){N_NODE, N_LABEL}, labels);
    array_save("data/train_idx.npy", NPY_TYPE_I64, 1, (int64_t[]){N_TRAIN}, train);
}

TestSuite(labels, .init = make_all, .fini = folder_remove, .timeout = 900);

Test(labels, that_are_not_known_are_left_out_of_the_mean_of_the_loss)
{
    job_run("%s", "");
    struct npy logits;
    cr_assert_eq(npy_open(folder_path("o/logits.npy"), &logits), STATUS_OK, "%s", status_reason());
    double sum = 0.0, n_known = 0.0;
    for (int i = 0; i < N_TRAIN; i++) {
        for (int c = 0; c < N_LABEL; c++) {
            double z = npy_real(&logits, i * N_LABEL + c);
            if (!isnan(labels[i][c])) {
                sum += log1p(exp(z)) - z * labels[i][c];
                n_known += 1.0;
            }
        }
    }
    npy_close(&logits);
    cr_assert_lt(n_known, N_TRAIN * N_LABEL);
    json_t *epochs = results_epochs(folder_path("o"));
    double loss = results_number(json_array_get(epochs, 0), "loss");
    cr_assert_float_eq(loss, sum / n_known, 1e-5, "%.9g, expected %.9g", loss, sum / n_known);
    json_decref(epochs);
}
