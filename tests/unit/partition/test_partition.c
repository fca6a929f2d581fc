#include "partition/part/partition.h"
#include "protocol/base/clock.h"
#include "tests/support/graphs/tiny_graph.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct job job_of(int n_part, int method)
{
    struct job job;
    job_defaults(&job);
    job.partition.parts = n_part;
    job.partition.method = method;
    snprintf(job.partition.cache, sizeof job.partition.cache, "off");
    return job;
}

static const struct tiny_graph directed = {
    .n_node = 90, .n_draw = 500, .loops = true, .features = TINY_FEATURES_NONE};
static const struct tiny_graph symmetric = {
    .n_node = 90, .n_draw = 250, .symmetric = true, .features = TINY_FEATURES_NONE};

/* owner, part_begin and order say the same, no part is empty. */
static void is_whole(const struct partition *p, int64_t n_node, int32_t n_part)
{
    uint8_t *seen = calloc((size_t)n_node, 1);
    cr_assert_eq(p->n_part, n_part);
    cr_assert_eq(p->n_node, n_node);
    cr_assert_eq(p->part_begin[0], 0);
    cr_assert_eq(p->part_begin[n_part], n_node);
    for (int32_t part = 0; part < n_part; part++) {
        cr_assert_lt(p->part_begin[part], p->part_begin[part + 1], "part %d of %d is empty", part, n_part);
        for (int64_t i = p->part_begin[part]; i < p->part_begin[part + 1]; i++) {
            cr_assert_eq(p->owner[p->order[i]], part);
            cr_assert(!seen[p->order[i]]);
            seen[p->order[i]] = 1;
        }
    }
    free(seen);
}

static void build_and_check(const struct dataset *dataset, const struct job *job)
{
    struct partition a, b;
    expect_done(partition_build(dataset, job, &a));
    is_whole(&a, dataset->n_node, (int32_t)job->partition.parts);
    cr_assert_eq(partition_build(dataset, job, &b), STATUS_OK);
    cr_assert_eq(memcmp(a.order, b.order, (size_t)a.n_node * sizeof *a.order), 0, "built twice, two orders");
    cr_assert_eq(memcmp(a.owner, b.owner, (size_t)a.n_node * sizeof *a.owner), 0, "built twice, two owners");
    partition_release(&a);
    partition_release(&b);
}

Test(partition, every_method_objective_and_balance_shares_out_all_nodes_and_repeats)
{
    const int n_parts[] = {1, 2, 5, 16, 89, 90};
    for (int g = 0; g < 2; g++) {
        struct dataset dataset = tiny_build(g == 0 ? &directed : &symmetric);
        for (int k = 0; k < 6; k++) {
            for (int method = JOB_METHOD_METIS; method <= JOB_METHOD_RANDOM; method++) {
                for (int balance = 0; balance < JOB_BALANCE_N; balance++) {
                    for (int objective = 0; objective < JOB_OBJECTIVE_N; objective++) {
                        struct job job = job_of(n_parts[k], method);
                        job.partition.balance = balance;
                        job.partition.objective = objective;
                        build_and_check(&dataset, &job);
                    }
                }
            }
        }
        tiny_release(&dataset);
    }
}

Test(partition, graphs_without_edges_and_single_nodes_are_shared_out_too)
{
    struct dataset dataset = tiny_from_edges(12, 0, NULL, true);
    struct dataset one = tiny_from_edges(1, 0, NULL, false);
    for (int method = JOB_METHOD_METIS; method <= JOB_METHOD_RANDOM; method++) {
        struct job job = job_of(5, method), single = job_of(1, method);
        build_and_check(&dataset, &job);
        build_and_check(&one, &single);
    }
    tiny_release(&dataset);
    tiny_release(&one);
}

