/* Sweeps: which jobs come out, in which order, and what is refused. */
#include "trainerd/ctl/experiments/sweep.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct sweep sweep;

static void end(void)
{
    sweep_release(&sweep);
}

TestSuite(sweep, .fini = end);

static void expect_jobs(const char *expected)
{
    json_t *jobs = NULL;
    cr_assert_eq(sweep_jobs(&sweep, &jobs), STATUS_OK, "%s", status_reason());
    char *text = json_dumps(jobs, JSON_COMPACT);
    cr_expect_str_eq(text, expected);
    free(text);
    json_decref(jobs);
}

static void expect_refused(enum status status, const char *words)
{
    cr_expect_eq(status, STATUS_USAGE);
    cr_expect_not_null(strstr(status_reason(), words), "%s", status_reason());
}

Test(sweep, every_combination_is_a_job_and_the_last_key_changes_first)
{
    cr_assert_eq(sweep_add(&sweep, "--sweep", "train.lr=0.01,0.003"), STATUS_OK);
    cr_assert_eq(sweep_add(&sweep, "--sweep", "model.hidden=16"), STATUS_OK);
    cr_assert_eq(sweep_add_seeds(&sweep, "--seeds", "train.seed", "2", 7), STATUS_OK);
    expect_jobs("[[\"train.lr=0.01\",\"model.hidden=16\",\"train.seed=7\"],[\"train.lr=0.01\",\"model.hidden=16\","
                "\"train.seed=8\"],"
                "[\"train.lr=0.003\",\"model.hidden=16\",\"train.seed=7\"],[\"train.lr=0.003\",\"model.hidden=16\","
                "\"train.seed=8\"]]");
}

Test(sweep, commas_between_quotes_and_brackets_are_part_of_a_value)
{
    cr_assert_eq(sweep_add(&sweep, "--sweep", "exchange.codec=\"int4, int8@50\",bf16,'a,b',[1,[2,3]],4"), STATUS_OK);
    cr_assert_eq(sweep.key[0].n, 5);
    cr_assert_str_eq(sweep.key[0].values[0], "\"int4, int8@50\"");
    cr_assert_str_eq(sweep.key[0].values[2], "'a,b'");
    cr_assert_str_eq(sweep.key[0].values[3], "[1,[2,3]]");
    cr_assert_str_eq(sweep.key[0].values[4], "4");
}

Test(sweep, seeds_are_so_many_from_the_jobs_own_or_those_that_are_named)
{
    cr_assert_eq(sweep_add_seeds(&sweep, "--seeds", "train.seed", "3", INT64_MAX - 2), STATUS_OK);
    cr_assert_eq(sweep.key[0].n, 3);
    cr_assert_str_eq(sweep.key[0].values[2], "9223372036854775807");
    cr_assert_eq(sweep_add_seeds(&sweep, "--split", "dataset.split", "0,5", 3), STATUS_OK);
    cr_assert_eq(sweep.key[1].n, 2);
    cr_assert_str_eq(sweep.key[1].values[1], "5");
}

Test(sweep, what_is_no_sweep_is_refused_with_what_was_expected)
{
    expect_refused(sweep_add(&sweep, "--sweep", "train.lr"), "--sweep is 'train.lr', expected KEY=VALUE,VALUE");
    expect_refused(sweep_add(&sweep, "--sweep", "=1"), "expected KEY=VALUE,VALUE");
    expect_refused(sweep_add(&sweep, "--sweep", "a=1,,2"), "--sweep: a has an empty value");
    expect_refused(sweep_add(&sweep, "--sweep", "b="), "--sweep: b has an empty value");
    expect_refused(sweep_add(&sweep, "--sweep", "c=1,2,1"), "--sweep: c has the value 1 twice");
    cr_assert_eq(sweep_add(&sweep, "--sweep", "train.seed=1,2"), STATUS_OK);
    expect_refused(sweep_add_seeds(&sweep, "--seeds", "train.seed", "3", 1), "--seeds: train.seed is swept already");
    static const char *const bad[] = {"0", "1001", "-1", "x", "1,", "1,x", "1,2x", "", "9223372036854775808"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct sweep one = {0};
        expect_refused(sweep_add_seeds(&one, "--seeds", "train.seed", bad[i], 1), "--seeds is '");
        sweep_release(&one);
    }
    expect_refused(sweep_add_seeds(&sweep, "--seeds", "dataset.seed", "2", INT64_MAX), "--seeds is '2'");
}

Test(sweep, more_jobs_or_keys_than_the_daemon_takes_are_refused)
{
    static const char *const keys[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    json_t *jobs = NULL;
    for (int i = 0; i < SWEEP_KEYS_MOST; i++) {
        cr_assert_eq(sweep_add_seeds(&sweep, "--seeds", keys[i], i < 3 ? "10" : "1", 0), STATUS_OK);
    }
    cr_assert_eq(sweep_jobs(&sweep, &jobs), STATUS_OK);
    cr_assert_eq(json_array_size(jobs), 1000);
    json_decref(jobs);
    expect_refused(sweep_add(&sweep, "--sweep", "i=1"), "more than 8 keys are swept");
    sweep_release(&sweep);
    for (int i = 0; i < SWEEP_KEYS_MOST; i++) {
        cr_assert_eq(sweep_add_seeds(&sweep, "--seeds", keys[i], "1000", 0), STATUS_OK);
    }
    expect_refused(sweep_jobs(&sweep, &jobs), "the sweep has more than 1000 jobs");
}
