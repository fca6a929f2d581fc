/* Faults planted into the use of a device are found by the strict device. */
#include "tests/support/device/strict.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* How a child ends that does `body`, and what it says. */
static int end_of(void (*body)(void), char *said, size_t n_said)
{
    int ends[2], status = 0;
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        body();
        _exit(0);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got = 1; got > 0 && n + 1 < n_said; n += (size_t)got) {
        got = read(ends[0], said + n, n_said - 1 - n);
        got = got > 0 ? got : 0;
    }
    said[n] = '\0';
    close(ends[0]);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void assert_dies(void (*body)(void), const char *sentence)
{
    char said[4096];
    int code = end_of(body, said, sizeof said);
    cr_assert_eq(code, STRICT_EXIT, "ends with %d", code);
    cr_assert_not_null(strstr(said, sentence), "says \"%s\"", said);
}

static struct device *strict(void)
{
    struct device *device = NULL;
    cr_assert_eq(device_strict.open(2, &device), STATUS_OK);
    return device;
}

static float *array(struct device *device, enum device_place place, enum memory_category category)
{
    float *out = NULL;
    cr_assert_eq(device->ops->acquire(device, place, category, 4 * sizeof *out, &out), STATUS_OK);
    return out;
}

static void host_reads(void)
{
    volatile float *x = array(strict(), DEVICE_PLACE_DEVICE, MEMORY_OTHER);
    exit((int)x[0]);
}

static void host_writes_what_it_lent(void)
{
    static float host[4];
    float *lent = NULL;
    struct device *device = strict();
    cr_assert_eq(device->ops->borrow(device, MEMORY_OTHER, host, sizeof host, &lent), STATUS_OK);
    lent[0] = 1.0f;
}

Test(strict, the_host_may_not_touch_device_memory)
{
    assert_dies(host_reads, "the host touched device memory");
    assert_dies(host_writes_what_it_lent, "the host touched device memory");
}

Test(strict, who_does_not_wait_gets_no_numbers)
{
    struct device *device = strict();
    const struct device_ops *ops = device->ops;
    const float numbers[4] = {1, 2, 3, 4};
    float *x = array(device, DEVICE_PLACE_DEVICE, MEMORY_OTHER),
          *shared = array(device, DEVICE_PLACE_SHARED, MEMORY_OTHER);
    ops->copy(device, x, numbers, sizeof numbers);
    ops->axpby(device, 4, 2.0f, NULL, x, 0.0f, NULL, x);
    ops->move(device, DEVICE_LANE_COMPUTE, shared, x, sizeof numbers);
    cr_assert(isnan(shared[3]));
    cr_assert_eq(device_sync(device), STATUS_OK);
    cr_assert_eq(shared[3], 8.0f);
    ops->axpby(device, 4, 2.0f, NULL, x, 0.0f, NULL, x);
    ops->move(device, DEVICE_LANE_OUT, shared, x, sizeof numbers); /* without follow: what was there before */
    cr_assert_eq(ops->wait(device, ops->mark(device, DEVICE_LANE_OUT)), STATUS_OK);
    cr_assert_eq(shared[3], 8.0f);
    ops->follow(device, DEVICE_LANE_OUT, ops->mark(device, DEVICE_LANE_COMPUTE));
    ops->move(device, DEVICE_LANE_OUT, shared, x, sizeof numbers);
    cr_assert_eq(ops->wait(device, ops->mark(device, DEVICE_LANE_OUT)), STATUS_OK);
    cr_assert_eq(shared[3], 16.0f);
    ops->release(device, DEVICE_PLACE_SHARED, MEMORY_OTHER, shared, sizeof numbers);
    ops->release(device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, x, sizeof numbers);
    ops->close(device);
}
