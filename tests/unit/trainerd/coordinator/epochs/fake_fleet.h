/* A fleet without processes: its epochs are arithmetic on a few weights, its scores a script. It takes the place of
 * trainerd/coordinator/fleet/fleet.c in this test program, so that the epoch loop is tested alone and failures come when told. */
#ifndef TESTS_TRAINING_FAKE_FLEET_H
#define TESTS_TRAINING_FAKE_FLEET_H

#include "trainerd/coordinator/fleet/fleet.h"

#define FAKE_N_WEIGHT 5
#define FAKE_N_NODE 6
#define FAKE_N_CLASS 2
#define FAKE_N_CALL_MOST 256

struct fleet {
    float state[4][FAKE_N_WEIGHT]; /* weights, moments, best weights */
    bool has_moments;
    int valid_correct[FAKE_N_CALL_MOST]; /* by epoch, of 100 */
    double valid_loss[FAKE_N_CALL_MOST]; /* likewise the mean loss; 0: 1.5 */
    bool has_no_valid;                   /* the validation split is empty */
    int64_t fail_at;                     /* this epoch fails with STATUS_PEER; -1: none */
    int64_t nan_at;      /* the loss of this epoch is not a number while the rate's factor is above … */
    double nan_above;    /* … this; -1: never */
    uint32_t not_finite; /* not 0: the epoch reports this instead, and a finite loss */
    double factor;
    double error_at[FAKE_N_CALL_MOST]; /* by epoch: of the gradient, … */
    double error_most;                 /* … of which more than this backs off */
    int64_t n_back_off;
    int64_t signal_at; /* a signal comes while this epoch runs; -1: none */
    volatile sig_atomic_t *asked;
    char said
        [FAKE_N_CALL_MOST]; /* what was ordered: t train, T train and evaluate, e evaluate, k keep best, p put, g get, r rate, c compare, b back off */
    int n_said;
};

/* Weights of their own, no failure planned, better every epoch. */
void fake_fleet_init(struct fleet *fleet, volatile sig_atomic_t *asked);

#endif
