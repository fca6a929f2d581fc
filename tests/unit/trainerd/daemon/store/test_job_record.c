#include "trainerd/daemon/store/job_record.h"

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
    cr_assert_not(job_state_ended(JOB_STATE_QUEUED) || job_state_ended(JOB_STATE_SUBMITTED) ||
                  job_state_ended(JOB_STATE_PREPARING) || job_state_ended(JOB_STATE_STARTING) ||
                  job_state_ended(JOB_STATE_RUNNING));
}
