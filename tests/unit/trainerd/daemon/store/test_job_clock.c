#include "trainerd/daemon/store/job_clock.h"

#include "protocol/base/clock.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct store *store;

static void begin(void)
{
    folder_make();
    expect_done(store_open(folder, &store));
}

static void end(void)
{
    clock_wall_shift_s = 0.0;
    store_close(store);
    folder_remove();
}

TestSuite(job_clock, .init = begin, .fini = end);

static void reopen(void)
{
    expect_done(job_clock_open(store));
}

/* The clock says this, give or take the time that tests take. */
static void expect(double seconds)
{
    cr_assert_lt(fabs(job_clock_s() - seconds), 5.0, "%.3f, expected %.3f", job_clock_s(), seconds);
}

/* What the store has kept: the machine's start, the seconds since, the clock. */
static void read_kept(char boot[64], double *boot_s, double *at_s)
{
    char text[STORE_FACT_BYTES];
    cr_assert_eq(store_fact_get(store, "clock", text), STATUS_OK);
    cr_assert_eq(sscanf(text, "%63s %lf %lf", boot, boot_s, at_s), 3, "'%s'", text);
}

static void keep(const char *boot, double boot_s, double at_s)
{
    char text[STORE_FACT_BYTES];
    snprintf(text, sizeof text, "%s %.3f %.3f", boot, boot_s, at_s);
    cr_assert_eq(store_fact_put(store, "clock", text), STATUS_OK);
}

Test(job_clock, it_begins_with_the_wall_clock_and_does_not_follow_it)
{
    reopen();
    expect(clock_wall_s());
    double before = job_clock_s();
    clock_wall_shift_s = -7200.0;
    expect(before);
    reopen();
    expect(before);
    clock_wall_shift_s = 7200.0;
    reopen();
    expect(before);
}

Test(job_clock, the_time_without_a_daemon_counts_while_the_machine_runs)
{
    char boot[64];
    double boot_s, at_s;
    reopen();
    read_kept(boot, &boot_s, &at_s);
    keep(boot, boot_s - 300.0, at_s - 500.0); /* five minutes ago it was so much */
    reopen();
    expect(at_s - 200.0);
}

Test(job_clock, after_another_start_of_the_machine_it_goes_on_from_where_it_was)
{
    char boot[64];
    double boot_s, at_s;
    reopen();
    read_kept(boot, &boot_s, &at_s);
    keep("00000000-0000-0000-0000-000000000000", 1e9, at_s - 500.0);
    reopen();
    expect(at_s - 500.0);
    reopen();
    expect(at_s - 500.0);
    keep(boot, boot_s + 3600.0, at_s); /* a machine that was put back to an earlier state */
    reopen();
    expect(at_s);
}

Test(job_clock, what_is_no_time_is_not_taken_for_one)
{
    static const char *const texts[] = {"x", "x 1", "x nan 5", "x 1 inf", "1 2"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        cr_assert_eq(store_fact_put(store, "clock", texts[i]), STATUS_OK);
        reopen();
        expect(clock_wall_s());
    }
}
