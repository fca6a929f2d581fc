/* Inputs stored once: a job whose first aggregate reads rows that each part makes for itself has the results of one that sends them up to
 * rounding, is exact whatever other layers lose, and sends nothing in that layer. */
#include "tests/equivalence/compare.h"
#include "tests/equivalence/data.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>

TestSuite(stored, .init = folder_make, .fini = folder_remove);

#define FIVE "parts = 5\nmethod = 'random'"
static const char wide[] = "generator = 'sbm'\nnodes = 500\ndegree = 6\nclasses = 5\nfeatures = 40";

static const char *sparse(bool is_directed)
{
    return data_write(&(struct data_folder){.is_sparse = true}, is_directed);
}

Test(stored, inputs_have_the_results_of_inputs_that_are_sent)
{
    static const char *const models[] = {
        "kind = 'gcn'\nhidden = 16\ninput_dropout = 0.5",
        "kind = 'sage'\nhidden = 16\nlayers = 3\ninput_dropout = 0.5\ndropout = 0.5",
        "kind = 'sage'\nhidden = 16\naggregator = 'max'\ninput_dropout = 0.5",
        "kind = 'gin'\nhidden = 16\ninput_dropout = 0.5",
        "kind = 'gat'\nheads = 2\nhidden = 8\ninput_dropout = 0.5\nattention_dropout = 0.3",
        "kind = 'gatv2'\nheads = 2\nhidden = 7\ninput_dropout = 0.5\nattention_dropout = 0.3",
        "kind = 'transformer'\nheads = 2\nhidden = 8\ninput_dropout = 0.5"};
    const char *const graphs[] = {sparse(false), sparse(true), wide, data_few[0]};
    for (size_t m = 0; m < 2 * sizeof models / sizeof *models; m++) {
        struct task task = {.data = graphs[m % 4], .model = models[m / 2], .partition = FIVE};
        struct cluster_result first, sent;
        compare_run(&task, &compare_plain, &first);
        task.exchange = "store_inputs = false";
        compare_run(&task, &compare_plain, &sent);
        compare_losses(&task, COMPARE_EPOCHS, &first, &sent);
        cluster_release(&sent);
        cluster_release(&first);
    }
}

/* The layer that makes its halo rows itself is that of an exact job, whatever the others lose: alone it has the exact job's bits. */
Test(stored, layer_is_exact_beside_others_that_are_not)
{
    static const char *const models[] = {
        "kind = 'gcn'\nlayers = 1\ninput_dropout = 0.5", "kind = 'sage'\nlayers = 1\ninput_dropout = 0.5",
        "kind = 'gat'\nlayers = 1\ninput_dropout = 0.5\nattention_dropout = 0.3", "kind = 'gatv2'\nlayers = 1"};
    static const char *const ends[] = {"sampling = 0.0", "codec = 'int2'", "stale = 1",
                                       "codec = 'int2'\nerror_feedback = true"};
    static const struct way three = {.workers = 3, .prefetch = 1};
    const char *const graphs[] = {sparse(false), sparse(true)};
    for (int m = 0; m < 4; m++) {
        struct task task = {.data = graphs[m % 2], .model = models[m], .partition = FIVE};
        struct cluster_result exact, lossy;
        compare_run(&task, &compare_plain, &exact);
        for (int e = 0; e < 4; e++) {
            task.exchange = ends[e];
            compare_run(&task, &three, &lossy);
            cr_expect_arr_eq(lossy.weights, exact.weights, (size_t)exact.n_weight * sizeof(float), "%s, %s",
                             models[m], ends[e]);
            cr_expect_arr_eq(lossy.loss, exact.loss, sizeof exact.loss, "%s, %s", models[m], ends[e]);
            cr_expect_eq(lossy.halo_received, 0, "%s, %s: %lu bytes", models[m], ends[e],
                         (unsigned long)lossy.halo_received);
            cluster_release(&lossy);
        }
        cluster_release(&exact);
    }
}
