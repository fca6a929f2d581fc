/* Submissions of several jobs: all or none, found again, told apart by group and tag. */
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "tests/unit/trainerd/daemon/commands/talk.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(submit, .init = talk_begin, .fini = talk_end, .timeout = 900);

#define SWEEP                                                                                                        \
    ",\"group\":\"g\",\"tags\":[\"paper\",\"night\"],\"set\":[\"train.epochs=7\"],\"submission_id\":\"once\","       \
    "\"jobs\":["                                                                                                     \
    "[\"train.lr=0.1\",\"train.seed=1\"],[\"train.lr=0.1\",\"train.seed=2\"],[]]"

Test(submit, several_jobs_are_kept_each_with_the_settings_of_all_and_its_own)
{
    static const char *const tags[] = {"paper", "night", "pap", "paper,night", ""};
    struct store_submission kept;
    gives(SUBMIT(SWEEP ",'name':'n'"), "{'ok':true,'job':1,'jobs':[1,2,3],'group':'g'}");
    cr_assert_eq(supervisor.n_schedule, 1);
    cr_assert_eq(store_submission_get(jobs_store(jobs), 2, &kept), STATUS_OK);
    cr_assert_eq(kept.n_set, 4);
    cr_assert_str_eq(kept.set[0], "train.epochs=7");
    cr_assert_str_eq(kept.set[2], "train.seed=2");
    cr_assert_str_eq(kept.set[3], "name=\"n\"");
    store_submission_release(&kept);
    const struct job_record *record = jobs_get(jobs, 3);
    cr_assert_str_eq(record->group, "g");
    cr_assert_str_eq(record->tags, "paper,night");
    for (size_t i = 0; i < 5; i++) {
        const struct store_filter filter = {.uid = record->uid, .tag = tags[i]};
        int64_t n_of_state[JOB_STATE_N];
        expect_done(store_count(jobs_store(jobs), &filter, n_of_state));
        cr_assert_eq(n_of_state[JOB_STATE_QUEUED], i < 2 ? 3 : 0, "%s", tags[i]);
    }
}

Test(submit, a_submission_sent_twice_is_one_group_with_the_same_numbers)
{
    submit(SUBMIT(""));
    for (int again = 0; again < 3; again++) {
        gives(SUBMIT(SWEEP), again > 0 ? "{'jobs':[2,3,4],'existing':true}" : "{'jobs':[2,3,4]}");
        cr_assert_eq(n_jobs(), 4);
    }
}

Test(submit, one_wrong_job_of_several_leaves_none_and_is_named)
{
    fails(SUBMIT(",'jobs':[[],['train.lr=0.1'],['train.lr=-1']]"), 78, "job 3 of 3: --set train.lr: train.lr is -1");
    fails(SUBMIT(",'jobs':[[],['train.epoch=1']]"), 78, "job 2 of 2: --set train.epoch: unknown key 'epoch'");
    fails(SUBMIT(",'set':['output.dir=o'],'jobs':[[],[]]"), 78,
          "job 2 of 2: output.dir is 'o', as job 1's: expected another folder, or no output.dir");
    fails(SUBMIT(",'jobs':[]"), 2, "the number of jobs is 0, expected 1 to 1000");
    fails(SUBMIT(",'jobs':['train.lr=1']"), 2, "submit: jobs is not an array of arrays of texts");
    fails(SUBMIT(",'group':'12'"), 2, "group '12' is a number");
    fails(SUBMIT(",'group':'0123456789012345678901234567890123456789012345678901234567890123x'"), 2,
          "group has 65 bytes, expected at most 63");
    fails(SUBMIT(",'group':'a/b'"), 2, "group 'a/b' has a slash, which would name a folder");
    fails(SUBMIT(",'tags':['a,b']"), 2, "tag 'a,b' is empty, or has a comma or a blank");
    fails(SUBMIT(",'tags':['']"), 2, "tag '' is empty");
    fails(SUBMIT(",'tags':['012345678901234567890123456789012']"), 2, "tag has 33 bytes, expected at most 32");
    fails(SUBMIT(",'tags':['1','2','3','4','5','6','7','8','9']"), 2, "9 tags are given, expected at most 8");
    cr_assert_eq(n_jobs(), 0);
    cr_assert_eq(supervisor.n_schedule, 0);
    gives(SUBMIT(",'jobs':[['output.dir=a'],['output.dir=b']]"), OK);
}

