/* Jobs by owner, name, group and tag: kept counts, and how few records a request looks at. */
#include "trainerd/daemon/jobs/job_index.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define N 1000

static struct job_index index_of_all;
static struct job_record record[N];

/* Two users in turn; groups of ten jobs, one tag for all, another for every hundredth; the first half has ended. */
static void begin(void)
{
    for (int i = 0; i < N; i++) {
        record[i] = (struct job_record){
            .id = i + 1, .uid = (uid_t)(i % 2), .state = i < N / 2 ? JOB_STATE_FAILED : JOB_STATE_QUEUED};
        snprintf(record[i].name, sizeof record[i].name, "name-%d", i / 4);
        snprintf(record[i].group, sizeof record[i].group, "group-%d", i / 20);
        snprintf(record[i].tags, sizeof record[i].tags, i % 100 == 0 ? "all,rare,all" : "all");
        job_index_add(&index_of_all, &record[i]);
    }
}

static void end(void)
{
    job_index_release(&index_of_all);
}

TestSuite(job_index, .init = begin, .fini = end);

static const struct job_set *find(enum job_key key, uid_t uid, const char *text)
{
    return job_index_find(&index_of_all, key, uid, text);
}

static size_t n_looked;
static const struct job_record *found[N];

static size_t select_jobs(struct job_ask ask, size_t n_most)
{
    ask.before = ask.before != 0 ? ask.before : INT64_MAX;
    return job_index_select(&index_of_all, &ask, n_most, found, &n_looked);
}

Test(job_index, sets_have_their_jobs_in_order_and_no_others)
{
    const struct job_set *group = find(JOB_KEY_GROUP, 1, "group-2");
    cr_assert_eq(group->jobs.n, 10);
    for (size_t i = 0; i < 10; i++) {
        cr_assert_eq(group->jobs.at[i]->id, 42 + 2 * (int64_t)i);
    }
    cr_assert_eq(find(JOB_KEY_NAME, 0, "name-3")->jobs.n, 4);
    cr_assert_eq(find(JOB_KEY_NAME_OF_OWNER, 1, "name-3")->jobs.n, 2);
    cr_assert_eq(find(JOB_KEY_OWNER, 1, "")->jobs.n, N / 2);
    cr_assert_eq(find(JOB_KEY_TAG, 0, "rare")->jobs.n, N / 100);
    cr_assert_eq(find(JOB_KEY_TAG, 0, "all")->jobs.n, N / 2, "a tag that is given twice counts once");
    cr_assert_eq(find(JOB_KEY_GROUP, 1, "rare")->jobs.n, 0);
}

Test(job_index, counts_are_kept_with_every_change)
{
    record[3].state = JOB_STATE_QUEUED;
    job_index_changed(&index_of_all, &record[3], JOB_STATE_FAILED);
    record[999].state = JOB_STATE_CANCELLED;
    job_index_changed(&index_of_all, &record[999], JOB_STATE_QUEUED);
    const struct job_set *sets[] = {find(JOB_KEY_OWNER, 1, ""), find(JOB_KEY_TAG, 1, "all"), &index_of_all.all};
    for (size_t i = 0; i < 3; i++) {
        int64_t n = i < 2 ? N / 4 : N / 2;
        cr_assert_eq(sets[i]->n_of_state[JOB_STATE_QUEUED], n);
        cr_assert_eq(sets[i]->n_of_state[JOB_STATE_FAILED], n - 1);
        cr_assert_eq(sets[i]->n_of_state[JOB_STATE_CANCELLED], 1);
    }
    cr_assert_eq(find(JOB_KEY_GROUP, 1, "group-0")->n_of_state[JOB_STATE_QUEUED], 1);
    cr_assert_eq(index_of_all.open.n, N / 2);
    cr_assert(index_of_all.open.at[0] == &record[3], "one that begins again has its place");
}

Test(job_index, what_is_removed_is_in_no_set)
{
    for (int i = 0; i < N; i += 2) {
        job_index_remove(&index_of_all, &record[i]);
    }
    cr_assert_eq(index_of_all.all.jobs.n, N / 2);
    cr_assert_eq(index_of_all.open.n, N / 4);
    cr_assert_eq(find(JOB_KEY_OWNER, 0, "")->jobs.n, 0);
    cr_assert_eq(find(JOB_KEY_NAME, 0, "name-3")->jobs.n, 2);
    cr_assert_eq(find(JOB_KEY_TAG, 0, "all")->jobs.n, 0);
}

Test(job_index, a_page_is_read_without_a_look_at_the_others)
{
    cr_assert_eq(select_jobs((struct job_ask){.one = &index_of_all.all}, 10), 10);
    cr_assert(found[0]->id == N && found[9]->id == N - 9 && n_looked == 10);
    cr_assert_eq(select_jobs((struct job_ask){.one = &index_of_all.all, .before = 500}, 10), 10);
    cr_assert(found[0]->id == 499 && n_looked == 10);
    cr_assert_eq(select_jobs((struct job_ask){.one = find(JOB_KEY_GROUP, 0, "group-7")}, 100), 10);
    cr_assert_eq(n_looked, 10);
    record[0].state = JOB_STATE_RUNNING;
    job_index_changed(&index_of_all, &record[0], JOB_STATE_FAILED);
    const struct job_set *group = find(JOB_KEY_GROUP, 0, "group-0");
    cr_assert_eq(select_jobs((struct job_ask){.one = group, .is_open = true}, 100), 1);
    cr_assert(found[0]->id == 1 && n_looked == 10);
}

Test(job_index, of_two_sets_the_smaller_one_is_looked_at)
{
    struct job_ask both = {.one = find(JOB_KEY_TAG, 0, "all"), .other = find(JOB_KEY_TAG, 0, "rare")};
    int64_t n_of_state[JOB_STATE_N];
    cr_assert_eq(select_jobs(both, 100), N / 100);
    cr_assert_eq(n_looked, N / 100);
    job_index_count(&both, n_of_state);
    cr_assert(n_of_state[JOB_STATE_FAILED] == 5 && n_of_state[JOB_STATE_QUEUED] == 5);
}
