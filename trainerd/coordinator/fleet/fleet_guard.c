/* What the workers' accuracy guard found, which is the same on all of them. */
#include "models/program/level.h"
#include "trainerd/coordinator/fleet/fleet_state.h"

#include <string.h>

/* Bit by bit, since NaN differs from itself. */
static bool is_same(const struct fleet_guard *a, const struct fleet_guard *b)
{
    return a->compared == b->compared && a->n_back_off == b->n_back_off &&
           memcmp(&a->loss, &b->loss, sizeof a->loss) == 0 && memcmp(&a->error, &b->error, sizeof a->error) == 0 &&
           memcmp(&a->cosine, &b->cosine, sizeof a->cosine) == 0;
}

static enum status guard_read(const struct fleet_worker *worker, uint32_t rank, uint32_t epoch,
                              struct fleet_guard *io)
{
    struct message_guard answer;
    enum status status = message_decode_guard(worker->answer, worker->n_answer, &answer);
    if (status != STATUS_OK) {
        return status;
    }
    if (answer.epoch != epoch || answer.n_back_off > LEVEL_BACK_OFFS_MOST) {
        return status_fail(STATUS_PEER,
                           "its guard is of epoch %u after %llu back-offs, expected epoch %u and at most %d",
                           answer.epoch, (unsigned long long)answer.n_back_off, epoch, LEVEL_BACK_OFFS_MOST);
    }
    const struct fleet_guard found = {.compared = answer.compared != 0,
                                      .loss = answer.loss,
                                      .error = answer.error,
                                      .cosine = answer.cosine,
                                      .n_back_off = (int64_t)answer.n_back_off};
    if (rank > 0 && !is_same(&found, io)) {
        return status_fail(STATUS_BUG, "its guard found an error of %.17g, rank 0's %.17g: the ranks have diverged",
                           found.error, io->error);
    }
    *io = found;
    return STATUS_OK;
}

enum status fleet_guard(struct fleet *fleet, uint32_t epoch, struct fleet_guard *out)
{
    fleet_begin(fleet, "while its gradients of epoch %u were compared", epoch);
    enum status status = FLEET_COMMAND(fleet, guard, &(struct message_guard){.epoch = epoch});
    *out = (struct fleet_guard){0};
    for (uint32_t rank = 0; status == STATUS_OK && rank < fleet->n_worker; rank++) {
        struct fleet_worker *worker = &fleet->workers[rank];
        status = guard_read(worker, rank, epoch, out);
        if (status != STATUS_OK) {
            return fleet_answer_bad(fleet, worker);
        }
    }
    return status;
}
