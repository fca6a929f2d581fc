/* Embeddings, which are stored with the parts, against the same weights on every worker; their memory and traffic. */
#include "tests/equivalence/compare.h"
#include "tests/support/cluster/cluster.h"
#include "tests/support/graphs/typed_folder.h"
#include "tests/support/process/folder.h"
#include "tests/support/sanitized.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define DECAY "weight_decay = 5e-4\n"

TestSuite(embeddings, .init = folder_make, .fini = folder_remove);

static const char *also = ""; /* of [exchange], and sections behind it */

static void run(const char *data, int n_part, const char *model, int n_worker, const char *train,
                struct cluster_result *out)
{
    char text[2048];
    snprintf(
        text, sizeof text,
        "[dataset]\npath = \"%s\"\n[partition]\nparts = %d\nmethod = \"file\"\nfile = \"%s/owner\"\ncache = \"off\"\n"
        "[model]\n%s\n[train]\nepochs = 8\nlr = 0.01\n%s\n[workers]\ncount = %d\nthreads = 1\n"
        "[exchange]\nstore_inputs = false\n%s\n", /* which embeddings never are */
        data, n_part, data, model, train, n_worker, also);
    cluster_run(text, out);
    cr_assert_eq(out->exit_code, 0, "%s, %d workers: exit %d", data, n_worker, out->exit_code);
}

static const char rgcn[] = "kind = \"rgcn\"\nhidden = 16\ndropout = 0.3\ninput_dropout = 0.4";

static void write_both(void)
{
    struct typed_folder what = {.n_node = 300, .n_edge = 2000, .n_part = 4};
    typed_folder_write(folder_path("own"), &what);
    what.is_explicit = true;
    typed_folder_write(folder_path("given"), &what);
}

/* A node type without features against the same type with one-hot features, whose columns are ordinary weights. */
static void expect_as_given(const char *model, const char *optimizer)
{
    struct cluster_result given, own;
    run(folder_path("given"), 4, model, 1, optimizer, &given);
    run(folder_path("own"), 4, model, 2, optimizer, &own);
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
    expect_as_given(rgcn, DECAY "optimizer = \"adamw\"\nlr_schedule = \"cosine\"");
    expect_as_given(rgcn, DECAY "optimizer = \"sgd\"\nmomentum = 0.9");
    expect_as_given(rgcn, DECAY "optimizer = \"sgd\"\nclip_norm = 0.02");
    expect_as_given("kind = \"gat\"\nheads = 2\nhidden = 8\ninput_dropout = 0.3", "");
    expect_as_given("kind = \"sage\"\nhidden = 16\nlayers = 3\nnorm = \"batch\"", "");
}

static const char *const kinds[] = {"gcn",   "sage",        "gin",  "appnp", "sgc",  "gat",
                                    "gatv2", "transformer", "agnn", "rgcn",  "gcnii"};

static void run_karate(const char *features, const char *model, int n_worker, struct cluster_result *out)
{
    char text[1024];
    snprintf(text, sizeof text,
             "[dataset]\ngenerator = \"karate\"\n%s[partition]\nparts = 3\nmethod = \"block\"\n[model]\nhidden = "
             "8\nsteps = 2\n"
             "%s[train]\nepochs = 3\n[workers]\ncount = %d\nthreads = 1\n"
             "[exchange]\nstore_inputs = false\n",
             features, model, n_worker);
    cluster_run(text, out);
    cr_assert_eq(out->exit_code, 0, "%s, %s: exit %d", features, model, out->exit_code);
}

/* The club's features are one-hot already, as ordinary columns. A bias is added before or after the one value of a row, and R-GCN's means
 * read rows of weights in place of dense features, so that losses are the same up to rounding. */
