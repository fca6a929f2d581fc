/* Jobs submitted at once, not in slices of the loop's time. */
#ifndef TESTS_JOBS_SUBMIT_H
#define TESTS_JOBS_SUBMIT_H

#include "trainerd/daemon/jobs/jobs.h"

static inline enum status jobs_submit(struct jobs *jobs, struct job_record *record,
                                      const struct store_submission *submission, size_t n, int64_t *existing_out)
{
    struct jobs_draft *draft;
    bool is_done;
    enum status status = jobs_draft_open(jobs, record, submission, n, &draft);
    if (status != STATUS_OK) {
        return status;
    }
    status = jobs_draft_read(draft, NULL, &is_done);
    status = status == STATUS_OK ? jobs_draft_save(draft, existing_out) : status;
    jobs_draft_close(draft);
    return status;
}

#endif