Test(partition, a_star_leaves_no_part_empty)
{
    for (uint32_t hub = 0; hub < 40; hub += 39) { /* all the weight is in the first range, or in the last */
        uint32_t pair[39][2];
        for (uint32_t i = 0; i < 39; i++) {
            pair[i][0] = hub;
            pair[i][1] = i + (i >= hub);
        }
        struct dataset dataset = tiny_from_edges(40, 39, (const uint32_t(*)[2])pair, true);
        for (int n_part = 2; n_part <= 40; n_part += 7) {
            for (int method = JOB_METHOD_METIS; method <= JOB_METHOD_RANDOM; method++) {
                struct job job = job_of(n_part, method);
                build_and_check(&dataset, &job);
            }
        }
        tiny_release(&dataset);
    }
}

Test(partition, more_parts_than_nodes_is_a_bad_job)
{
    struct dataset dataset = tiny_from_edges(3, 0, NULL, true);
    struct job job = job_of(4, JOB_METHOD_BLOCK);
    struct partition partition;
    cr_assert_eq(partition_build(&dataset, &job, &partition), STATUS_CONFIG);
    cr_assert_str_eq(status_reason(), "partition.parts = 4, expected at most the graph's 3 nodes");
    tiny_release(&dataset);
}

Test(partition, parts_that_a_job_leaves_out_follow_from_the_numbers_of_nodes_and_edges_alone)
{
    const struct {
        int64_t n_node, n_edge;
        int32_t n_part;
    } rows[] = {{34, 156, 8},
                {1, 0, 1},
                {7, 12, 7},
                {100000, 2000000, 8},
                {1 << 20, (31 << 20) + 7, 8},
                {1 << 20, (31 << 20) + 8, 16},
                {2449029, 123718280, 32},
                {111059956, 3228124712, 64}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_assert_eq(partition_parts_default(rows[i].n_node, rows[i].n_edge), rows[i].n_part, "row %zu", i);
    }
    struct dataset dataset = tiny_from_edges(40, 0, NULL, true);
    for (int n_worker = 1; n_worker <= 8; n_worker++) {
        struct job job = job_of(0, JOB_METHOD_METIS);
        job.workers.count = n_worker;
        cr_assert_eq(partition_parts_choose(&dataset, &job), STATUS_OK);
        cr_assert_eq(job.partition.parts, 8);
    }
    struct job job = job_of(0, JOB_METHOD_METIS);
    job.workers.count = 9;
    expect_fails(partition_parts_choose(&dataset, &job), STATUS_CONFIG,
                 "workers.count = 9 is more than partition.parts, which is 8 for");
    job = job_of(5, JOB_METHOD_METIS);
    cr_assert_eq(partition_parts_choose(&dataset, &job), STATUS_OK);
    cr_assert_eq(job.partition.parts, 5, "what is given stays");
    tiny_release(&dataset);
}

Test(partition, metis_finds_two_cliques_joined_by_an_edge_whatever_the_direction)
{
    uint32_t pair[57][2];
    int n = 0;
    for (uint32_t a = 0; a < 8; a++) {
        for (uint32_t b = a + 1; b < 8; b++) {
            pair[n][0] = 2 * a; /* one clique on the even nodes, one on the odd ones */
            pair[n++][1] = 2 * b;
            pair[n][0] = 2 * a + 1;
            pair[n++][1] = 2 * b + 1;
        }
    }
    pair[n][0] = 0;
    pair[n++][1] = 1;
    for (int is_symmetric = 0; is_symmetric < 2; is_symmetric++) {
        struct dataset dataset = tiny_from_edges(16, n, (const uint32_t(*)[2])pair, is_symmetric);
        struct job job = job_of(2, JOB_METHOD_METIS);
        job.partition.balance = JOB_BALANCE_NODES;
        struct partition partition;
        struct partition_quality quality;
        cr_assert_eq(partition_build(&dataset, &job, &partition), STATUS_OK);
        cr_assert_eq(partition_measure(&dataset, &partition, &quality), STATUS_OK);
        cr_assert_eq(quality.n_cut, 1 + is_symmetric);
        cr_assert_eq(quality.n_halo, 1 + is_symmetric);
        cr_assert_float_eq(quality.imbalance_node, 1.0, 1e-12);
        partition_release(&partition);
        tiny_release(&dataset);
    }
}