Test(submit, a_submission_is_limited_in_jobs_and_in_bytes)
{
    size_t n = 0, capacity = 1 << 18;
    char *request = calloc(capacity, 1);
    n += (size_t)snprintf(request, capacity, "%s", "{'v':1,'id':1,'cmd':'submit','folder':'/tmp','config':'#");
    memset(request + n, 'x', 20000);
    n += 20000;
    size_t begin = n += (size_t)snprintf(request + n, capacity - n, "\",\"jobs\":[[]");
    for (int i = 1; i < 1001; i++) {
        n += (size_t)snprintf(request + n, capacity - n, ",[]");
    }
    snprintf(request + n, capacity - n, "]}");
    fails(request, 2, "the number of jobs is 1001, expected 1 to 1000");
    snprintf(request + begin + 999 * 3, capacity - begin, "]}");
    expect_failure(
        ask(request), 2,
        "1000 jobs have job files and settings of 20001000 bytes, expected at most 16777216 in one submission");
    free(request);
    cr_assert_eq(n_jobs(), 0);
}

/* How many jobs status gives, and that it counts as many. */
static size_t n_shown(struct client *from, const char *request)
{
    json_t *answer = ask_by(from, request), *counts = json_object_get(answer, "counts");
    size_t n = json_array_size(json_object_get(answer, "jobs")), n_counted = 0;
    const char *state;
    const json_t *count;
    json_object_foreach(counts, state, count)
    {
        n_counted += (size_t)json_integer_value(count);
    }
    cr_assert_eq(n, n_counted);
    json_decref(answer);
    return n;
}

Test(submit, status_shows_the_jobs_of_a_group_or_tag_alone)
{
    submit(SUBMIT(SWEEP));
    submit(SUBMIT(",'group':'g','tags':['paper']"));
    submit(SUBMIT(",'group':'h','tags':['paper']"));
    submit(SUBMIT(""));
    cr_assert_eq(n_shown(&client, CMD("status")), 6);
    cr_assert_eq(n_shown(&client, CMD_OF("status", "'group':'g'")), 4);
    cr_assert_eq(n_shown(&client, CMD_OF("status", "'tag':'paper'")), 5);
    cr_assert_eq(n_shown(&client, CMD_OF("status", "'tag':'night'")), 3);
    cr_assert_eq(n_shown(&client, CMD_OF("status", "'group':'h','tag':'paper'")), 1);
    cr_assert_eq(n_shown(&client, CMD_OF("status", "'group':''")), 0);
    json_t *answer = ask(CMD_OF("status", "'job':4")), *job = json_array_get(json_object_get(answer, "jobs"), 0);
    cr_assert_str_eq(text(job, "group"), "g");
    cr_assert_str_eq(json_string_value(json_array_get(json_object_get(job, "tags"), 0)), "paper");
    json_decref(answer);
    struct client other_user;
    other_user_open(&other_user);
    cr_assert_eq(n_shown(&other_user, CMD_OF("status", "'group':'g'")), 0, "a group is its owner's");
    expect_failure(ask_by(&other_user, CMD_OF("cancel", "'group':'g'")), 66, "there is no group 'g'");
    client_close(&other_user);
}

Test(submit, a_group_is_cancelled_and_resumed_where_that_makes_sense)
{
    submit(SUBMIT(SWEEP));
    submit(SUBMIT(""));
    job_become(1, JOB_STATE_CANCELLED);
    gives(CMD_OF("cancel", "'group':'g'"), "{'ok':true,'jobs':[2,3]}");
    cr_assert_str_eq(supervisor.asked, "cancel 2", "the newest came first");
    gives(CMD_OF("resume", "'group':'g'"), "{'jobs':[1]}");
    cr_assert_str_eq(supervisor.asked, "resume 1");
    fails(CMD_OF("cancel", "'group':'none'"), 66, "there is no group 'none'");
    fails(CMD("cancel"), 2, "cancel takes either job or group");
    fails(CMD_OF("resume", "'job':1,'group':'g'"), 2, "resume takes either job or group");
}
