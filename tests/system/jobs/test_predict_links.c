/* Predictions with models of links: rows of the whole graph, scores of pairs, partners of nodes, what is refused. */
#include "partition/files/npy.h"
#include "tests/support/graphs/npy_save.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"
#include "tests/support/sanitized.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SBM "generator = \"sbm\"\nnodes = 300\ndegree = 6\nfeatures = 24\n"
#define REST                                                                                                         \
    "[partition]\nparts = 5\ncache = \"off\"\n[model]\nhidden = 16\n[train]\nepochs = 4\n[workers]\ncount = 2\n"     \
    "threads = 1\n"

JOB_SUITE(predict_links, 900, "name = \"s\"\n[dataset]\n" SBM REST);

#define LINK "--set task.kind=link --set task.channels=8 "

enum { N = 300, WIDTH = 8, N_PAIR = 500, N_ASKED = 40, BEST = 12 };

static void questions_write(void)
{
    static int64_t pairs[2 * N_PAIR], nodes[N_ASKED];
    for (int64_t i = 0; i < N_PAIR; i++) {
        pairs[i] = i * 7 % N;
        pairs[N_PAIR + i] = i * i % N;
    }
    for (int64_t i = 0; i < N_ASKED; i++) {
        nodes[i] = i * 11 % 37;
    }
    cr_assert_eq(npy_save(folder_path("pairs.npy"), NPY_TYPE_I64, 2, (int64_t[]){2, N_PAIR}, pairs), STATUS_OK);
    cr_assert_eq(npy_save(folder_path("nodes.npy"), NPY_TYPE_I64, 1, (int64_t[]){N_ASKED}, nodes), STATUS_OK);
}

#define ASK "--set predict.pairs=pairs.npy --set predict.nodes=nodes.npy --set predict.best=12 "

static struct npy array_of(const char *dir, const char *name, enum npy_type type, int rank)
{
    char path[64];
    struct npy npy;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    cr_assert_eq(npy_open(folder_path(path), &npy), STATUS_OK, "%s", status_reason());
    cr_assert(npy.type == type && npy.rank == rank, "%s", path);
    return npy;
}

static double product(const struct npy *rows, int64_t a, int64_t b)
{
    double sum = 0.0;
    for (int64_t c = 0; c < WIDTH; c++) {
        sum += npy_real(rows, a * WIDTH + c) * npy_real(rows, b * WIDTH + c);
    }
    return sum;
}

static void expect_scores(const char *dir, const struct npy *rows)
{
    struct npy pairs = array_of(".", "pairs.npy", NPY_TYPE_I64, 2),
               scores = array_of(dir, "scores.npy", NPY_TYPE_F32, 1);
    cr_assert_eq(scores.n_value, N_PAIR);
    for (int64_t i = 0; i < N_PAIR; i++) {
        cr_assert_eq(npy_real(&scores, i), (float)product(rows, npy_int(&pairs, i), npy_int(&pairs, N_PAIR + i)),
                     "pair %d", (int)i);
    }
    npy_close(&scores);
    npy_close(&pairs);
}

/* Every node's partners are sorted, and no node that is left out would be better than the last of them. */
static void expect_partners(const char *dir, const struct npy *rows)
{
    struct npy nodes = array_of(".", "nodes.npy", NPY_TYPE_I64, 1),
               partners = array_of(dir, "partners.npy", NPY_TYPE_I64, 2),
               scores = array_of(dir, "partner_scores.npy", NPY_TYPE_F32, 2);
    cr_assert(partners.shape[0] == N_ASKED && partners.shape[1] == BEST && scores.shape[1] == BEST);
    for (int64_t i = 0; i < N_ASKED; i++) {
        bool is_partner[N] = {false};
        int64_t node = npy_int(&nodes, i), last = -1, n_better = 0;
        double worst = INFINITY;
        for (int64_t at = i * BEST; at < (i + 1) * BEST; at++) {
            int64_t partner = npy_int(&partners, at);
            cr_assert(partner >= 0 && partner < N && partner != node && !is_partner[partner]);
            cr_assert_eq(npy_real(&scores, at), (float)product(rows, node, partner));
            cr_assert(npy_real(&scores, at) < worst || (npy_real(&scores, at) == worst && partner > last));
            worst = npy_real(&scores, at);
            last = partner;
            is_partner[partner] = true;
        }
        for (int64_t v = 0; v < N; v++) {
            n_better += v != node && !is_partner[v] && (float)product(rows, node, v) > worst;
        }
        cr_assert_eq(n_better, 0, "node %d", (int)node);
    }
    npy_close(&scores);
    npy_close(&partners);
    npy_close(&nodes);
}

