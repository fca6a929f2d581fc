/* Jobs, the ways in which they are run, and the comparison of their results bit by bit. A difference fails the test, which goes on.
 *
 * A job is written as lines of its file's sections, a way as what may change no bit. To test one more feature, add a row to test_bits.c.
 */
#ifndef TESTS_EQUIVALENCE_COMPARE_H
#define TESTS_EQUIVALENCE_COMPARE_H

#include "tests/support/cluster/cluster.h"
#include "tests/support/sanitized.h"

enum { COMPARE_EPOCHS = SANITIZED ? 3 : 6, COMPARE_NO_EPOCH = -1, COMPARE_TEXT = 4096 };

struct task {
    const char *data, *model; /* lines of [dataset] and [model] */
    const char *exchange;     /* of [exchange]; NULL: no line */
    const char *train;        /* of [train]; NULL: lr = 0.01 */
    const char *partition;    /* of [partition]; NULL: four parts at random */
    int epochs;               /* 0: COMPARE_EPOCHS; COMPARE_NO_EPOCH: the job is prepared alone */
};

/* How a job is run. */
struct way {
    int workers, threads; /* 0: 1 */
    int prefetch;
    bool is_halo;                    /* exchange.schedule */
    const char *recompute;           /* NULL: never */
    const struct device_ops *device; /* NULL: the cpu with as small a cache as the strict device's */
    bool spills;
    int64_t limit;       /* of memory; 0: no limit, or with a spill the least that suffices */
    const char *offload; /* NULL: auto */
};

/* One worker, one thread, nothing recomputed. */
extern const struct way compare_plain;

/* The cpu with as small a cache as the strict device's, so that a part has several windows on either, and sums over them are the same. */
const struct device_ops *compare_narrow_cpu(void);

/* The job's text. */
void compare_write(const struct task *task, const struct way *way, char out[COMPARE_TEXT]);

/* Run the job; its exit code is 0, or the test ends.
 *
 *   owns  release with cluster_release
 */
void compare_run(const struct task *task, const struct way *way, struct cluster_result *out);

/* Weights, embeddings, logits, losses, scores, and the guard's errors and back-offs are the same. `other` allocates nothing in its epochs, and
 * takes in each category of memory as many bytes as were planned; of what spills, no more.
 */
void compare_same(const struct task *task, const struct way *way, const struct cluster_result *first,
                  const struct cluster_result *other);

/* Run the job in the first way and in n others: the same bits. Some of the others are left out, but with
 * TEST_THOROUGH=all (tests/support/sanitized.h): fewer remain on the strict device, which protects and opens its memory around each call.
 */
void compare_ways(const struct task *task, const struct way *first, const struct way *ways, size_t n);

/* The same bits in standard ways: workers 1 to 4, threads, prefetch, both schedules, recomputed, on the strict device, spilled in the least
 * memory that suffices. Jobs with stale rows and of links do not spill.
 */
void compare_all_ways(const struct task *task);

/* The same bits on the reference device with one worker and with three. */
void compare_reference(const struct task *task);

/* Two jobs with other bits. */
void compare_differ(const struct task *a, const struct task *b);

/* |a − b| over |b|, of arrays. */
double compare_distance(int64_t n, const float *a, const float *b);

/* Losses of the job's epochs, of which each is within rounding of the other's. */
void compare_losses(const struct task *task, int epochs, const struct cluster_result *found,
                    const struct cluster_result *expected);

#endif
