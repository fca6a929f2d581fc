/* Samples of payload rows stand for all of them: over many samples a sum and its adjoint have the mean of the exact ones, for every pair
 * of parts, however few rows it has; of a softmax its numerators and denominators do.
 */
#include "tests/support/executor_parts.h"
#include "tests/support/sanitized.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    N_PART = 4,
    N_EACH = 12,
    N_NODE = N_PART * N_EACH,
    WIDTH = 2,
    N_COLUMN = N_PART * WIDTH,
    N_SAMPLE = SANITIZED ? 500 : 10000
};

#define P 0.1

/* Edges within 4 standard errors of the exact value, and rounding. */
#define SIGMAS 4.0
#define ROUNDING 1e-5

static struct test_graph graph;
static int32_t owner[N_NODE];
static float features[N_NODE * N_COLUMN];
static int32_t labels[N_NODE];
static uint8_t split[N_NODE];

/* Parts 0, 1 and 2 share many edges; to part 3 lead edges of one row of part 0 and of two rows of part 1. */
static void begin(void)
{
    int64_t from[2000], to[2000], n = 0;
    for (int64_t u = 0; u < N_NODE; u++) {
        owner[u] = (int32_t)(u / N_EACH);
        split[u] = DATASET_SPLIT_TRAIN;
        for (int64_t v = 0; v < N_NODE; v++) {
            int64_t i = v / N_EACH, j = u / N_EACH, row = u % N_EACH;
            bool few = i == 3 && j != 3 && row >= (j == 0 ? 1 : j == 1 ? 2 : 0);
            if (u != v && !few && test_number(7, (uint64_t)u, (uint32_t)v) < (i == 3 ? 0.0F : -0.5F)) {
                from[n] = u;
                to[n++] = v;
            }
        }
    }
    test_graph_from_edges(N_NODE, n, from, to, DATASET_LOOPS_IMPLICIT, &graph);
    for (int64_t v = 0; v < N_NODE; v++) { /* a part's rows have columns of their own */
        for (int64_t c = 0; c < N_COLUMN; c++) {
            features[v * N_COLUMN + c] = c / WIDTH == owner[v] ? test_number(1, (uint64_t)v, (uint32_t)c) : 0.0F;
        }
    }
}

static void end(void)
{
    test_graph_release(&graph);
}

TestSuite(sampling, .init = begin, .fini = end, .timeout = 1800);

/* Numbers whose mean over samples is compared with the exact one: one for each pair of parts and direction. */
enum { N_NUMBER = 2 * N_PART * N_PART };

struct run {
    struct program program;
    int in, out; /* values around the aggregate */
    struct executor *executor;
    float weights[8 * N_COLUMN * N_COLUMN];
};

static void run_open(enum aggregate_kind kind, bool samples, struct run *r)
{
    const struct program_input input = {.n_feature = N_COLUMN, .n_class = N_COLUMN};
    program_init(&input, &r->program);
    int weight = program_param(&r->program, "weight", N_COLUMN, N_COLUMN, 0.0);
    r->in = program_linear(&r->program, 0, weight, -1);
    if (kind == AGGREGATE_KIND_GAT) {
        static const int64_t shape[] = {1, N_PART, WIDTH};
        int key = program_tensor(&r->program, "key", 3, shape, 0.0),
            query = program_tensor(&r->program, "query", 3, shape, 0.0);
        const struct op op = {
            .kind = OP_KIND_AGGREGATE,
            .aggregate = AGGREGATE_KIND_GAT,
            .n_head = N_PART,
            .a = 0.2F,
            .in = {r->in, program_head_dot(&r->program, r->in, key), program_head_dot(&r->program, r->in, query)},
            .param = {-1, -1}};
        r->out = program_attention(&r->program, &op);
    } else {
        r->out = program_aggregate(&r->program, r->in, kind);
    }
    r->program.samples = samples;
    program_hops(&r->program);
    const struct executor_setup setup = {.program = &r->program,
                                         .ops = &device_cpu,
                                         .graph = &graph,
                                         .n_part = N_PART,
                                         .owner = owner,
                                         .features = features,
                                         .labels = labels,
                                         .split = split,
                                         .seed = 5,
                                         .training = true,
                                         .sampling = P};
    r->executor = executor_open(&setup);
    for (int p = 0; p < r->program.n_param; p++) {
        for (int64_t i = 0; i < parameter_size(&r->program.param[p]); i++) {
            float one = p > 0 ? test_number(3, (uint64_t)p, (uint32_t)i) : i % (N_COLUMN + 1) == 0 ? 1.0F : 0.0F;
            r->weights[r->program.param[p].offset + i] = one;
        }
    }
}

static void run_close(struct run *r)
{
    executor_close(r->executor);
    program_release(&r->program);
}