Test(predict_links, scores_and_partners_are_those_of_the_rows_with_the_same_bits_for_any_workers)
{
    static const char *const files[] = {"logits.npy", "scores.npy", "partners.npy", "partner_scores.npy"};
    questions_write();
    job_run(LINK "--set output.dir=o");
    for (int n_worker = 1; n_worker <= 4; n_worker *= 2) {
        char dir[16];
        snprintf(dir, sizeof dir, "p%d", n_worker);
        job_run("--set predict.model=o " ASK "--set predict.known=true --set workers.count=%d --set output.dir=%s",
                n_worker, dir);
        for (int f = 0; f < 4; f++) {
            results_expect_same_file(folder_path("p1"), folder_path(dir), files[f]);
        }
    }
    struct npy rows = array_of("p1", "logits.npy", NPY_TYPE_F32, 2);
    cr_assert(rows.shape[0] == N && rows.shape[1] == WIDTH);
    expect_scores("p1", &rows);
    expect_partners("p1", &rows);
    npy_close(&rows);
    json_t *result = results_of("p1");
    /* metrics.jsonl and these: no classes are predicted */
    cr_expect_eq(json_object_size(json_object_get(result, "files")), 1 + 4);
    cr_expect(json_is_null(json_object_get(json_object_get(result, "metrics"), "test")));
    results_expect_memory(result, "all", "links");
    json_decref(result);
    cr_expect_not_null(strstr(job_run_log, "no edge is held out of a prediction"), "%s", job_run_log);
    cr_expect_not_null(strstr(job_run_log, "500 pairs scored, in scores.npy"), "%s", job_run_log);
    cr_expect_not_null(strstr(job_run_log, "12 partners each of 40 nodes, in partners.npy and partner_scores.npy"),
                       "%s", job_run_log);
}

/* A path of six nodes, and one node apart. */
static void path_write(void)
{
    const int64_t edges[2][5] = {{0, 1, 2, 3, 4}, {1, 2, 3, 4, 5}}, nodes[2] = {1, 6};
    float features[7][24];
    for (int i = 0; i < 7 * 24; i++) {
        features[i / 24][i % 24] = sinf((float)i);
    }
    cr_assert_eq(mkdir(folder_path("g"), 0777), 0);
    cr_assert_eq(npy_save(folder_path("g/edges.npy"), NPY_TYPE_I64, 2, (int64_t[]){2, 5}, edges), STATUS_OK);
    cr_assert_eq(npy_save(folder_path("g/features.npy"), NPY_TYPE_F32, 2, (int64_t[]){7, 24}, features), STATUS_OK);
    cr_assert_eq(npy_save(folder_path("two.npy"), NPY_TYPE_I64, 1, (int64_t[]){2}, nodes), STATUS_OK);
}

#define PATH "--set dataset.generator=none --set dataset.path=g --set partition.parts=2 "

Test(predict_links, partners_leave_out_nodes_that_an_edge_joins_and_fill_up_with_minus_one)
{
    path_write();
    job_run(LINK "--set output.dir=o");
    job_run(PATH "--set predict.model=o --set predict.nodes=two.npy --set predict.best=6 --set output.dir=p");
    job_run(PATH "--set predict.model=o --set predict.nodes=two.npy --set predict.best=6 --set predict.known=true "
                 "--set output.dir=q");
    struct npy left = array_of("p", "partners.npy", NPY_TYPE_I64, 2),
               scores = array_of("p", "partner_scores.npy", NPY_TYPE_F32, 2),
               all = array_of("q", "partners.npy", NPY_TYPE_I64, 2);
    for (int64_t at = 0; at < 6; at++) {
        int64_t node = npy_int(&left, at);
        cr_expect(at < 4 ? node >= 3 : node == -1, "place %d: %d", (int)at, (int)node);
        cr_expect_eq(isnan(npy_real(&scores, at)) != 0, at >= 4);
        cr_expect(npy_int(&all, at) >= 0 && npy_int(&all, at) != 1);
        cr_expect_eq(npy_int(&left, 6 + at), npy_int(&all, 6 + at), "node 6 has no edge");
    }
    npy_close(&all);
    npy_close(&scores);
    npy_close(&left);
}

