#include "worker/plan/memory_plan.h"

#include "tests/support/model/halo_table.h"
#include "worker/spill/spill.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define N_PART 8
#define N_OWN 1000
#define N_HALO 60

/* Eight equal parts, every one reading N_HALO rows of every other. */
static struct world {
    struct job job;
    struct program program;
    struct memory_plan_part part[N_PART];
    struct part_halo halo[N_PART];
    struct memory_plan plan[4];
    int n_plan;
} w;

static void world_close(void)
{
    for (int p = 0; p < N_PART; p++) {
        part_halo_release(&w.halo[p]);
    }
    program_release(&w.program);
    while (w.n_plan > 0) {
        memory_plan_release(&w.plan[--w.n_plan]);
    }
    w = (struct world){0};
}

TestSuite(memory_plan, .fini = world_close);

static void world_open(const char *settings)
{
    char text[512];
    world_close();
    snprintf(text, sizeof text, "[dataset]\npath = \"x\"\n[partition]\nparts = 8\n%s", settings);
    cr_assert_eq(job_load_text(text, strlen(text), "test", NULL, 0, &w.job), STATUS_OK, "%s", status_reason());
    struct program_input input = {.facts = {.n_feature = 32, .n_class = 4}};
    cr_assert_eq(program_build(&w.job, &input, &w.program), STATUS_OK);
    static int64_t rows[N_PART][N_PART];
    for (int p = 0; p < N_PART; p++) {
        for (int q = 0; q < N_PART; q++) {
            rows[p][q] = p == q ? 0 : N_HALO;
        }
    }
    for (int p = 0; p < N_PART; p++) {
        halo_table(N_PART, rows[0], rows[0], p, &w.halo[p]);
        w.part[p] = (struct memory_plan_part){.n_own = N_OWN, .n_edge = 10000, .n_bytes = 200000, .halo = &w.halo[p]};
    }
}

/* The plan of parts on so many workers, until the test's end. */
static const struct memory_plan *plan_on(const struct device_ops *ops, const struct device_capacity *capacity,
                                         uint32_t n_rank)
{
    uint32_t rank_of_part[N_PART];
    for (uint32_t p = 0; p < N_PART; p++) {
        rank_of_part[p] = p / (N_PART / n_rank);
    }
    struct memory_plan_input input = {.job = &w.job,
                                      .program = &w.program,
                                      .ops = ops,
                                      .capacity = capacity,
                                      .n_part = N_PART,
                                      .rank_of_part = rank_of_part,
                                      .n_rank = n_rank,
                                      .n_own_part = N_PART / (int32_t)n_rank,
                                      .own = w.part};
    memory_plan_build(&input, &w.plan[w.n_plan]);
    return &w.plan[w.n_plan++];
}

static const struct memory_plan *plan_of(uint32_t n_rank)
{
    return plan_on(&device_reference, NULL, n_rank);
}

Test(memory_plan, activations_and_features_fall_as_one_over_workers)
{
    world_open("[model]\nkind = \"sage\"\nhidden = 128\nlayers = 3\n");
    const struct memory_plan *one = plan_of(1), *eight = plan_of(8);
    /* Windows and chunks' gradients of a fused chain are one part's, in one worker, too. */
    int64_t windows = 0;
    for (int i = 0; i < w.program.n_op; i++) {
        int64_t n_bytes = eight->workspace[i][STEP_WORKSPACE_CHAIN].n_scratch;
        windows = n_bytes > windows ? n_bytes : windows;
    }
    cr_expect(one->arena.n_bytes <= 8 * eight->arena.n_bytes &&
              one->arena.n_bytes + 8 * windows >= 8 * eight->arena.n_bytes);
    cr_expect_eq(one->bytes[MEMORY_FEATURES], 8 * eight->bytes[MEMORY_FEATURES]);
    cr_expect_eq(one->bytes[MEMORY_PAYLOADS], 0, "nothing travels inside one process");
}