Test(embeddings, one_hot_features_give_the_losses_of_an_identity_matrix_under_every_kind)
{
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct cluster_result given, made;
        char model[64];
        snprintf(model, sizeof model, "kind = \"%s\"\n", kinds[k]);
        run_karate("", model, 1, &given);
        run_karate("features = \"one_hot\"\n", model, 2, &made);
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

Test(embeddings, features_made_of_the_graph_are_the_same_on_any_number_of_workers_under_every_kind)
{
    static const char *const words[] = {"features = \"learned\"\n", "features = \"degree\"\n",
                                        "features = \"one_hot\"\n"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (size_t w = 0; w < 3; w++) {
            if (ways_skip(3 * k + w, 3 * sizeof kinds / sizeof *kinds)) {
                continue;
            }
            struct cluster_result one, other;
            char model[128];
            snprintf(model, sizeof model, "kind = \"%s\"\ndropout = 0.3\ninput_dropout = 0.4\n%s", kinds[k],
                     k == 1 ? "aggregator = \"max\"\n" : "");
            run_karate(words[w], model, 1, &one);
            run_karate(words[w], model, 3, &other);
            compare_expect_same(&one, &other, "%s, %s", kinds[k], words[w]);
            compare_expect_planned(&other, "%s, %s", kinds[k], words[w]);
            cluster_release(&one);
            cluster_release(&other);
        }
    }
}

/* A maximum over neighbours needs dense feature rows. */
Test(embeddings, are_ordinary_weight_columns_where_features_are_made_dense)
{
    struct cluster_result given, own;
    const char *model = "kind = \"sage\"\naggregator = \"max\"\nhidden = 16";
    write_both();
    run(folder_path("given"), 4, model, 1, "", &given);
    run(folder_path("own"), 4, model, 2, "", &own);
    cr_assert_eq(own.n_weight, given.n_weight);
    cr_expect_arr_eq(own.weights, given.weights, (size_t)own.n_weight * sizeof(float));
    cr_expect_arr_eq(own.logits, given.logits, (size_t)own.n_logit * sizeof(float));
    cluster_release(&given);
    cluster_release(&own);
}

Test(embeddings, are_the_same_up_to_rounding_for_any_number_of_parts)
{
    struct cluster_result one, five;
    typed_folder_write(folder_path("one"), &(struct typed_folder){.n_node = 300, .n_edge = 2000, .n_part = 1});
    typed_folder_write(folder_path("five"), &(struct typed_folder){.n_node = 300, .n_edge = 2000, .n_part = 5});
    run(folder_path("one"), 1, rgcn, 1, DECAY "optimizer = \"sgd\"", &one);
    run(folder_path("five"), 5, rgcn, 3, DECAY "optimizer = \"sgd\"", &five);
    double apart = 0.0, size = 0.0;
    for (int64_t i = 0; i < one.n_embedding; i++) {
        apart += pow((double)one.embeddings[i] - five.embeddings[i], 2);
        size += pow((double)one.embeddings[i], 2);
    }
    cr_expect_leq(sqrt(apart / size), TOLERANCE_ARRAY);
    cluster_release(&one);
    cluster_release(&five);
}

/* Weights with rows of nodes' own in what travels otherwise, in what epochs leave out, and under a spill. */
Test(embeddings, rows_of_nodes_own_are_the_same_on_any_number_of_workers)
{
    char spill[128];
    snprintf(spill, sizeof spill, "[memory]\nlimit = \"1GiB\"\nspill = \"%s\"", folder);
    const char *const ways[] = {
        "", "sampling = 0.4", "codec = \"int8\"", "stale = 1", "codec = \"int4\"\nerror_feedback = true", spill};
    static const char *const models[] = {"kind = \"rgcn\"\nembedding = false\nhidden = 9\ndropout = 0.3",
                                         "kind = \"rgcn\"\nembedding = false\nhidden = 8\nlayers = 3\nbases = 3"};
    typed_folder_write(
        folder_path("bare"),
        &(struct typed_folder){.n_node = 300, .n_edge = 2000, .n_part = 4, .n_lonely = 50, .is_bare = true});
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            if (ways_skip(w, sizeof ways / sizeof *ways)) {
                continue;
            }
            struct cluster_result one, other;
            also = ways[w];
            run(folder_path("bare"), 4, models[m], 1, DECAY "prune = \"always\"", &one);
            also = w == 5 ? "" : ways[w]; /* the spill's bits are those in memory */
            run(folder_path("bare"), 4, models[m], 3, DECAY "prune = \"always\"", &other);
            compare_expect_same(&one, &other, "%s, %s", models[m], ways[w]);
            compare_expect_planned(&other, "%s, %s", models[m], ways[w]);
            cr_expect_eq(other.n_call, 0, "%s, %s: %ld allocations in epochs", models[m], ways[w],
                         (long)other.n_call);
            cluster_release(&one);
            cluster_release(&other);
        }
    }
    also = "";
}

/* Nodes without edges have no part in an epoch but their own embeddings. */
Test(embeddings, are_never_sent)
{
    struct cluster_result few, many;
    typed_folder_write(folder_path("few"), &(struct typed_folder){.n_node = 300, .n_edge = 2000, .n_part = 4});
    typed_folder_write(folder_path("many"),
                       &(struct typed_folder){.n_node = 300, .n_edge = 2000, .n_part = 4, .n_lonely = 5000});
    run(folder_path("few"), 4, rgcn, 4, "prune = \"never\"", &few);
    run(folder_path("many"), 4, rgcn, 4, "prune = \"never\"", &many);
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
    typed_folder_write(folder_path("few"), &(struct typed_folder){.n_node = 300, .n_edge = 2000, .n_part = 8});
    typed_folder_write(folder_path("many"),
                       &(struct typed_folder){.n_node = 300, .n_edge = 2000, .n_part = 8, .n_lonely = 8000});
    for (int i = 0; i < 2; i++) {
        int n_worker = i == 0 ? 1 : 8;
        run(folder_path("few"), 8, rgcn, n_worker, "", &few);
        run(folder_path("many"), 8, rgcn, n_worker, "", &many[i]);
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
    static const char *const prunes[] = {DECAY "prune = \"never\"", DECAY "prune = \"always\"", "prune = \"always\""};
    struct cluster_result result[3];
    typed_folder_write(folder_path("data"),
                       &(struct typed_folder){.n_node = N_NODE, .n_edge = 2000, .n_part = 4, .n_lonely = N_LONELY});
    for (int i = 0; i < 3; i++) {
        run(folder_path("data"), 4, rgcn, 2, prunes[i], &result[i]);
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
