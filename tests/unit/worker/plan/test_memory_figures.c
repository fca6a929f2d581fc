/* The promises about memory and traffic, exactly, from plans alone. The parts are those of a graph that is hard to cut: every row of
 * each is read by all others, as nearly so in 200 000 nodes of degree 100 in eight parts. */
#include "protocol/job/job_keys.h"
#include "tests/support/model/halo_table.h"
#include "tests/support/model/memory_need.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

#define N_PART 8
#define N_OWN 25000

static const char sage[] = "kind = \"sage\"\nlayers = 3\nhidden = 256\ndropout = 0.5";
static const char gat[] =
    "kind = \"gat\"\nlayers = 3\nhidden = 64\nheads = 4\ndropout = 0.5\nattention_dropout = 0.5";
static const char gcn[] = "kind = \"gcn\"\nlayers = 3\nhidden = 256\ndropout = 0.5";

static int64_t n_edge_feature;
static int32_t n_relation;

static struct memory_need need_of(const char *model, int64_t n_feature, int64_t degree, int n_rank, int prefetch,
                                  const char *recompute)
{
    static int64_t rows[N_PART][N_PART];
    static struct part_sizes sizes[N_PART];
    for (int p = 0; p < N_PART; p++) {
        for (int q = 0; q < N_PART; q++) {
            rows[p][q] = p == q ? 0 : N_OWN;
        }
        sizes[p] = (struct part_sizes){.n_own = N_OWN, .n_edge = degree * N_OWN, .n_bytes = degree * N_OWN * 4};
    }
    for (int p = 0; p < N_PART; p++) {
        halo_table(N_PART, rows[0], rows[0], p, &sizes[p].halo);
    }
    const struct memory_parts parts = {.n_part = N_PART,
                                       .sizes = sizes,
                                       .n_feature = n_feature,
                                       .n_class = 8,
                                       .n_edge_feature = n_edge_feature,
                                       .n_relation = n_relation};
    struct memory_need need = memory_need(&parts, model, n_rank, prefetch, recompute);
    for (int p = 0; p < N_PART; p++) {
        part_halo_release(&sizes[p].halo);
    }
    return need;
}

static struct memory_need need(const char *model, int64_t degree, int n_rank, int prefetch, const char *recompute)
{
    return need_of(model, 32, degree, n_rank, prefetch, recompute);
}

/* `times`: by prefetch, how many times less each of eight workers needs. */
static void expect_falls(const char *model, const char *recompute, const double times[2])
{
    int64_t one = need(model, 100, 1, 0, recompute).own;
    for (int prefetch = 0; prefetch < 2; prefetch++) {
        int64_t eight = need(model, 100, 8, prefetch, recompute).own;
        cr_expect_geq((double)one, times[prefetch] * (double)eight, "%s\nprefetch %d: %.2f times less", model,
                      prefetch, (double)one / (double)eight);
    }
}

/* Fused chains save one worker's SAGE a fifth, its peak being between aggregates; that of eight is in a halo pass, with its payload. */
Test(memory_figures, eight_workers_need_six_times_less_each_and_five_times_with_a_payload_ahead)
{
    const double gat_times[2] = {6, 5}, sage_times[2] = {5.9, 4.8};
    expect_falls(sage, "never", sage_times);
    expect_falls(sage, "always", sage_times);
    expect_falls(gat, "never", gat_times);
    expect_falls(gat, "always", gat_times);
}

Test(memory_figures, sage_needs_few_arrays_of_its_rows_and_each_of_eight_workers_one_payload_more)
{
    const int64_t array = (int64_t)N_OWN * 256 * 4;
    cr_expect_leq((double)need(sage, 100, 1, 0, "never").own, 3.3 * N_PART * (double)array);
    for (int prefetch = 0; prefetch < 2; prefetch++) {
        cr_expect_leq((double)need(sage, 100, 8, prefetch, "never").own, (4.3 + prefetch) * (double)array);
    }
}