Test(predict_links, the_rows_are_the_trainings_bit_for_bit_where_it_held_no_edge_out)
{
    static const char *const cases[] = {"--set model.kind=gcn", "--set model.kind=sage --set exchange.sampling=0.5",
                                        "--set model.kind=gat", "--set model.kind=gcn --set dataset.features=learned",
                                        "--set model.kind=gin --set model.norm=batch"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (ways_skip(i, sizeof cases / sizeof *cases)) {
            continue;
        }
        char o[8], p[8], q[8];
        snprintf(o, sizeof o, "o%zu", i);
        snprintf(p, sizeof p, "p%zu", i);
        snprintf(q, sizeof q, "q%zu", i);
        job_run(LINK "%s --set task.valid_share=0 --set task.test_share=0 --set output.dir=%s", cases[i], o);
        job_run("--set predict.model=%s --set workers.count=1 --set output.dir=%s", o, p);
        results_expect_same_file(folder_path(o), folder_path(p), "logits.npy");
        job_run("--set predict.model=%s --set memory.spill=. --set output.dir=%s", o, q);
        results_expect_same_file(folder_path(o), folder_path(q), "logits.npy");
    }
}

/* The edges that a training holds out make another graph of the prediction, and the same nodes. */
Test(predict_links, learned_features_go_with_the_whole_graph_of_the_same_nodes)
{
    job_run(LINK "--set dataset.features=learned --set output.dir=o");
    job_run("--set predict.model=o --set output.dir=p");
    job_run_expect(65, "dataset 'sbm' has 301 feature columns, expected 300, as many as the model in 'o' was", "",
                   "--set predict.model=o --set dataset.nodes=301 --set output.dir=q");
}

Test(predict_links, weights_of_another_program_need_the_task_in_the_job)
{
    questions_write();
    job_run(LINK "--set output.dir=o");
    job_run("--set predict.model=o " ASK "--set output.dir=p");
    cr_assert_eq(link(folder_path("o/best.safetensors"), folder_path("w.safetensors")), 0);
    job_run("--set task.kind=link --set predict.model=w.safetensors " ASK "--set output.dir=q");
    results_expect_same_file(folder_path("p"), folder_path("q"), "logits.npy");
    results_expect_same_file(folder_path("p"), folder_path("q"), "scores.npy");
    results_expect_same_file(folder_path("p"), folder_path("q"), "partners.npy");
    job_run_expect(78,
                   "predict.pairs does not go with 'w.safetensors', a model of nodes: expected one that was trained "
                   "with task.kind = \"link\"",
                   "", "--set predict.model=w.safetensors " ASK "--set output.dir=r");
}

Test(predict_links, what_cannot_be_asked_is_refused_with_the_reason)
{
    static const struct {
        int code;
        const char *settings, *reason;
    } refused[] = {
        {65, "--set predict.model=o --set predict.pairs=nodes.npy",
         "predict.pairs: nodes.npy: has shape [40], expected [2, any]"},
        {65, "--set predict.model=o --set dataset.nodes=20 --set predict.nodes=nodes.npy",
         "predict.nodes: nodes.npy: position 2: node 22 is out of range, expected 0 to 19, the nodes"},
        {66, "--set predict.model=o --set predict.nodes=nowhere", "predict.nodes: nowhere: "},
        {78, "--set predict.model=n --set predict.nodes=nodes.npy",
         "predict.nodes does not go with 'n/best.safetensors', a model of nodes"},
        {78, "--set predict.model=o --set predict.nodes=nodes.npy --set predict.relation=0",
         "predict.relation does not go with 'o/best.safetensors', whose scores know no relations"},
        {78, "--set predict.model=o --set output.probabilities=true",
         "output.probabilities does not go with 'o/best.safetensors'"},
        {78, LINK "--set predict.nodes=nodes.npy",
         "predict.nodes asks a trained model: expected predict.model beside it, or --predict MODEL"},
    };
    questions_write();
    job_run(LINK "--set output.dir=o");
    job_run("--set output.dir=n");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        int code = job_run_code("", "%s --set output.dir=x", refused[i].settings);
        cr_expect_eq(code, refused[i].code, "%s: %s", refused[i].settings, job_run_log);
        cr_expect_not_null(strstr(job_run_log, refused[i].reason), "%s: %s", refused[i].settings, job_run_log);
        cr_expect_not(folder_has("x"), "%s", refused[i].settings);
    }
}
