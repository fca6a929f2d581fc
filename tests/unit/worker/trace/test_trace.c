#include "worker/trace/trace.h"

#include "protocol/base/clock.h"
#include "protocol/base/memory.h"

#include <criterion/criterion.h>
#include <string.h>

static struct program program;
static struct step_lists lists;
static struct trace *trace;

static void begin(void)
{
    static struct job job;
    static const char text[] = "[dataset]\npath = \"x\"\n[model]\nkind = \"gcn\"\nlayers = 2\nhidden = 16\n";
    cr_assert_eq(job_load_text(text, strlen(text), "test", NULL, 0, &job), STATUS_OK, "%s", status_reason());
    cr_assert_eq(program_build(&job, &(struct program_input){.facts = {.n_feature = 64, .n_class = 8}}, &program),
                 STATUS_OK);
    step_lists_lower(&program, &lists);
}

static void end(void)
{
    trace_close(trace);
    step_lists_release(&lists);
    program_release(&program);
}

TestSuite(trace, .init = begin, .fini = end);

static int n_steps(enum step_phase phase)
{
    return lists.phase[phase].n_step;
}

static void trace_make(int64_t n_step, int64_t n_event)
{
    cr_assert_eq(trace_open(&program, &lists, &(struct trace_limits){n_step, n_event}, &trace), STATUS_OK);
}

/* Every step of a phase, with so many events within each. */
static void phase_run(enum step_phase phase, uint32_t epoch, int n_within)
{
    trace_begin(trace, phase, epoch);
    for (int s = 0; s < n_steps(phase); s++) {
        double begin_s = trace_step_begin(trace, s);
        for (int k = 0; k < n_within; k++) {
            trace_add(trace, TRACE_KIND_PART, begin_s, k);
        }
        trace_step_end(trace, begin_s);
    }
}

static int64_t n_of(enum trace_kind kind, uint32_t epoch)
{
    int32_t n_step;
    int64_t n_event, n = 0;
    size_t n_bytes;
    const struct trace_step *step = trace_content(trace, &n_step, &n_event, &n_bytes);
    const struct trace_event *event = (const struct trace_event *)(const void *)(step + n_step);
    cr_assert_eq(n_bytes, (size_t)n_step * sizeof *step + (size_t)n_event * sizeof *event);
    for (int64_t e = 0; e < n_event; e++) {
        cr_assert(event[e].step >= 0 && event[e].step < n_step && event[e].begin_s <= event[e].end_s);
        n += event[e].kind == (uint32_t)kind && event[e].epoch == epoch;
    }
    return n;
}

Test(trace, it_has_the_last_epoch_trained_and_the_last_evaluation_behind_it)
{
    trace_make(100, 1000);
    phase_run(STEP_PHASE_TRAIN, 3, 2);
    phase_run(STEP_PHASE_EVALUATE, 3, 1);
    phase_run(STEP_PHASE_TRAIN, 4, 2);
    cr_expect_eq(n_of(TRACE_KIND_STEP, 3), 0);
    cr_expect_eq(n_of(TRACE_KIND_STEP, 4), n_steps(STEP_PHASE_TRAIN));
    cr_expect_eq(n_of(TRACE_KIND_PART, 4), 2 * n_steps(STEP_PHASE_TRAIN));
    phase_run(STEP_PHASE_EVALUATE, 4, 1);
    phase_run(STEP_PHASE_EVALUATE, 5, 1);
    cr_expect_eq(n_of(TRACE_KIND_STEP, 4), n_steps(STEP_PHASE_TRAIN));
    cr_expect_eq(n_of(TRACE_KIND_STEP, 5), n_steps(STEP_PHASE_EVALUATE));
    cr_expect_eq(trace_n_dropped(trace), 0);
}

Test(trace, where_room_is_short_every_step_is_there_and_what_is_left_out_is_counted)
{
    int n_train = n_steps(STEP_PHASE_TRAIN), n_all = n_train + n_steps(STEP_PHASE_EVALUATE);
    trace_make(n_all, n_all + 5);
    phase_run(STEP_PHASE_TRAIN, 0, 1);
    phase_run(STEP_PHASE_EVALUATE, 0, 1);
    cr_expect_eq(n_of(TRACE_KIND_STEP, 0), n_all);
    cr_expect_eq(n_of(TRACE_KIND_PART, 0), 5);
    cr_expect_eq(trace_n_dropped(trace), n_all - 5);
}

Test(trace, steps_beyond_those_that_it_has_room_for_are_counted)
{
    trace_make(3, 50);
    phase_run(STEP_PHASE_TRAIN, 0, 0);
    cr_expect_eq(n_of(TRACE_KIND_STEP, 0), 3);
    cr_expect_eq(trace_n_dropped(trace), n_steps(STEP_PHASE_TRAIN) - 3);
}

Test(trace, outside_of_steps_nothing_is_written_down)
{
    trace_make(100, 100);
    trace_begin(trace, STEP_PHASE_TRAIN, 0);
    trace_add(trace, TRACE_KIND_SPILL, clock_s(), -1);
    cr_expect_eq(n_of(TRACE_KIND_SPILL, 0), 0);
    cr_expect_eq(trace_n_dropped(trace), 0);
}

Test(trace, it_takes_what_its_room_says_and_nothing_more_while_it_is_written)
{
    int64_t before = memory_now(MEMORY_OTHER);
    trace_make(100, 200);
    cr_expect_eq(memory_now(MEMORY_OTHER) - before, trace_bytes(&(struct trace_limits){100, 200}));
    int64_t n_call = memory_n_call();
    phase_run(STEP_PHASE_TRAIN, 0, 30);
    cr_expect_eq(memory_n_call(), n_call);
    trace_close(trace);
    trace = NULL;
    cr_expect_eq(memory_now(MEMORY_OTHER), before);
}