Test(memory_figures, sage_needs_half_of_the_vanilla_scheme_and_gat_a_quarter)
{
    for (int prefetch = 0; prefetch < 2; prefetch++) {
        struct memory_need a = need(sage, 100, 8, prefetch, "never"), b = need(gat, 100, 8, prefetch, "always");
        cr_expect_geq(a.vanilla, 2 * a.own, "sage, prefetch %d: %.2f", prefetch, (double)a.vanilla / (double)a.own);
        cr_expect_geq(b.vanilla, 4 * b.own, "gat, prefetch %d: %.2f", prefetch, (double)b.vanilla / (double)b.own);
    }
}

Test(memory_figures, gat_needs_less_than_three_times_what_gcn_does_at_any_degree)
{
    int64_t few = need(gat, 20, 1, 0, "always").own, many = need(gat, 200, 1, 0, "always").own;
    int64_t plain = need(gcn, 20, 1, 0, "always").own;
    cr_expect_eq(few, many, "edges × heads: %ld bytes at degree 20, %ld at 200", (long)few, (long)many);
    cr_expect_eq(plain, need(gcn, 200, 1, 0, "always").own);
    cr_expect_leq((double)few, 2.8 * (double)plain, "%.3f", (double)few / (double)plain);
    cr_expect_leq((double)plain, 2.3 * N_PART * N_OWN * 256 * 4, "%.3f",
                  (double)plain / (N_PART * N_OWN * 256 * 4.0));
}

Test(memory_figures, gat_sends_five_percent_more_than_its_rows_there_and_their_gradients_back)
{
    struct memory_need travels = need(gat, 100, 8, 1, "always");
    cr_expect_leq((double)travels.n_wire, 1.05 * (double)travels.n_wire_least, "%.3f",
                  (double)travels.n_wire / (double)travels.n_wire_least);
    cr_expect_eq(travels.n_wire, need(gat, 100, 8, 0, "never").n_wire, "what is made again is not sent again");
}

/* Present, gradient, best and Adam's two, of 64 floats; the weights behind them come on top. */
Test(memory_figures, embeddings_of_all_nodes_take_an_eighth_on_each_of_eight_workers)
{
    static const char narrow[] = "kind = \"gcn\"\nhidden = 64";
    const int64_t embeddings = (int64_t)5 * N_PART * N_OWN * 64 * 4;
    struct memory_need one = need_of(narrow, 0, 20, 1, 1, "never"), eight = need_of(narrow, 0, 20, 8, 1, "never");
    cr_expect_geq(one.parameters, embeddings);
    cr_expect_leq(one.parameters, embeddings + (1 << 16));
    cr_expect_geq(eight.parameters, embeddings / 8);
    cr_expect_leq(eight.parameters, embeddings / 8 + (1 << 16));
}

Test(memory_figures, texts_of_the_library_need_no_more_where_nodes_have_ten_times_the_edges)
{
    glob_t found;
    cr_assert_eq(glob("configs/programs/*.gnn", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char model[512], text[VERTEX_TEXT_MOST + 1];
        cr_assert_eq(job_text_read(JOB_KEY_model_program, found.gl_pathv[i], text), STATUS_OK);
        const char *widths = strstr(text, "hidden=64, layers=2") != NULL ? "args.hidden = 64"
                             : strstr(text, "def model(") != NULL        ? ""
                                                                         : "layers = 2\nhidden = 64";
        n_relation = strstr(found.gl_pathv[i], "rgcn") != NULL ? 3 : 0;
        n_edge_feature = n_relation > 0 ? 0 : 2;
        snprintf(model, sizeof model, "kind = 'program'\nprogram = '%s'\n%s", found.gl_pathv[i], widths);
        for (int n_rank = 1; n_rank <= N_PART; n_rank += N_PART - 1) {
            int64_t few = need(model, 20, n_rank, 1, "auto").own, many = need(model, 200, n_rank, 1, "auto").own;
            cr_expect_leq((double)many, 1.02 * (double)few, "%s, %d workers: %.3f times", model, n_rank,
                          (double)many / (double)few);
        }
    }
    globfree(&found);
}
