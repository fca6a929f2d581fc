#include "worker/exchange/traffic.h"

#include "worker/exchange/exchange.h"

#include <criterion/criterion.h>
#include <string.h>

enum { N_RANK = 3 };

static struct program program;
static struct traffic *traffic;
static int op_of_layer[2];

static void begin(void)
{
    static struct job job;
    static const char text[] = "[dataset]\npath = \"x\"\n[model]\nkind = \"gcn\"\nlayers = 3\nhidden = 16\n";
    cr_assert_eq(job_load_text(text, strlen(text), "test", NULL, 0, &job), STATUS_OK, "%s", status_reason());
    cr_assert_eq(program_build(&job, &(struct program_input){.facts = {.n_feature = 64, .n_class = 8}}, &program),
                 STATUS_OK);
    cr_assert_eq(program_n_layer(&program), 2, "the first layer's aggregate is static");
    for (int i = 0; i < program.n_op; i++) {
        int layer = program_layer(&program, i);
        if (layer >= 0) {
            op_of_layer[layer] = i;
        }
    }
    cr_assert_eq(traffic_open(&program, N_RANK, &traffic), STATUS_OK);
}

static void end(void)
{
    traffic_close(traffic);
    program_release(&program);
}

TestSuite(traffic, .init = begin, .fini = end);

static void add(enum exchange_phase phase, int layer, uint32_t peer, size_t n_bytes)
{
    traffic_add(traffic, (uint32_t)phase, (uint16_t)(layer >= 0 ? op_of_layer[layer] : 60000), peer, n_bytes);
}

/* The counted bytes of one row and sender. */
static uint64_t counted(int row, uint32_t peer)
{
    size_t n_bytes;
    const struct traffic_head *head = traffic_content(traffic, &n_bytes);
    const uint64_t *table = (const uint64_t *)(const void *)(head + 1);
    cr_assert_eq(n_bytes, sizeof *head + (size_t)traffic_n_row(2) * N_RANK * sizeof *table);
    return table[row * N_RANK + (int)peer];
}

Test(traffic, bytes_are_told_apart_by_layer_direction_and_sender)
{
    traffic_epoch(traffic);
    traffic_phase(traffic, STEP_PHASE_TRAIN, false);
    add(EXCHANGE_PHASE_FORWARD, 0, 1, 10);
    add(EXCHANGE_PHASE_FORWARD, 0, 2, 20);
    add(EXCHANGE_PHASE_BACKWARD, 1, 1, 3);
    add(EXCHANGE_PHASE_BACKWARD_2, 1, 1, 4);
    add(EXCHANGE_PHASE_ASK, 1, 1, 5);
    add(EXCHANGE_PHASE_REDUCE, -1, 2, 100);
    add(EXCHANGE_PHASE_BROADCAST, -1, 0, 200);
    traffic_phase(traffic, STEP_PHASE_EVALUATE, false);
    add(EXCHANGE_PHASE_EVALUATE, 1, 0, 7);
    add(EXCHANGE_PHASE_REDUCE, -1, 2, 50);
    cr_expect_eq(counted(traffic_row(0, TRAFFIC_FORWARD), 1), 10);
    cr_expect_eq(counted(traffic_row(0, TRAFFIC_FORWARD), 2), 20);
    cr_expect_eq(counted(traffic_row(0, TRAFFIC_BACKWARD), 1), 0);
    cr_expect_eq(counted(traffic_row(1, TRAFFIC_BACKWARD), 1), 12, "rows that gradients are made of are backward's");
    cr_expect_eq(counted(traffic_row(1, TRAFFIC_EVALUATE), 0), 7);
    cr_expect_eq(counted(traffic_row_sums(2, 0), 2), 100);
    cr_expect_eq(counted(traffic_row_sums(2, 0), 0), 200);
    cr_expect_eq(counted(traffic_row_sums(2, 1), 2), 50);
}

Test(traffic, an_epoch_forgets_the_one_before_and_the_sum_does_not)
{
    for (int epoch = 0; epoch < 3; epoch++) {
        traffic_epoch(traffic);
        traffic_phase(traffic, STEP_PHASE_TRAIN, false);
        add(EXCHANGE_PHASE_FORWARD, 0, 1, 8);
        add(EXCHANGE_PHASE_FORWARD, 0, 2, 8);
    }
    int n_layer;
    const uint64_t *now = traffic_layers(traffic, &n_layer);
    size_t n_bytes;
    const struct traffic_head *head = traffic_content(traffic, &n_bytes);
    cr_expect_eq(n_layer, 2);
    cr_expect_eq(now[traffic_row(0, TRAFFIC_FORWARD)], 16);
    cr_expect_eq(now[traffic_row(1, TRAFFIC_FORWARD)], 0);
    cr_expect_eq(counted(traffic_row(0, TRAFFIC_FORWARD), 1), 24);
    cr_expect_eq(head->n_train, 3);
    cr_expect_eq(head->n_evaluate, 0);
}

Test(traffic, what_arrives_before_the_first_epoch_is_not_counted)
{
    add(EXCHANGE_PHASE_STATIC, 0, 1, 8);
    for (uint32_t peer = 0; peer < N_RANK; peer++) {
        for (int row = 0; row < traffic_n_row(2); row++) {
            cr_expect_eq(counted(row, peer), 0);
        }
    }
}

Test(traffic, every_row_of_a_table_is_trainings_or_evaluations)
{
    int n = 0;
    for (int row = 0; row < traffic_n_row(4); row++) {
        n += traffic_row_evaluates(4, row);
    }
    cr_expect_eq(n, 5, "a row for each layer, and the sums");
    cr_expect(traffic_row_evaluates(4, traffic_row(3, TRAFFIC_EVALUATE)));
    cr_expect_not(traffic_row_evaluates(4, traffic_row(3, TRAFFIC_BACKWARD)));
    cr_expect(traffic_row_evaluates(4, traffic_row_sums(4, 1)));
    cr_expect_not(traffic_row_evaluates(4, traffic_row_sums(4, 0)));
}