static void leave_as_told(int number)
{
    _exit(100 + number);
}

/* Partition one graph for ever; a SIGTERM comes after so many milliseconds. */
_Noreturn static void partition_until_told(long after_ms)
{
    struct job job = job_of(8, JOB_METHOD_METIS);
    struct dataset dataset;
    job.dataset.generator = JOB_GENERATOR_RMAT;
    job.dataset.nodes = 1 << 13;
    job.dataset.features = 1;
    signal(SIGTERM, leave_as_told);
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGTERM};
    struct itimerspec when = {.it_value = {.tv_nsec = after_ms * 1000000}};
    if (dataset_load(&job, &dataset) != STATUS_OK || timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
        timer_settime(timer, 0, &when, NULL) != 0) {
        _exit(1);
    }
    for (;;) {
        struct partition partition;
        if (partition_build(&dataset, &job, &partition) != STATUS_OK) {
            _exit(2);
        }
        partition_release(&partition);
    }
}

/* Eight cliques of eight nodes in a row, their nodes dealt out so that no number says where a clique is. */
Test(partition, parts_of_metis_are_numbered_so_that_halves_of_them_have_little_between_them)
{
    uint32_t pair[8 * 28 + 7][2];
    int n = 0;
    for (uint32_t c = 0; c < 8; c++) {
        uint32_t at = c * 3 % 8;
        for (uint32_t a = 0; a < 8; a++) {
            for (uint32_t b = a + 1; b < 8; b++, n++) {
                pair[n][0] = 8 * a + at;
                pair[n][1] = 8 * b + at;
            }
        }
        if (c > 0) {
            pair[n][0] = (c - 1) * 3 % 8;
            pair[n++][1] = at;
        }
    }
    struct dataset dataset = tiny_from_edges(64, n, (const uint32_t(*)[2])pair, true);
    struct job job = job_of(8, JOB_METHOD_METIS);
    struct partition partition;
    cr_assert_eq(partition_build(&dataset, &job, &partition), STATUS_OK);
    for (int32_t border = 2; border < 8; border += 2) {
        int n_across = 0;
        for (int e = 0; e < n; e++) {
            n_across += (partition.owner[pair[e][0]] < border) != (partition.owner[pair[e][1]] < border);
        }
        cr_expect_leq(n_across, border == 4 ? 1 : 2, "%d edges across %d", n_across, border);
    }
    partition_release(&partition);
    tiny_release(&dataset);
}

Test(partition, an_order_to_stop_is_obeyed_while_metis_runs, .timeout = 900)
{
    /* METIS takes most of the time, so of several moments at least one is in it. */
    for (long after_ms = 20; after_ms <= 100; after_ms += 10) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            partition_until_told(after_ms);
        }
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 100 + SIGTERM, "after %ld ms: status %x", after_ms,
                  status);
    }
}

/* Send every child that our parent has besides us a signal, until we are killed. */
_Noreturn static void signal_siblings(pid_t parent, int number)
{
    char path[64], text[256];
    die_with(parent);
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    for (;;) {
        FILE *file = fopen(path, "r");
        text[0] = '\0';
        bool any = file != NULL && fgets(text, sizeof text, file) != NULL;
        for (char *at = text, *end; any; at = end) {
            pid_t pid = (pid_t)strtol(at, &end, 10);
            if (end == at) {
                break;
            }
            if (pid != getpid()) {
                kill(pid, number);
            }
        }
        if (file != NULL) {
            fclose(file);
        }
        sched_yield();
    }
}

