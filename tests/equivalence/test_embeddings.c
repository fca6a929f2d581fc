/* Embeddings, which are stored with the parts, against the same weights on every worker; their memory and traffic. */
#include "tests/equivalence/compare.h"
#include "tests/equivalence/data.h"
#include "tests/support/process/folder.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define DECAY "weight_decay = 5e-4\n"

TestSuite(embeddings, .init = folder_make, .fini = folder_remove);

/* On the parts that the data's folder names. */
static void run(const char *name, int n_part, const char *model, int n_worker, const char *train,
                struct cluster_result *out)
{
    char data[256], partition[256], all[256];
    snprintf(data, sizeof data, "path = '%s'", folder_path(name));
    snprintf(partition, sizeof partition, "parts = %d\nmethod = 'file'\nfile = '%s/owner'", n_part,
             folder_path(name));
    snprintf(all, sizeof all, "lr = 0.01\n%s", train);
    const struct task task = {.data = data,
                              .model = model,
                              .exchange = "store_inputs = false", /* embeddings never are */
                              .train = all,
                              .partition = partition,
                              .epochs = 8};
    const struct way way = {.workers = n_worker, .prefetch = 1, .recompute = "auto", .device = &device_cpu};
    compare_run(&task, &way, out);
}

static const char rgcn[] = "kind = 'rgcn'\nhidden = 16\ndropout = 0.3\ninput_dropout = 0.4";

static void write_both(void)
{
    data_typed("own", 0, 4, false, false);
    data_typed("given", 0, 4, false, true);
}

/* A node type without features against the same type with one-hot features, whose columns are ordinary weights. */
static void expect_as_given(const char *model, const char *optimizer)
{
    struct cluster_result given, own;
    run("given", 4, model, 1, optimizer, &given);
    run("own", 4, model, 2, optimizer, &own);
    cr_assert(given.n_embedding == 0 && own.n_embedding > 0);
    cr_expect_arr_eq(own.loss, given.loss, sizeof own.loss, "%s, %s", model, optimizer);
    cr_expect_arr_eq(own.logits, given.logits, (size_t)own.n_logit * sizeof(float), "%s, %s", model, optimizer);
    cluster_release(&given);
    cluster_release(&own);
}

Test(embeddings, give_the_bits_of_a_weight_that_every_worker_stores)
{
    write_both();
    expect_as_given(rgcn, DECAY);
    expect_as_given(rgcn, DECAY "optimizer = 'adamw'\nlr_schedule = 'cosine'");
    expect_as_given(rgcn, DECAY "optimizer = 'sgd'\nmomentum = 0.9");
    expect_as_given(rgcn, DECAY "optimizer = 'sgd'\nclip_norm = 0.02");
    expect_as_given("kind = 'gat'\nheads = 2\nhidden = 8\ninput_dropout = 0.3", "");
    expect_as_given("kind = 'sage'\nhidden = 16\nlayers = 3\nnorm = 'batch'", "");
}

static const char *const kinds[] = {"gcn",   "sage",        "gin",  "appnp", "sgc",  "gat",
                                    "gatv2", "transformer", "agnn", "rgcn",  "gcnii"};

static void run_karate(const char *features, const char *kind, int n_worker, struct cluster_result *out)
{
    char data[128], model[128];
    snprintf(data, sizeof data, "generator = 'karate'\n%s", features);
    snprintf(model, sizeof model, "hidden = 8\nsteps = 2\nkind = '%s'", kind);
    const struct task task = {.data = data,
                              .model = model,
                              .exchange = "store_inputs = false",
                              .partition = "parts = 3\nmethod = 'block'",
                              .epochs = 3};
    const struct way way = {.workers = n_worker, .prefetch = 1, .recompute = "auto", .device = &device_cpu};
    compare_run(&task, &way, out);
}

/* The club's features are one-hot already, as ordinary columns. A bias is added before or after the one value of a row, and R-GCN's means
 * read rows of weights in place of dense features, so that losses are the same up to rounding. */
Test(embeddings, one_hot_features_give_the_losses_of_an_identity_matrix_under_every_kind)
{
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct cluster_result given, made;
        run_karate("", kinds[k], 1, &given);
        run_karate("features = 'one_hot'", kinds[k], 2, &made);
        cr_expect(given.n_embedding == 0 && made.n_embedding > 0, "%s", kinds[k]);
        for (int epoch = 0; epoch < 3; epoch++) {
            cr_expect_leq(fabs(made.loss[epoch] - given.loss[epoch]), TOLERANCE_LOSS * given.loss[epoch],
                          "%s, epoch %d: %.9g, expected %.9g", kinds[k], epoch, made.loss[epoch], given.loss[epoch]);
        }
        cr_expect_neq(made.loss[2], made.loss[0], "%s", kinds[k]);
        cluster_release(&given);
        cluster_release(&made);
    }
}

