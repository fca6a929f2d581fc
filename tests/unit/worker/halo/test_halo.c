/* A worker in the middle of a halo pass whose peer asks for rows as no worker should. Requests are handed to its exchange as a
 * session would; the peer is a transport that takes what comes. */
#include "worker/state/trainer.h"

#include "partition/part/partition.h"
#include "protocol/base/memory.h"
#include "tests/support/graphs/part_encode.h"
#include "tests/support/graphs/tiny_graph.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { N_PART = 4, ATTEMPT = 1 };

TestSuite(halo, .init = folder_make, .fini = folder_remove, .timeout = 900);

/* Parts 0 and 2 are the worker's, 1 and 3 its peer's. */
static const uint32_t rank_of_part[N_PART] = {0, 1, 0, 1};

static struct asked {
    struct job job;
    struct dataset dataset;
    struct partition partition;
    struct part *parts[N_PART], opened[N_PART];
    struct transport *transport, *peer;
    struct exchange *exchange;
    struct spill *spill;
} asked;

static void *asked_place(void *arg, const struct transport_head *head, size_t n_bytes)
{
    (void)arg;
    return exchange_place(asked.exchange, head, n_bytes);
}

static void asked_arrived(void *arg, const struct transport_head *head, void *body, size_t n_bytes)
{
    (void)arg;
    exchange_arrived(asked.exchange, head, body, n_bytes);
}

static void *peer_place(void *arg, const struct transport_head *head, size_t n_bytes)
{
    static char rows[1 << 16];
    (void)arg;
    (void)head;
    return n_bytes <= sizeof rows ? rows : NULL;
}

static void peer_arrived(void *arg, const struct transport_head *head, void *body, size_t n_bytes)
{
    (void)arg;
    (void)head;
    (void)body;
    (void)n_bytes;
}

static void part_take(int32_t p)
{
    void *bytes, *at;
    size_t n_bytes;
    cr_assert_eq(part_encode(&asked.dataset, &asked.partition, p, &bytes, &n_bytes), STATUS_OK, "%s",
                 status_reason());
    at = bytes;
    if (asked.spill != NULL) {
        cr_assert_eq(spill_take(asked.spill, (int64_t)n_bytes, &at), STATUS_OK, "%s", status_reason());
    }
    const struct spill_range all = {at, (int64_t)n_bytes, SPILL_WRITE};
    cr_assert_eq(spill_pin(asked.spill, &all, 1), STATUS_OK, "%s", status_reason());
    memmove(at, bytes, n_bytes);
    cr_assert_eq(part_open(at, n_bytes, &asked.opened[p]), STATUS_OK, "%s", status_reason());
    spill_unpin(asked.spill, &all, 1);
    asked.parts[p] = &asked.opened[p];
    if (at != bytes) {
        memory_release(MEMORY_OTHER, bytes, n_bytes, 1);
    }
}

static void transports_open(void)
{
    const struct transport_events own = {NULL, asked_place, asked_arrived}, peer = {NULL, peer_place, peer_arrived};
    size_t n;
    asked.exchange = exchange_open(64, 64);
    cr_assert_eq(transport_open(0, 2, ATTEMPT, 64, NULL, &own, &asked.transport), STATUS_OK, "%s", status_reason());
    cr_assert_eq(transport_open(1, 2, ATTEMPT, 64, NULL, &peer, &asked.peer), STATUS_OK, "%s", status_reason());
    const void *address = transport_address(asked.peer, &n);
    cr_assert_eq(transport_connect(asked.transport, 1, address, n), STATUS_OK, "%s", status_reason());
    exchange_attach(asked.exchange, asked.transport);
}

