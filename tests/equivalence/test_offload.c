/* Arrays that wait in host memory between forward and backward change no bit, on a device whose memory the host cannot touch and whose lanes
 * run as late as waits allow. */
#include "tests/equivalence/compare.h"
#include "tests/equivalence/data.h"
#include "tests/support/device/strict.h"

#include <criterion/criterion.h>
#include <string.h>

static const char symmetric[] = "generator = 'sbm'\nnodes = 300\ndegree = 8\nclasses = 5\nfeatures = 24";
static const char directed[] =
    "generator = 'rmat'\nnodes = 256\ndegree = 6\nclasses = 4\nfeatures = 9\nundirected = 'no'";

static int64_t of_activations(const struct cluster_result *result, enum memory_place place)
{
    return result->all_planned.bytes[place][MEMORY_ACTIVATIONS];
}

static void expect_same_bits(const char *model, const char *data, const char *exchange)
{
    const struct task task = {.data = data,
                              .model = model,
                              .exchange = exchange,
                              .train = data == directed ? "lr = 0.01\nprune = 'always'"
                                                        : "lr = 0.01\nprune = 'never'",
                              .epochs = 3};
    static const struct way others[] = {
        {.device = &device_strict, .prefetch = 1},
        {.device = &device_strict, .prefetch = 1, .workers = 4, .is_halo = true},
        {.device = &device_strict, .prefetch = 1, .workers = 2, .recompute = "always"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct cluster_result never, always;
        struct way way = others[i];
        way.offload = "never";
        compare_run(&task, &way, &never);
        way.offload = "always";
        compare_run(&task, &way, &always);
        compare_same(&task, &way, &never, &always);
        bool stores = of_activations(&always, MEMORY_PLACE_PINNED) > 0, recomputes = way.recompute != NULL;
        bool saves = of_activations(&always, MEMORY_PLACE_DEVICE) < of_activations(&never, MEMORY_PLACE_DEVICE);
        cr_expect(stores == saves && (stores || recomputes), "%s: way %zu: %s in host memory", model, i,
                  stores ? "arrays are" : "nothing is");
        cr_expect_eq(of_activations(&never, MEMORY_PLACE_PINNED), 0);
        cr_expect_eq(always.all_measured.bytes[MEMORY_PLACE_PINNED][MEMORY_ACTIVATIONS],
                     of_activations(&always, MEMORY_PLACE_PINNED), "%s", model);
        cluster_release(&never);
        cluster_release(&always);
    }
}

Test(offload, sums_have_the_bits_of_arrays_that_stay)
{
    expect_same_bits("kind = 'gcn'\nhidden = 24\nlayers = 6\ndropout = 0.5\nnorm = 'layer'\nresidual = true",
                     symmetric, "");
    expect_same_bits("kind = 'gin'\nhidden = 32\nlayers = 5\ndropout = 0.5\nnorm = 'batch'", symmetric, "");
}

Test(offload, layers_that_are_read_again_at_the_end_have_their_bits)
{
    expect_same_bits("kind = 'sage'\nhidden = 32\nlayers = 6\ndropout = 0.5\njumping_knowledge = 'concat'", directed,
                     "");
}

Test(offload, attention_has_the_bits_of_arrays_that_stay)
{
    expect_same_bits("kind = 'gat'\nhidden = 8\nheads = 3\nlayers = 5\ndropout = 0.4\nattention_dropout = 0.4",
                     symmetric, "");
}

Test(offload, lossy_payloads_have_their_bits)
{
    expect_same_bits("kind = 'sage'\nhidden = 32\nlayers = 6\ndropout = 0.5", symmetric,
                     "sampling = 0.5\nguard_every = 2");
    expect_same_bits("kind = 'gcn'\nhidden = 32\nlayers = 6\ndropout = 0.5", symmetric,
                     "codec = 'int8'\nerror_feedback = true");
    expect_same_bits("kind = 'gcn'\nhidden = 32\nlayers = 6\ndropout = 0.5", symmetric, "stale = 1");
}

/* Half way between what is needed with all arrays there and with all that can wait away. */
Test(offload, a_limit_stores_what_it_needs)
{
    const struct task task = {
        .data = symmetric, .model = "kind = 'gcn'\nhidden = 48\nlayers = 6\ndropout = 0.5", .epochs = 3};
    struct cluster_result never, always, limited;
    struct way way = {.device = &device_strict, .prefetch = 1, .workers = 2, .offload = "never"};
    compare_run(&task, &way, &never);
    way.offload = "always";
    compare_run(&task, &way, &always);
    way.offload = "auto";
    way.limit = (memory_sum(never.all_planned.bytes[MEMORY_PLACE_DEVICE]) +
                 memory_sum(always.all_planned.bytes[MEMORY_PLACE_DEVICE])) /
                2;
    compare_run(&task, &way, &limited);
    compare_same(&task, &way, &never, &limited);
    cr_expect_leq(memory_sum(limited.all_planned.bytes[MEMORY_PLACE_DEVICE]), way.limit);
    cr_expect_gt(of_activations(&limited, MEMORY_PLACE_PINNED), 0);
    cr_expect_lt(of_activations(&limited, MEMORY_PLACE_PINNED), of_activations(&always, MEMORY_PLACE_PINNED));
    cluster_release(&never);
    cluster_release(&always);
    cluster_release(&limited);
}
