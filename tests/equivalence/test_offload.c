/* Arrays that wait in host memory between forward and backward change no bit, on a device whose memory the host cannot touch and whose lanes
 * run as late as waits allow. */
#include "tests/equivalence/compare.h"
#include "tests/support/device/strict.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { EPOCHS = 3 };

struct way {
    int workers;
    const char *schedule, *recompute, *offload, *rest; /* rest: further lines of [exchange] */
    int64_t limit;
};

static const char symmetric[] = "generator = \"sbm\"\nnodes = 300\ndegree = 8\nclasses = 5\nfeatures = 24";
static const char directed[] =
    "generator = \"rmat\"\nnodes = 256\ndegree = 6\nclasses = 4\nfeatures = 9\nundirected = \"no\"";

static void run(const char *model, const char *data, const struct way *way, struct cluster_result *out)
{
    char text[2048];
    snprintf(
        text, sizeof text,
        "[dataset]\n%s\n[partition]\nparts = 4\nmethod = \"random\"\ncache = \"off\"\n[model]\n%s\n[train]\n"
        "epochs = %d\nlr = 0.01\nprune = \"%s\"\n[exchange]\nschedule = \"%s\"\n%s\n[workers]\ncount = %d\n[memory]\n"
        "recompute = \"%s\"\noffload = \"%s\"\nlimit = %lld\n",
        data, model, EPOCHS, data == directed ? "always" : "never", way->schedule, way->rest, way->workers,
        way->recompute, way->offload, (long long)way->limit);
    cluster_device = &device_strict;
    cluster_run(text, out);
    cr_assert_eq(out->exit_code, 0, "%s: %d workers, %s, %s, recompute %s, offload %s: exit %d", model, way->workers,
                 way->schedule, way->rest, way->recompute, way->offload, out->exit_code);
}

static int64_t of_activations(const struct cluster_result *result, enum memory_place place)
{
    return result->all_planned.bytes[place][MEMORY_ACTIVATIONS];
}

static void expect_equal(const char *model, const struct way *way, const struct cluster_result *first,
                         const struct cluster_result *other)
{
    compare_expect_same(first, other, "%s: %d workers, %s, %s, recompute %s, offload %s", model, way->workers,
                        way->schedule, way->rest, way->recompute, way->offload);
    compare_expect_planned(other, "%s: %d workers, %s, %s, recompute %s, offload %s", model, way->workers,
                           way->schedule, way->rest, way->recompute, way->offload);
}

static void expect_same_bits(const char *model, const char *data, const char *rest)
{
    static const struct {
        int workers;
        const char *schedule, *recompute;
    } others[] = {{1, "sequential", "never"}, {4, "halo", "never"}, {2, "sequential", "always"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct cluster_result never, always;
        struct way way = {others[i].workers, others[i].schedule, others[i].recompute, "never", rest, 0};
        run(model, data, &way, &never);
        way.offload = "always";
        run(model, data, &way, &always);
        expect_equal(model, &way, &never, &always);
        bool stores = of_activations(&always, MEMORY_PLACE_PINNED) > 0,
             recomputes = strcmp(way.recompute, "always") == 0;
        bool saves = of_activations(&always, MEMORY_PLACE_DEVICE) < of_activations(&never, MEMORY_PLACE_DEVICE);
        cr_expect(stores == saves && (stores || recomputes), "%s: %d workers, recompute %s: %s in host memory", model,
                  way.workers, way.recompute, stores ? "arrays are" : "nothing is");
        cr_expect_eq(of_activations(&never, MEMORY_PLACE_PINNED), 0);
        cr_expect_eq(always.all_measured.bytes[MEMORY_PLACE_PINNED][MEMORY_ACTIVATIONS],
                     of_activations(&always, MEMORY_PLACE_PINNED), "%s", model);
        cluster_release(&never);
        cluster_release(&always);
    }
}

Test(offload, sums_have_the_bits_of_arrays_that_stay)
{
    expect_same_bits("kind = \"gcn\"\nhidden = 24\nlayers = 6\ndropout = 0.5\nnorm = \"layer\"\nresidual = true",
                     symmetric, "");
    expect_same_bits("kind = \"gin\"\nhidden = 32\nlayers = 5\ndropout = 0.5\nnorm = \"batch\"", symmetric, "");
}

Test(offload, layers_that_are_read_again_at_the_end_have_their_bits)
{
    expect_same_bits("kind = \"sage\"\nhidden = 32\nlayers = 6\ndropout = 0.5\njumping_knowledge = \"concat\"",
                     directed, "");
}

Test(offload, attention_has_the_bits_of_arrays_that_stay)
{
    expect_same_bits("kind = \"gat\"\nhidden = 8\nheads = 3\nlayers = 5\ndropout = 0.4\nattention_dropout = 0.4",
                     symmetric, "");
}

Test(offload, lossy_payloads_have_their_bits)
{
    expect_same_bits("kind = \"sage\"\nhidden = 32\nlayers = 6\ndropout = 0.5", symmetric,
                     "sampling = 0.5\nguard_every = 2");
    expect_same_bits("kind = \"gcn\"\nhidden = 32\nlayers = 6\ndropout = 0.5", symmetric,
                     "codec = \"int8\"\nerror_feedback = true");
    expect_same_bits("kind = \"gcn\"\nhidden = 32\nlayers = 6\ndropout = 0.5", symmetric, "stale = 1");
}

/* Half way between what is needed with all arrays there and with none that can wait. */
Test(offload, a_limit_stores_what_it_needs)
{
    const char model[] = "kind = \"gcn\"\nhidden = 48\nlayers = 6\ndropout = 0.5";
    struct cluster_result never, always, limited;
    struct way way = {2, "sequential", "never", "never", "", 0};
    run(model, symmetric, &way, &never);
    way.offload = "always";
    run(model, symmetric, &way, &always);
    way.offload = "auto";
    way.limit = (memory_sum(never.all_planned.bytes[MEMORY_PLACE_DEVICE]) +
                 memory_sum(always.all_planned.bytes[MEMORY_PLACE_DEVICE])) /
                2;
    run(model, symmetric, &way, &limited);
    expect_equal(model, &way, &never, &limited);
    cr_expect_leq(memory_sum(limited.all_planned.bytes[MEMORY_PLACE_DEVICE]), way.limit);
    cr_expect_gt(of_activations(&limited, MEMORY_PLACE_PINNED), 0);
    cr_expect_lt(of_activations(&limited, MEMORY_PLACE_PINNED), of_activations(&always, MEMORY_PLACE_PINNED));
    cluster_release(&never);
    cluster_release(&always);
    cluster_release(&limited);
}
