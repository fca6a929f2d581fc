/* Threads that read for users: work that hangs costs its own user's alone. */
#include "trainerd/daemon/commands/readers.h"

#include <criterion/criterion.h>
#include <semaphore.h>

static uv_loop_t loop;
static struct readers readers;
static sem_t gate; /* hanging work waits for it */
static int n_done;
static uid_t order[64];

static void begin(void)
{
    uv_loop_init(&loop);
    readers_init(&loop, &readers);
    sem_init(&gate, 0, 0);
}

static void end(void)
{
    cr_assert_eq(uv_loop_close(&loop), 0, "work is under way");
    sem_destroy(&gate);
}

TestSuite(readers, .init = begin, .fini = end, .timeout = 900);

static void hang(struct reader_work *work)
{
    (void)work;
    while (sem_wait(&gate) != 0) {
    }
}

static void read_on(struct reader_work *work)
{
    (void)work;
}

static void count(struct reader_work *work)
{
    order[n_done++] = work->user;
}

static struct reader_work all[64];

static void ask(int at, uid_t user, void (*run)(struct reader_work *work))
{
    all[at] = (struct reader_work){.user = user, .run = run, .done = count};
    readers_begin(&readers, &all[at]);
}

static void turn_until(int n)
{
    while (n_done < n) {
        uv_run(&loop, UV_RUN_ONCE);
    }
}

Test(readers, users_whose_files_hang_hold_up_no_other_user)
{
    int n = 0;
    for (uid_t user = 1; user < READERS_N / READERS_OF_USER; user++) { /* more than libuv's four threads */
        for (int i = 0; i < 4; i++) {
            ask(n++, user, hang);
        }
    }
    ask(n++, 100, read_on);
    ask(n++, 100, read_on);
    ask(n++, 101, read_on);
    turn_until(3);
    cr_assert(order[0] >= 100 && order[1] >= 100 && order[2] >= 100);
    for (int i = 0; i < n; i++) {
        sem_post(&gate);
    }
    turn_until(n);
}

Test(readers, a_user_has_so_many_threads_and_what_waits_goes_in_its_order)
{
    for (int i = 0; i < READERS_OF_USER; i++) {
        ask(i, 1, hang);
    }
    for (int i = 0; i < 5; i++) {
        ask(10 + i, 1, read_on);
    }
    ask(20, 2, read_on);
    turn_until(1);
    cr_assert_eq(order[0], 2);
    cr_assert_eq(uv_run(&loop, UV_RUN_NOWAIT) != 0, true);
    cr_assert_eq(n_done, 1, "more of a user's work runs than may");
    for (int i = 0; i < READERS_OF_USER; i++) {
        sem_post(&gate);
    }
    turn_until(READERS_OF_USER + 6);
    cr_assert_null(readers.waiting);
    cr_assert_null(readers.running);
    cr_assert_eq(readers.waiting_end, &readers.waiting);
    ask(30, 1, read_on);
    turn_until(READERS_OF_USER + 7);
}

/* Work that begins other work when it is done, as a stream does. */
static int n_left = 20;

static void go_on(struct reader_work *work)
{
    order[0] = work->user;
    n_done++;
    if (n_left-- > 0) {
        readers_begin(&readers, work);
    }
}

Test(readers, work_may_begin_more_when_it_is_done)
{
    for (int i = 0; i < 2 * READERS_OF_USER; i++) {
        all[i] = (struct reader_work){.user = 1, .run = read_on, .done = go_on};
        readers_begin(&readers, &all[i]);
    }
    turn_until(20 + 2 * READERS_OF_USER);
}