Test(memory_plan, a_prediction_has_weights_and_sums_and_nothing_that_training_would_take)
{
    static const char model[] = "[model]\nkind = \"sage\"\nhidden = 128\nlayers = 6\n";
    char text[256];
    world_open(model);
    const struct memory_plan *trains = plan_of(2);
    const int64_t n_arena = trains->arena.n_bytes, n_evaluate = trains->wire.n_evaluate;
    snprintf(text, sizeof text, "%s[predict]\nmodel = \"m\"\n", model);
    world_open(text);
    const struct memory_plan *predicts = plan_of(2);
    int64_t sums = MEMORY_PLAN_N_SUM * (int64_t)sizeof(double);
    cr_expect_eq(predicts->steps.phase[STEP_PHASE_TRAIN].n_step, 0);
    cr_expect_eq(predicts->reduced.n_gradient_bytes, sums);
    /* Each of the rank's four parts has its sums, and there is a place for those of another rank. */
    cr_expect_eq(predicts->bytes[MEMORY_PARAMETERS], w.program.n_weight * (int64_t)sizeof(float) + (4 + 1) * sums);
    cr_expect_lt(predicts->arena.n_bytes, n_arena / 2);
    cr_expect_eq(predicts->wire.n_train, 0);
    cr_expect_eq(predicts->wire.n_evaluate, n_evaluate);
}

/* On the cpu, whose sums over many rows go in many chunks. */
Test(memory_plan, scratch_is_enough_for_a_window_or_for_all_rows_where_an_op_sums_over_them)
{
    world_open("[model]\nkind = \"gin\"\nhidden = 128\nlayers = 3\nnorm = \"batch\"\n");
    for (int p = 0; p < N_PART; p++) {
        w.part[p].n_own = 100000;
    }
    const struct memory_plan *plan = plan_on(&device_cpu, NULL, 1);
    int n_global = 0;
    for (int i = 0; i < w.program.n_op; i++) {
        const struct op *op = &w.program.op[i];
        bool global = op_defs[op->kind]->global != NULL;
        int64_t rows = chain_takes_scratch(&w.program, op) ? plan->arena.chain.n_window : 100000;
        cr_expect_geq(plan->workspace[i][0].n_scratch, (int64_t)op_workspace(&w.program, op, &device_cpu, rows));
        cr_expect(!global || rows == 100000);
        n_global += global;
    }
    cr_expect_gt(n_global, 0);
    cr_expect_gt(op_workspace(&w.program, &w.program.op[w.program.n_op - 1], &device_cpu, 100000), 0);
}

Test(memory_plan, small_payloads_in_flight_are_bounded_by_the_prefetch_both_ways)
{
    const int64_t payload = N_HALO * 128 * 4;
    for (int prefetch = 0; prefetch < 3; prefetch++) {
        char settings[256];
        snprintf(settings, sizeof settings, "[model]\nhidden = 128\nlayers = 3\n[exchange]\nprefetch = %d\n",
                 prefetch);
        world_open(settings);
        const struct memory_plan *plan = plan_of(8);
        cr_expect_eq(plan->bytes[MEMORY_PAYLOADS], 2 * (prefetch + 1) * payload, "prefetch %d: %ld bytes", prefetch,
                     (long)plan->bytes[MEMORY_PAYLOADS]);
    }
}

Test(memory_plan, the_halo_schedule_keeps_a_layers_payloads_all_at_once)
{
    world_open("[model]\nhidden = 128\nlayers = 3\n[exchange]\nschedule = \"halo\"\n");
    const struct memory_plan *plan = plan_of(8);
    cr_expect_eq(plan->bytes[MEMORY_PAYLOADS], 2 * 7 * N_HALO * 128 * 4);
}

Test(memory_plan, bytes_on_the_wire_are_halo_rows_times_the_narrower_width)
{
    world_open("[model]\nkind = \"gcn\"\nhidden = 16\nlayers = 2\n");
    const struct memory_plan *plan = plan_of(8);
    /* 32 → 16 → 4: dense static features are aggregated once; then 4 columns forth and 4 back. */
    cr_expect_eq(plan->wire.n_train, 7 * N_HALO * (4 + 4) * 4);
    cr_expect_eq(plan->wire.n_evaluate, 7 * N_HALO * 4 * 4);
}

static int64_t chunks(int64_t n_bytes)
{
    return (n_bytes + SPILL_CHUNK - 1) / SPILL_CHUNK * SPILL_CHUNK;
}

