/* Faults planted into lists of steps, and into the use of a device, are found by the strict device. */
#include "tests/support/device/strict.h"
#include "tests/support/executor_parts.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_NODE = 12, N_FEATURE = 5, N_CLASS = 3 };

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

/* --- the host --- */

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

/* --- lists of steps --- */

/* Loss of a GCN on two parts, when its training list has been through `plant`. */
static double loss_with(void (*plant)(struct step_list *list))
{
    struct test_graph graph;
    struct program program;
    struct job job;
    static float features[N_NODE * N_FEATURE];
    static int32_t labels[N_NODE];
    static uint8_t split[N_NODE];
    int32_t owner[N_NODE];
    const struct program_input input = {.n_feature = N_FEATURE, .n_class = N_CLASS};
    job_defaults(&job);
    job.model.hidden = 4;
    test_graph_random(N_NODE, 0.4, 8, DATASET_LOOPS_IMPLICIT, &graph);
    for (int i = 0; i < N_NODE; i++) {
        labels[i] = i % N_CLASS;
        split[i] = DATASET_SPLIT_TRAIN;
        owner[i] = i % 2;
        features[i * N_FEATURE + i % N_FEATURE] = 1.0f;
    }
    cr_assert_eq(program_build(&job, &input, &program), STATUS_OK);
    struct executor_setup setup = {.program = &program,
                                   .ops = &device_strict,
                                   .graph = &graph,
                                   .n_part = 2,
                                   .owner = owner,
                                   .features = features,
                                   .labels = labels,
                                   .split = split,
                                   .training = true};
    struct executor *x = executor_open(&setup);
    float *weights = memory_alloc((size_t)program.n_weight, sizeof *weights);
    program_init_weights(&program, 5, weights);
    if (plant != NULL) {
        plant(&x->steps.phase[STEP_PHASE_TRAIN]);
    }
    double loss = executor_forward(x, weights);
    free(weights);
    executor_close(x);
    program_release(&program);
    test_graph_release(&graph);
    return loss;
}

/* The operand in a role of the last halo pass forward. */
static struct step_operand *halo_operand(struct step_list *list, enum op_role role)
{
    struct step_operand *out = NULL;
    for (int s = 0; s < list->n_step; s++) {
        if (list->step[s].kind == STEP_KIND_HALO && !list->step[s].backward) {
            out = (struct step_operand *)(uintptr_t)step_operand(&list->step[s], role);
        }
    }
    cr_assert_not_null(out);
    return out;
}

static void rows_of_others_missing(struct step_list *list)
{
    halo_operand(list, OP_ROLE_IN_0)->packing = false;
}

static void output_only_read(struct step_list *list)
{
    halo_operand(list, OP_ROLE_OUT)->access = STEP_ACCESS_READ;
}

/* Of the last dense step that reads what another has made. */
static void input_written(struct step_list *list)
{
    struct step_operand *in = NULL;
    for (int s = 0; s < list->n_step; s++) {
        const struct step_operand *operand = step_operand(&list->step[s], OP_ROLE_IN_0);
        if (list->step[s].kind == STEP_KIND_FORWARD && operand->index > 0) {
            in = (struct step_operand *)(uintptr_t)operand;
        }
    }
    cr_assert_not_null(in);
    in->access = STEP_ACCESS_WRITE;
}

static void missing_operand(void)
{
    loss_with(rows_of_others_missing);
}

static void wrong_access(void)
{
    loss_with(output_only_read);
}

static void read_before_written(void)
{
    exit(isfinite(loss_with(input_written)) ? 0 : 1);
}

Test(strict, a_list_without_an_operand_or_with_a_wrong_access_is_found)
{
    char said[4096];
    cr_assert(isfinite(loss_with(NULL)));
    assert_dies(missing_operand, "not among its operands");
    assert_dies(wrong_access, "or not so");
    cr_assert_eq(end_of(read_before_written, said, sizeof said), 1,
                 "what is read after it was written is a number: %s", said);
}