/* Σ of an array's rows of part `own` in the columns of part `other`, each times a fixed random number. */
static double projection(const float *rows, int own, int other)
{
    double sum = 0.0;
    for (int64_t r = 0; r < N_EACH; r++) {
        for (int64_t c = other * WIDTH; c < (other + 1) * WIDTH; c++) {
            sum += (double)test_number(11, (uint64_t)(own * N_EACH + r), (uint32_t)c) * rows[r * N_COLUMN + c];
        }
    }
    return sum;
}

/* What each part gets of each other one forward; and backward, for a fixed gradient that a part's rows have in its own columns. */
static void sums_find(struct run *r, double number[N_NUMBER])
{
    static float grad[N_NODE * N_COLUMN];
    float none[sizeof r->weights / sizeof *r->weights];
    executor_forward(r->executor, r->weights);
    for (int i = 0; i < N_PART; i++) {
        struct executor_part *part = &r->executor->part[i];
        for (int j = 0; j < N_PART; j++) {
            number[i * N_PART + j] = projection(part->value[r->out], i, j);
        }
        for (int64_t k = 0; k < (int64_t)N_EACH * N_COLUMN; k++) {
            grad[k] = k % N_COLUMN / WIDTH == i ? test_number(13, (uint64_t)i, (uint32_t)k) : 0.0F;
        }
        device_cpu.copy(r->executor->device, part->grad[r->out], grad, N_EACH * N_COLUMN * sizeof *grad);
    }
    executor_backward(r->executor, none);
    for (int j = 0; j < N_PART; j++) {
        for (int i = 0; i < N_PART; i++) {
            number[N_PART * N_PART + j * N_PART + i] = projection(r->executor->part[j].grad[r->in], j, i);
        }
    }
}

/* Denominators Σ exp(score) of each part's rows, and numerators, softmax times them: in the place of both directions. */
static void softmax_find(struct run *r, double number[N_NUMBER])
{
    executor_forward(r->executor, r->weights);
    for (int i = 0; i < N_PART; i++) {
        const struct executor_part *part = &r->executor->part[i];
        const float *state = part->saved[r->program.n_op - 1][0];
        float above[N_EACH * N_COLUMN], below[N_EACH * N_COLUMN];
        for (int64_t k = 0; k < (int64_t)N_EACH * N_COLUMN; k++) { /* a head has WIDTH columns */
            below[k] = expf(state[2 * (k / WIDTH)]);
            above[k] = part->value[r->out][k] * below[k];
        }
        for (int h = 0; h < N_PART; h++) {
            number[i * N_PART + h] = projection(above, i, h);
            number[N_PART * N_PART + i * N_PART + h] = projection(below, i, h);
        }
    }
}

static void check(const char *what, enum aggregate_kind kind, void (*find)(struct run *, double *))
{
    double exact[N_NUMBER], number[N_NUMBER], sum[N_NUMBER] = {0.0}, square[N_NUMBER] = {0.0};
    struct run all, some;
    run_open(kind, false, &all);
    find(&all, exact);
    run_close(&all);
    run_open(kind, true, &some);
    for (uint32_t epoch = 0; epoch < N_SAMPLE; epoch++) {
        executor_epoch(some.executor, epoch);
        find(&some, number);
        for (int k = 0; k < N_NUMBER; k++) {
            sum[k] += number[k] - exact[k];
            square[k] += (number[k] - exact[k]) * (number[k] - exact[k]);
        }
    }
    run_close(&some);
    int n_random = 0;
    for (int k = 0; k < N_NUMBER; k++) {
        double bias = sum[k] / N_SAMPLE, error = sqrt((square[k] / N_SAMPLE - bias * bias) / N_SAMPLE);
        n_random += error > 0.0;
        cr_expect_leq(fabs(bias), SIGMAS * error + ROUNDING * fabs(exact[k]),
                      "%s, number %d: exact %.6g, off by %.3g, standard error %.3g", what, k, exact[k], bias, error);
    }
    cr_expect_geq(n_random, N_PART * (N_PART - 1), "%s: %d numbers are random", what, n_random);
}

/* Pairs with one and with two rows are among them: others never sample these. */
Test(sampling, the_mean_of_sampled_sums_and_of_their_adjoints_is_the_exact_one_for_every_pair)
{
    struct run run;
    run_open(AGGREGATE_KIND_SUM, true, &run);
    cr_assert_eq(run.executor->part[3].block[PART_DIRECTION_IN][0].block.n_col, 1);
    cr_assert_eq(run.executor->part[3].block[PART_DIRECTION_IN][1].block.n_col, 2);
    run_close(&run);
    check("sum", AGGREGATE_KIND_SUM, sums_find);
    check("mean", AGGREGATE_KIND_MEAN, sums_find);
    check("gcn", AGGREGATE_KIND_GCN, sums_find);
    test_graph_weights(&graph, 9);
    check("gcn with weights", AGGREGATE_KIND_GCN, sums_find);
}

Test(sampling, the_mean_of_a_sampled_softmaxs_numerators_and_denominators_is_the_exact_one)
{
    check("gat", AGGREGATE_KIND_GAT, softmax_find);
}
