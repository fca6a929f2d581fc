#include "tests/unit/trainerd/coordinator/epochs/fake_fleet.h"

#include <math.h>
#include <string.h>

void fake_fleet_init(struct fleet *fleet, volatile sig_atomic_t *asked)
{
    *fleet = (struct fleet){
        .has_moments = true, .fail_at = -1, .nan_at = -1, .factor = 1.0, .signal_at = -1, .asked = asked};
    for (int i = 0; i < FAKE_N_WEIGHT; i++) {
        fleet->state[0][i] = 1.0f + (float)i / 7.0f;
    }
    for (int i = 0; i < FAKE_N_CALL_MOST; i++) {
        fleet->valid_correct[i] = i < 100 ? i : 100;
    }
}

static void say(struct fleet *fleet, char what)
{
    if (fleet->n_said + 1 < FAKE_N_CALL_MOST) {
        fleet->said[fleet->n_said++] = what;
    }
}

static void train(struct fleet *fleet, uint32_t epoch)
{
    for (int i = 0; i < FAKE_N_WEIGHT; i++) {
        float grad = sinf((float)epoch + fleet->state[0][i]);
        fleet->state[1][i] = 0.9f * fleet->state[1][i] + 0.1f * grad;
        fleet->state[2][i] = 0.99f * fleet->state[2][i] + 0.01f * grad * grad;
        fleet->state[0][i] -= 0.1f * (float)fleet->factor * fleet->state[1][i] / (0.01f + sqrtf(fleet->state[2][i]));
    }
}

struct fleet_times fleet_times(const struct fleet *fleet, uint32_t rank)
{
    (void)fleet;
    return rank == 0 ? (struct fleet_times){0.25, 0, 0.125, 0.0625}
                     : (struct fleet_times){0.125, 0.0625, NAN, 0.50001};
}

enum status fleet_epoch(struct fleet *fleet, uint32_t epoch, bool is_trained, bool evaluate, struct fleet_report *out)
{
    say(fleet, !is_trained ? 'e' : evaluate ? 'T' : 't');
    if (epoch == fleet->fail_at) {
        return status_fail(STATUS_PEER, "worker 1 was killed by signal 9 in epoch %u", epoch);
    }
    if (epoch == fleet->signal_at) {
        *fleet->asked = SIGINT;
    }
    *out = (struct fleet_report){.loss = fleet->state[0][0],
                                 .epoch_s = 0.5,
                                 .compute_s = 0.25,
                                 .pack_s = 0.0625,
                                 .wait_s = 0.125,
                                 .evaluate_s = 0.0625,
                                 .bytes_sent = 100,
                                 .bytes_received = 200,
                                 .n_layer = 2,
                                 .layer = {{80, 60, 15}, {10, 0, 5}}};
    if (epoch == fleet->nan_at && fleet->factor > fleet->nan_above) {
        out->not_finite = fleet->not_finite;
        out->loss = fleet->not_finite == 0 ? NAN : out->loss;
        return STATUS_OK;
    }
    if (is_trained) {
        train(fleet, epoch);
    }
    for (int split = 1; evaluate && split < 4; split++) {
        if (split == 2 && fleet->has_no_valid) {
            continue;
        }
        double n_correct = split == 2 ? fleet->valid_correct[epoch] : 10 * split;
        double loss = split == 2 && fleet->valid_loss[epoch] > 0.0 ? 100.0 * fleet->valid_loss[epoch] : 150.0;
        memcpy(out->score[split], (double[7]){loss, n_correct, 0, 0, 0, 100, 100}, sizeof out->score[split]);
    }
    return STATUS_OK;
}

enum status fleet_guard(struct fleet *fleet, uint32_t epoch, struct fleet_guard *out)
{
    bool backs_off = fleet->error_at[epoch] > fleet->error_most;
    fleet->n_back_off += backs_off;
    *out = (struct fleet_guard){.compared = true,
                                .loss = 0.5,
                                .error = fleet->error_at[epoch],
                                .cosine = 0.25,
                                .n_back_off = fleet->n_back_off};
    say(fleet, 'c');
    return STATUS_OK;
}

enum status fleet_keep_best(struct fleet *fleet)
{
    say(fleet, 'k');
    memcpy(fleet->state[3], fleet->state[0], sizeof fleet->state[0]);
    return STATUS_OK;
}

/* Row r of part p is (100 p + r, −r). */
static void rows_fill(int32_t part, float *to, size_t n_bytes)
{
    size_t n = n_bytes / (FAKE_N_CLASS * sizeof *to);
    for (size_t r = 0; r < n; r++) {
        to[2 * r] = 100.0f * (float)part + (float)r;
        to[2 * r + 1] = 0.0f - (float)r;
    }
}

/* A row's place, and what is said when it is read and when it is set. */
static void *state_at(struct fleet *fleet, enum worker_state what, size_t n_bytes, const char **said_out)
{
    switch (what) {
    case WORKER_STATE_RATE:
        *said_out = "?r";
        return &fleet->factor;
    case WORKER_STATE_BACK_OFFS:
        *said_out = "?b";
        return &fleet->n_back_off;
    default:
        *said_out = "gp";
        bool is_moment = what == WORKER_STATE_MOMENT_1 || what == WORKER_STATE_MOMENT_2;
        bool is_known = what <= WORKER_STATE_BEST && n_bytes == sizeof fleet->state[0];
        return is_known && (fleet->has_moments || !is_moment) ? fleet->state[what - WORKER_STATE_WEIGHTS] : NULL;
    }
}

enum status fleet_get(struct fleet *fleet, enum worker_state what, int32_t of, void *to, size_t n_bytes)
{
    const char *said;
    if (what == WORKER_STATE_LOGITS || what == WORKER_STATE_LAYER) {
        rows_fill(of, to, n_bytes);
        return STATUS_OK;
    }
    const void *from = state_at(fleet, what, n_bytes, &said);
    say(fleet, said[0]);
    if (from == NULL) {
        return status_fail(STATUS_BUG, "no array %d of %zu bytes", (int)what, n_bytes);
    }
    memcpy(to, from, n_bytes);
    return STATUS_OK;
}

enum status fleet_put(struct fleet *fleet, enum worker_state what, int32_t of, const void *from, size_t n_bytes)
{
    const char *said;
    (void)of;
    void *to = state_at(fleet, what, n_bytes, &said);
    say(fleet, said[1]);
    if (to == NULL) {
        return status_fail(STATUS_BUG, "no array %d of %zu bytes", (int)what, n_bytes);
    }
    memcpy(to, from, n_bytes);
    return STATUS_OK;
}
