#include "trainerd/daemon/jobs/job_record.h"

#include <criterion/criterion.h>

Test(job_record, every_state_and_reason_is_found_by_its_name)
{
    for (int i = 0; i < JOB_STATE_N; i++) {
        enum job_state state;
        cr_assert(job_state_find(job_state_name((enum job_state)i), &state));
        cr_assert_eq(state, (enum job_state)i);
    }
    for (int i = 0; i < JOB_REASON_N; i++) {
        enum job_reason reason;
        cr_assert(job_reason_find(job_reason_name((enum job_reason)i), &reason));
        cr_assert_eq(reason, (enum job_reason)i);
    }
    enum job_state state;
    enum job_reason reason;
    cr_assert_not(job_state_find("running", &state));
    cr_assert_not(job_reason_find("", &reason));
}

Test(job_record, three_states_are_ends)
{
    cr_assert(job_state_ended(JOB_STATE_SUCCEEDED) && job_state_ended(JOB_STATE_FAILED) &&
              job_state_ended(JOB_STATE_CANCELLED));
    cr_assert_not(job_state_ended(JOB_STATE_QUEUED) || job_state_ended(JOB_STATE_PREPARING) ||
                  job_state_ended(JOB_STATE_STARTING) || job_state_ended(JOB_STATE_RUNNING));
}

Test(job_record, another_attempt_follows_what_may_be_gone_by_then_and_nothing_else)
{
    static const enum status again[] = {STATUS_PEER, STATUS_IO, STATUS_BUG, STATUS_INTERRUPTED};
    static const enum status never[] = {STATUS_OK,       STATUS_TRAINING, STATUS_USAGE,  STATUS_DATA,
                                        STATUS_NO_INPUT, STATUS_NOMEM,    STATUS_CREATE, STATUS_CONFIG};
    for (size_t i = 0; i < sizeof again / sizeof *again; i++) {
        cr_assert(job_reason_retries(job_reason_of(again[i])), "%s", status_name(again[i]));
    }
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        cr_assert_not(job_reason_retries(job_reason_of(never[i])), "%s", status_name(never[i]));
    }
}
