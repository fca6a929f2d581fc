/* Users share the loop's time: what one has to do is counted here in milliseconds of a clock that only the turns
 * move. */
#include "trainerd/daemon/server/turns.h"

#include <criterion/criterion.h>
#include <string.h>

static uv_loop_t loop;
static struct turns turns;
static uint64_t clock_ns;
static char order[4096]; /* a letter for each turn that was taken */
static size_t n_order;

struct task {
    struct turn turn; /* first member: pointers to both are equal */
    char letter;
    int n_left; /* turns that it still wants; less than 0: endless */
    uint64_t takes_ns;
};

static uint64_t now_ns(void)
{
    return clock_ns;
}

static void take(struct turn *turn)
{
    struct task *task = (struct task *)turn;
    clock_ns += task->takes_ns;
    order[n_order++] = task->letter;
    if (task->n_left < 0 || --task->n_left > 0) {
        turns_wait(&turns, turn);
    }
}

static void begin(void)
{
    cr_assert_eq(uv_loop_init(&loop), 0);
    turns_init(&loop, now_ns, &turns);
}

static void end(void)
{
    uv_close((uv_handle_t *)&turns.idle, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&loop), 0);
}

TestSuite(turns, .init = begin, .fini = end);

static void add(struct task *task, char letter, uid_t uid, int n, double takes_ms)
{
    *task = (struct task){
        .turn = {.take = take}, .letter = letter, .n_left = n, .takes_ns = (uint64_t)(1e6 * takes_ms)};
    turns_join(&turns, uid, &task->turn);
    turns_wait(&turns, &task->turn);
}

static void leave(struct task *task, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        turns_leave(&turns, &task[i].turn);
    }
}

static size_t n_of(char letter)
{
    size_t n = 0;
    for (size_t i = 0; i < n_order; i++) {
        n += order[i] == letter;
    }
    return n;
}

Test(turns, of_250_busy_connections_of_one_user_few_have_their_turn_before_another_users)
{
    static struct task many[250], one;
    for (size_t i = 0; i < 250; i++) {
        add(&many[i], 'm', 1000, -1, 1);
    }
    uv_run(&loop, UV_RUN_NOWAIT);
    n_order = 0;
    add(&one, 'o', 0, 1, 1);
    for (int i = 0; i < 3; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    cr_assert_eq(n_of('o'), 1);
    cr_assert_leq(strchr(order, 'o') - order, TURNS_SLICE_NS / 1000000, "%s", order);
    leave(many, 250);
    leave(&one, 1);
}

Test(turns, users_have_equal_time_whatever_a_turn_of_theirs_takes)
{
    struct task task[3];
    add(&task[0], 'l', 1, -1, 25); /* longer than a slice */
    add(&task[1], 's', 2, -1, 1);
    add(&task[2], 's', 2, -1, 1);
    while (clock_ns < UINT64_C(1000000000)) {
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    double of_long = 25.0 * (double)n_of('l'), of_short = (double)n_of('s');
    cr_assert(of_long / of_short > 0.9 && of_long / of_short < 1.1, "%g ms against %g ms", of_long, of_short);
    leave(task, 3);
}

Test(turns, those_of_one_user_go_in_their_order_and_one_that_waits_does_not_wait_twice)
{
    struct task task[3];
    for (size_t i = 0; i < 3; i++) {
        add(&task[i], (char)('a' + (int)i), 7, 2, 0.1);
        turns_wait(&turns, &task[i].turn);
    }
    while (task[2].n_left > 0) {
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    order[n_order] = '\0';
    cr_assert_str_eq(order, "abcabc");
    leave(task, 3);
}

Test(turns, who_leaves_waits_no_more_and_users_are_counted_by_their_turns)
{
    struct task task[4];
    uid_t most = 0;
    for (size_t i = 0; i < 4; i++) {
        add(&task[i], (char)('a' + (int)i), i < 3 ? 7 : 8, 1, 0.1);
    }
    cr_assert(turns_n(&turns, 7) == 3 && turns_n(&turns, 8) == 1 && turns_n(&turns, 9) == 0);
    cr_assert(turns_most(&turns, &most) == 3 && most == 7);
    leave(&task[1], 1);
    leave(&task[3], 1);
    leave(&task[3], 1); /* once more changes nothing */
    cr_assert(turns_n(&turns, 7) == 2 && turns_n(&turns, 8) == 0);
    for (int i = 0; i < 3; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    order[n_order] = '\0';
    cr_assert_str_eq(order, "ac");
    leave(task, 1);
    leave(&task[2], 1);
}