/* METIS's process alone is sent the signal: a loss, which the next attempt may be spared. */
static void expect_loss(const struct dataset *dataset, const struct job *job, int number, const char *words)
{
    struct partition partition;
    pid_t self = getpid(), sender = fork();
    if (sender == 0) {
        signal_siblings(self, number);
    }
    enum status status = STATUS_OK;
    for (double since = clock_s(); status == STATUS_OK && patience_left(since);) {
        status = partition_build(dataset, job, &partition);
        if (status == STATUS_OK) {
            partition_release(&partition);
        }
    }
    kill(sender, SIGKILL);
    waitpid(sender, NULL, 0);
    cr_assert_eq(status, STATUS_PEER, "signal %d: %s", number, status_reason());
    expect_reason(words);
    expect_reason("at 16384 nodes");
}

static struct job metis_job(struct dataset *dataset)
{
    struct job job = job_of(8, JOB_METHOD_METIS);
    job.dataset.generator = JOB_GENERATOR_RMAT;
    job.dataset.nodes = 1 << 14;
    job.dataset.features = 1;
    cr_assert_eq(dataset_load(&job, dataset), STATUS_OK);
    return job;
}

Test(partition, metis_killed_while_memory_was_plentiful_is_a_loss_that_another_attempt_may_be_spared, .timeout = 900)
{
    struct dataset dataset;
    struct job job = metis_job(&dataset);
    expect_loss(&dataset, &job, SIGKILL, "METIS was killed (signal 9)");
    expect_reason("if the machine ran out of memory");
    dataset_release(&dataset);
}

Test(partition, metis_ended_by_a_signal_from_outside_is_a_loss_with_the_signals_name, .timeout = 900)
{
    struct dataset dataset;
    struct job job = metis_job(&dataset);
    expect_loss(&dataset, &job, SIGTERM, "METIS was ended by signal 15 (Terminated)");
    expect_loss(&dataset, &job, SIGINT, "METIS was ended by signal 2 (Interrupt)");
    expect_loss(&dataset, &job, SIGHUP, "METIS was ended by signal 1 (Hangup)");
    expect_loss(&dataset, &job, SIGABRT, "METIS was ended by signal 6 (Aborted)");
    dataset_release(&dataset);
}

Test(partition, asked_for_the_least_volume_metis_never_gives_more_than_for_the_least_cut)
{
    /* Planted communities: METIS asked for the volume alone gives more here. */
    struct job job = job_of(8, JOB_METHOD_METIS);
    struct dataset dataset;
    struct partition_quality quality[JOB_OBJECTIVE_N];
    job.dataset.generator = JOB_GENERATOR_SBM;
    job.dataset.nodes = 2000;
    job.dataset.degree = 12;
    job.dataset.classes = 16;
    cr_assert_eq(dataset_load(&job, &dataset), STATUS_OK);
    for (int objective = 0; objective < JOB_OBJECTIVE_N; objective++) {
        struct partition partition;
        job.partition.objective = objective;
        cr_assert_eq(partition_build(&dataset, &job, &partition), STATUS_OK);
        cr_assert_eq(partition_measure(&dataset, &partition, &quality[objective]), STATUS_OK);
        partition_release(&partition);
    }
    cr_assert_leq(quality[JOB_OBJECTIVE_VOLUME].n_halo, quality[JOB_OBJECTIVE_CUT].n_halo);
    dataset_release(&dataset);
}