static void asked_open(const char *exchange, bool spills)
{
    const struct tiny_graph graph = {.n_node = 60, .n_draw = 300, .symmetric = true, .seed = 5};
    char text[1024];
    snprintf(
        text, sizeof text,
        "[dataset]\ngenerator = \"karate\"\n[partition]\nparts = %d\nmethod = \"random\"\n[model]\nkind = \"gcn\"\n"
        "hidden = 2\n[workers]\ncount = 2\n[exchange]\nschedule = \"%s\"\n[memory]\nspill = \"%s\"\n",
        N_PART, exchange, spills ? folder : "");
    asked = (struct asked){0};
    cr_assert_eq(job_load_text(text, strlen(text), "test", NULL, 0, &asked.job), STATUS_OK, "%s", status_reason());
    if (spills) {
        cr_assert_eq(spill_open(folder, &asked.spill), STATUS_OK, "%s", status_reason());
        spill_limit(asked.spill, 0);
    }
    asked.dataset = tiny_build(&graph);
    cr_assert_eq(partition_build(&asked.dataset, &asked.job, &asked.partition), STATUS_OK, "%s", status_reason());
    for (int32_t p = 0; p < N_PART; p++) {
        if (rank_of_part[p] == 0) {
            part_take(p);
        }
    }
    transports_open();
}

static void asked_close(void)
{
    transport_abandon(asked.transport);
    transport_abandon(asked.peer);
    transport_close(asked.transport);
    transport_close(asked.peer);
    exchange_close(asked.exchange);
    for (int32_t p = 0; p < N_PART; p++) {
        if (asked.parts[p] != NULL && asked.spill == NULL) {
            memory_release(MEMORY_OTHER, (void *)(uintptr_t)asked.parts[p]->bytes, (size_t)asked.parts[p]->n_bytes,
                           1);
        }
        part_release(&asked.opened[p]);
    }
    spill_close(asked.spill);
    partition_release(&asked.partition);
    tiny_release(&asked.dataset);
}

/* The peer asks for rows of the halo pass that opening a GCN's trainer runs: its first op, which sums features. */
static void ask(uint32_t to, uint32_t from)
{
    const struct transport_head head = {
        .kind = TRANSPORT_KIND_FETCH, .sender = 1, .phase = EXCHANGE_PHASE_STATIC, .id = 0, .to = to, .from = from};
    exchange_arrived(asked.exchange, &head, NULL, 0);
}

static void expect_refused(const char *said)
{
    struct trainer_setup setup = {.job = &asked.job,
                                  .n_thread = 1,
                                  .n_rank = 2,
                                  .n_part = N_PART,
                                  .parts = asked.parts,
                                  .rank_of_part = rank_of_part,
                                  .exchange = asked.exchange,
                                  .spill = asked.spill};
    cr_assert_eq(device_find("cpu", &setup.ops), STATUS_OK, "%s", status_reason());
    struct trainer *trainer;
    cr_expect_eq(trainer_open(&setup, &trainer), STATUS_PEER);
    cr_expect_not_null(strstr(status_reason(), said), "%s", status_reason());
}

static const struct {
    const char *schedule;
    bool spills;
} ways[] = {{"sequential", false}, {"halo", false}, {"sequential", true}};

Test(halo, rows_that_are_asked_for_twice_are_refused_and_not_counted_for_another_parts)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        asked_open(ways[i].schedule, ways[i].spills);
        ask(1, 0);
        ask(1, 0);
        expect_refused("rows of part 0 are asked for part 1 twice, expected once a halo pass");
        asked_close();
    }
}

Test(halo, rows_that_a_part_does_not_take_from_this_worker_are_refused)
{
    static const uint32_t pairs[][2] = {{1, 3}, {2, 0}, {0, 0}, {1, N_PART}, {N_PART, 0}, {UINT32_MAX, UINT32_MAX}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char said[96];
        asked_open("halo", false);
        ask(pairs[i][0], pairs[i][1]);
        snprintf(said, sizeof said, "rows of part %u are asked for part %u, which takes none of them from worker 0",
                 pairs[i][1], pairs[i][0]);
        expect_refused(said);
        asked_close();
    }
}