Test(memory_plan, what_is_spilled_takes_what_the_limit_leaves)
{
    world_open("[model]\nkind = \"gcn\"\nhidden = 256\nlayers = 3\n[memory]\nspill = \"x\"\nlimit = \"46MiB\"\n");
    const struct memory_plan *plan = plan_of(1);
    cr_expect_eq(memory_plan_total(plan), (46 << 20) - MEMORY_PROCESS_RESIDENT);
    cr_expect_eq(plan->bytes[MEMORY_ACTIVATIONS] + plan->bytes[MEMORY_PAYLOADS] + plan->bytes[MEMORY_FEATURES], 0);
    /* Every part gives N_HALO rows to every other: at most 256 columns of them. */
    int64_t payloads = N_PART * (N_PART - 1) * N_HALO * 256 * 4;
    cr_expect_eq(plan->spill.n_bytes, chunks(plan->arena.n_bytes) + chunks(payloads) + N_PART * chunks(200000));
    cr_expect(plan->spill.n_least < plan->bytes[MEMORY_SPILL] && plan->bytes[MEMORY_SPILL] < plan->spill.n_bytes);
}

Test(memory_plan, a_spill_with_room_for_all_takes_no_more_than_there_is)
{
    world_open("[model]\nhidden = 256\nlayers = 3\n[memory]\nspill = \"x\"\nlimit = \"4GiB\"\n");
    const struct memory_plan *plan = plan_of(2);
    cr_expect_eq(plan->bytes[MEMORY_SPILL], plan->spill.n_bytes);
}

Test(memory_plan, a_limit_below_what_a_step_holds_is_exceeded_by_exactly_that)
{
    world_open("[model]\nkind = \"sage\"\nhidden = 256\nlayers = 3\n[memory]\nspill = \"x\"\nlimit = 1000\n");
    const struct memory_plan *plan = plan_of(1);
    cr_expect_eq(plan->bytes[MEMORY_SPILL], plan->spill.n_least);
    /* Two parts' input, output and gradients of the widest linear map, and hardly more. */
    int64_t array = N_OWN * 256 * 4;
    cr_expect_geq(plan->spill.n_least, 2 * 3 * array);
    cr_expect_leq(plan->spill.n_least, 2 * 5 * array);
}

/* --- a device with memory of its own --- */

static struct device_ops apart_ops;
static struct device_capacity apart_capacity;

static const struct memory_plan *apart_plan(uint32_t n_rank, bool opened)
{
    apart_ops = device_cpu;
    apart_ops.unified = false;
    apart_ops.n_context = 7000;
    return plan_on(&apart_ops, opened ? &apart_capacity : NULL, n_rank);
}

static int64_t place_sum(const struct memory_plan *plan, enum memory_place place)
{
    struct memory_table all;
    memory_plan_table(plan, &all);
    return memory_sum(all.bytes[place]);
}

Test(memory_plan, what_lies_on_a_device_with_memory_of_its_own_is_apart_from_the_hosts)
{
    world_open("[model]\nkind = \"sage\"\nhidden = 128\nlayers = 3\n");
    struct memory_table all;
    const struct memory_plan *unified = plan_on(&device_cpu, NULL, 8);
    const struct memory_plan *apart = apart_plan(8, false);
    memory_plan_table(unified, &all);
    cr_expect_arr_eq(all.bytes[MEMORY_PLACE_HOST], unified->bytes, sizeof unified->bytes);
    cr_expect_eq(place_sum(unified, MEMORY_PLACE_PINNED) + place_sum(unified, MEMORY_PLACE_DEVICE), 0);
    cr_expect_eq(memory_plan_total(unified), memory_sum(unified->bytes));
    /* What operations use is the same, in the same places; the part is on both. */
    memory_plan_table(apart, &all);
    const int64_t *device = all.bytes[MEMORY_PLACE_DEVICE], *host = all.bytes[MEMORY_PLACE_HOST];
    cr_expect_eq(device[MEMORY_ACTIVATIONS], unified->bytes[MEMORY_ACTIVATIONS]);
    cr_expect_eq(device[MEMORY_PAYLOADS], unified->bytes[MEMORY_PAYLOADS]);
    cr_expect_eq(device[MEMORY_PARAMETERS], unified->bytes[MEMORY_PARAMETERS]);
    cr_expect_eq(device[MEMORY_CONTEXT], 7000);
    cr_expect(device[MEMORY_FEATURES] == unified->bytes[MEMORY_FEATURES] &&
              host[MEMORY_FEATURES] == device[MEMORY_FEATURES]);
    cr_expect(host[MEMORY_STRUCTURE] >= 200000 - host[MEMORY_FEATURES] &&
              host[MEMORY_STRUCTURE] <= unified->bytes[MEMORY_STRUCTURE]);
    cr_expect_eq(host[MEMORY_ACTIVATIONS] + host[MEMORY_PARAMETERS] + host[MEMORY_CONTEXT], 0);
    cr_expect_eq(memory_plan_total(apart), memory_sum(device));
    /* Pinned: payloads on their way, or two branches of gradients. */
    int64_t staged = 2 * apart->reduced.n_gradient_bytes;
    staged = staged > unified->bytes[MEMORY_PAYLOADS] ? staged : unified->bytes[MEMORY_PAYLOADS];
    cr_expect_eq(apart->n_staging_bytes, staged);
    cr_expect_eq(place_sum(apart, MEMORY_PLACE_PINNED), staged + (int64_t)sizeof(struct trainer_shared));
}