Test(partition, the_figures_of_a_small_graph_are_those_counted_by_hand)
{
    /* 0 1 | 2 3: edges into the other part 0→2, 0→3, 1→2, 3→0; inside 0→1; a loop at 2 that counts nowhere. */
    const uint32_t pair[6][2] = {{0, 2}, {0, 3}, {1, 2}, {3, 0}, {0, 1}, {2, 2}};
    struct dataset dataset = tiny_from_edges(4, 6, pair, false);
    struct job job = job_of(2, JOB_METHOD_BLOCK);
    job.partition.balance = JOB_BALANCE_NODES;
    struct partition partition;
    struct partition_quality quality;
    cr_assert_eq(partition_build(&dataset, &job, &partition), STATUS_OK);
    cr_assert_eq(partition_measure(&dataset, &partition, &quality), STATUS_OK);
    cr_assert_eq(quality.n_cut, 4);
    cr_assert_eq(quality.n_halo, 3); /* 0 and 1 to the second part, 3 to the first */
    cr_assert_float_eq(quality.halo_ratio, 0.75, 1e-12);
    cr_assert_float_eq(quality.imbalance_node, 1.0, 1e-12);
    cr_assert_float_eq(quality.imbalance_edge, 3.0 / 2.5, 1e-12);
    cr_assert_float_eq(quality.imbalance_halo, 2.0 / 1.5, 1e-12);
    partition_release(&partition);
    tiny_release(&dataset);
}

Test(partition, blocks_are_ranges_even_in_what_the_job_asks_for)
{
    uint32_t pair[60][2];
    for (uint32_t i = 0; i < 60; i++) {
        pair[i][0] = i;
        pair[i][1] = i % 6; /* only the first six nodes have in-edges */
    }
    struct dataset dataset = tiny_from_edges(60, 60, (const uint32_t(*)[2])pair, false);
    struct job job = job_of(3, JOB_METHOD_BLOCK);
    struct partition partition;
    job.partition.balance = JOB_BALANCE_NODES;
    cr_assert_eq(partition_build(&dataset, &job, &partition), STATUS_OK);
    cr_assert_eq(partition.part_begin[1], 20);
    cr_assert_eq(partition.part_begin[2], 40);
    partition_release(&partition);
    job.partition.balance = JOB_BALANCE_EDGES;
    cr_assert_eq(partition_build(&dataset, &job, &partition), STATUS_OK);
    cr_assert_eq(partition.part_begin[1], 4); /* weight of the first six: 11, of others: 1, of all: 120 */
    for (int64_t v = 1; v < 60; v++) {
        cr_assert_geq(partition.owner[v], partition.owner[v - 1]);
    }
    partition_release(&partition);
    tiny_release(&dataset);
}

Test(partition, random_parts_differ_by_at_most_one_node_and_by_their_seed)
{
    struct dataset dataset = tiny_build(&directed);
    struct job job = job_of(7, JOB_METHOD_RANDOM);
    struct partition a, b;
    cr_assert_eq(partition_build(&dataset, &job, &a), STATUS_OK);
    job.partition.seed = 2;
    cr_assert_eq(partition_build(&dataset, &job, &b), STATUS_OK);
    for (int p = 0; p < 7; p++) {
        int64_t n = a.part_begin[p + 1] - a.part_begin[p];
        cr_assert(n == 12 || n == 13);
    }
    cr_assert_neq(memcmp(a.owner, b.owner, 90 * sizeof *a.owner), 0);
    partition_release(&a);
    partition_release(&b);
    tiny_release(&dataset);
}

/* n_part 0: as many as the file has */
static enum status build_from_bytes(const char *text, size_t n, int n_part, struct partition *out)
{
    folder_make();
    FILE *file = fopen(folder_path("owners.txt"), "wb");
    cr_assert_eq(fwrite(text, 1, n, file), n);
    fclose(file);
    struct dataset dataset = tiny_from_edges(4, 0, NULL, true);
    struct job job = job_of(n_part, JOB_METHOD_FILE);
    snprintf(job.partition.file, sizeof job.partition.file, "%s", folder_path("owners.txt"));
    enum status status = partition_parts_choose(&dataset, &job);
    status = status == STATUS_OK ? partition_build(&dataset, &job, out) : status;
    tiny_release(&dataset);
    folder_remove();
    return status;
}