/* A maximum over neighbours needs dense feature rows. */
Test(embeddings, are_ordinary_weight_columns_where_features_are_made_dense)
{
    struct cluster_result given, own;
    const char *model = "kind = 'sage'\naggregator = 'max'\nhidden = 16";
    write_both();
    run("given", 4, model, 1, "", &given);
    run("own", 4, model, 2, "", &own);
    cr_assert_eq(own.n_weight, given.n_weight);
    cr_expect_arr_eq(own.weights, given.weights, (size_t)own.n_weight * sizeof(float));
    cr_expect_arr_eq(own.logits, given.logits, (size_t)own.n_logit * sizeof(float));
    cluster_release(&given);
    cluster_release(&own);
}

Test(embeddings, are_the_same_up_to_rounding_for_any_number_of_parts)
{
    struct cluster_result one, five;
    data_typed("one", 0, 1, false, false);
    data_typed("five", 0, 5, false, false);
    run("one", 1, rgcn, 1, DECAY "optimizer = 'sgd'", &one);
    run("five", 5, rgcn, 3, DECAY "optimizer = 'sgd'", &five);
    cr_expect_leq(compare_distance(one.n_embedding, five.embeddings, one.embeddings), TOLERANCE_ARRAY);
    cluster_release(&one);
    cluster_release(&five);
}

/* Nodes without edges have no part in an epoch but their own embeddings. */
Test(embeddings, are_never_sent)
{
    struct cluster_result few, many;
    data_typed("few", 0, 4, false, false);
    data_typed("many", 5000, 4, false, false);
    run("few", 4, rgcn, 4, "prune = 'never'", &few);
    run("many", 4, rgcn, 4, "prune = 'never'", &many);
    cr_assert_eq(many.n_embedding - few.n_embedding, 5000 * 16);
    cr_expect_eq(many.payload_sent, few.payload_sent, "%lu bytes, %lu with 5000 more nodes",
                 (unsigned long)few.payload_sent, (unsigned long)many.payload_sent);
    cr_expect_eq(many.n_weight, few.n_weight, "the weights that every worker stores");
    cluster_release(&few);
    cluster_release(&many);
}

/* Current, gradient, best, two moments: five arrays, and 1/8 of them on each of eight workers. */
Test(embeddings, are_stored_once_over_all_workers)
{
    struct cluster_result few, many[2];
    data_typed("few", 0, 8, false, false);
    data_typed("many", 8000, 8, false, false);
    for (int i = 0; i < 2; i++) {
        int n_worker = i == 0 ? 1 : 8;
        run("few", 8, rgcn, n_worker, "", &few);
        run("many", 8, rgcn, n_worker, "", &many[i]);
        int64_t more = many[i].planned[MEMORY_PARAMETERS] - few.planned[MEMORY_PARAMETERS];
        cr_expect_eq(more, (int64_t)5 * 8000 / n_worker * 16 * 4, "%d workers: %ld", n_worker, (long)more);
        cr_expect_eq(many[i].measured[MEMORY_PARAMETERS], many[i].planned[MEMORY_PARAMETERS]);
        cr_expect_eq(many[i].n_call, 0, "%ld allocations in epochs", (long)many[i].n_call);
        cluster_release(&few);
        cluster_release(&many[i]);
    }
}

/* As in dense Adam, weight decay and moments change every row, in the loss's receptive field or not. */
Test(embeddings, of_nodes_that_an_epoch_leaves_out_step_with_a_gradient_of_zero)
{
    enum { N_NODE = 300, N_LONELY = 40, WIDTH = 16 };
    static const char *const prunes[] = {DECAY "prune = 'never'", DECAY "prune = 'always'", "prune = 'always'"};
    struct cluster_result result[3];
    data_typed("data", N_LONELY, 4, false, false);
    for (int i = 0; i < 3; i++) {
        run("data", 4, rgcn, 2, prunes[i], &result[i]);
        cr_assert_eq(result[i].n_embedding, (N_NODE + N_LONELY) * WIDTH);
        cr_expect_eq(result[i].left_out > 0.0, i > 0, "%.3f of the work left out", result[i].left_out);
    }
    const size_t n_bytes = (size_t)N_LONELY * WIDTH * sizeof(float);
    const float *all = result[0].embeddings + N_NODE * WIDTH, *pruned = result[1].embeddings + N_NODE * WIDTH;
    cr_expect_arr_eq(pruned, all, n_bytes);
    cr_expect_neq(memcmp(result[2].embeddings + N_NODE * WIDTH, all, n_bytes), 0, "without decay they do not change");
    for (int i = 0; i < 3; i++) {
        cluster_release(&result[i]);
    }
}