Test(memory_plan, workers_that_share_a_device_have_a_share_of_it_and_are_told_what_exceeds_it)
{
    char text[128];
    world_open("[model]\nkind = \"sage\"\nhidden = 128\nlayers = 3\n[memory]\nrecompute = \"never\"\n");
    apart_capacity = (struct device_capacity){
        .name = "GPU 3 (a model)", .n_bytes = (int64_t)1 << 40, .n_context = 5000, .n_sharing = 3};
    const struct memory_plan *plan = apart_plan(1, true);
    int64_t need = memory_plan_total(plan);
    cr_expect_eq(plan->bytes[MEMORY_CONTEXT], 5000, "as measured");
    cr_expect_eq(plan->n_staging_bytes, 0, "there is nobody to send to");
    apart_capacity.n_bytes = 3 * need;
    cr_expect_eq(memory_plan_check(plan, &w.job, 2, &apart_capacity), STATUS_OK, "%s", status_reason());
    apart_capacity.n_bytes = 3 * need - 3;
    cr_expect_eq(memory_plan_check(plan, &w.job, 2, &apart_capacity), STATUS_NOMEM);
    snprintf(text, sizeof text, "worker 2 needs %lld bytes of GPU memory", (long long)need);
    cr_expect_not_null(strstr(status_reason(), text), "%s", status_reason());
    snprintf(text, sizeof text, "more than its %lld: GPU 3 (a model) has %lld, which 3 workers share",
             (long long)need - 1, (long long)(3 * need - 3));
    cr_expect_not_null(strstr(status_reason(), text), "%s", status_reason());
    w.job.memory.limit = need - 1;
    apart_capacity.n_bytes = 3 * need;
    cr_expect_eq(memory_plan_check(plan, &w.job, 2, &apart_capacity), STATUS_NOMEM);
    snprintf(text, sizeof text, "more than memory.limit of %lld", (long long)need - 1);
    cr_expect_not_null(strstr(status_reason(), text), "%s", status_reason());
    apart_capacity.n_bytes = 0; /* not known */
    w.job.memory.limit = 0;
    cr_expect_eq(memory_plan_check(plan, &w.job, 2, &apart_capacity), STATUS_OK);
}

Test(memory_plan, recomputing_follows_from_the_share_of_the_device_and_is_left_out_where_that_is_not_known)
{
    world_open("[model]\nkind = \"sage\"\nhidden = 128\nlayers = 6\n");
    const struct memory_plan *saved = apart_plan(1, false);
    apart_capacity = (struct device_capacity){
        .n_bytes = 2 * (memory_plan_total(saved) - 1), .n_context = 7000, .n_sharing = 2};
    const struct memory_plan *fit = apart_plan(1, true);
    bool again = false;
    for (int i = 0; i < w.program.n_op; i++) {
        cr_expect(!memory_plan_recomputes(saved, i));
        again = again || memory_plan_recomputes(fit, i);
    }
    cr_expect(again && memory_plan_total(fit) < memory_plan_total(saved));
}