static enum status build_from_file(const char *text, struct partition *out)
{
    return build_from_bytes(text, strlen(text), 2, out);
}

Test(partition, a_file_gives_line_i_to_node_i)
{
    struct partition partition;
    const char *const texts[] = {"1\n0\n0\n1\n", "1\r\n0\r\n0\r\n1\r\n", "1\n0\n0\n1"};
    for (int i = 0; i < 3; i++) {
        expect_done(build_from_file(texts[i], &partition));
        const int32_t owner[] = {1, 0, 0, 1};
        cr_assert_eq(memcmp(partition.owner, owner, sizeof owner), 0);
        is_whole(&partition, 4, 2);
        partition_release(&partition);
    }
}

Test(partition, a_job_that_gives_a_file_alone_has_as_many_parts_as_the_file)
{
    struct partition partition;
    expect_done(build_from_bytes("1\n0\n2\n1\n", 8, 0, &partition));
    is_whole(&partition, 4, 3);
    partition_release(&partition);
    expect_fails(build_from_bytes("1\n0\n3\n1\n", 8, 0, &partition), STATUS_DATA, ": part 2 has no node");
    expect_fails(build_from_bytes("1\n0\n65536\n1\n", 12, 0, &partition), STATUS_DATA,
                 ":3: '65536', expected a part number of 0 to 65535");
}

Test(partition, a_file_that_does_not_fit_is_refused_with_its_line)
{
    struct partition partition;
    const struct {
        const char *text, *reason;
    } rows[] = {
        {"0\n1\n0\n", ":4: the file ends after 3 lines, expected one for each of the 4 nodes"},
        {"0\n1\n0\n1\n0\n", ":5: expected the file to end, one line for each of the 4 nodes"},
        {"0\n2\n0\n1\n", ":2: '2', expected a part number of 0 to 1"},
        {"0\n1\n-1\n1\n", ":3: '-1', expected a part number of 0 to 1"},
        {"0\n1\n\n1\n", ":3: '', expected a part number of 0 to 1"},
        {"0 1\n1\n0\n1\n", ":1: '0 1', expected a part number of 0 to 1"},
        {"0\n99999999999999999999\n0\n1\n", ":2: '99999999999999999999', expected a part number of 0 to 1"},
        {"0\n\xff\x1b[2J\xc3\xa9\n", ":2: '\\xff\\x1b[2J\xc3\xa9', expected a part number of 0 to 1"},
        {"0\n0\n0\n0\n", ": part 1 has no node, expected at least one in each of the 2 parts"},
        {"", ":1: the file ends after 0 lines"},
        {"00000000000000000000000000000000000000000000000000000000000000000000000000000000\n0\n1\n", ":1: '000"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect_fails(build_from_file(rows[i].text, &partition), STATUS_DATA, rows[i].reason);
    }
}

Test(partition, nothing_of_a_file_is_hidden_behind_a_zero_byte)
{
    struct partition partition;
    expect_fails(build_from_bytes("0\n1\0x\n0\n1\n", 10, 2, &partition), STATUS_DATA,
                 ":2: '1', expected a part number of 0 to 1 and the line's end");
}

Test(partition, a_file_that_is_not_there_or_no_file_is_named, .timeout = 60)
{
    struct dataset dataset = tiny_from_edges(4, 0, NULL, true);
    struct job job = job_of(2, JOB_METHOD_FILE);
    struct partition partition;
    snprintf(job.partition.file, sizeof job.partition.file, "/nowhere/parts.txt");
    expect_fails(partition_build(&dataset, &job, &partition), STATUS_NO_INPUT,
                 "/nowhere/parts.txt: cannot open: No such file");
    snprintf(job.partition.file, sizeof job.partition.file, "/dev/zero");
    expect_fails(partition_build(&dataset, &job, &partition), STATUS_DATA,
                 "/dev/zero: is a folder, device, pipe or socket, expected a file");
    tiny_release(&dataset);
}
