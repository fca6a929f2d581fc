#include "trainerd/coordinator/epochs/training.h"

#include "tests/support/process/folder.h"
#include "tests/unit/trainerd/coordinator/epochs/training_case.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(training, .init = folder_make, .fini = training_case_end);

Test(training, every_epoch_is_a_line_and_unevaluated_metrics_are_null)
{
    struct run *run = open_run("o", "epochs = 5\neval_every = 2\nlr = 0.25\n");
    expect_done(run);
    cr_assert_str_eq(run->fleet.said, "tTktTkTk", "evaluated after epochs 2 and 4, and at the end");
    json_t *metrics = metrics_of("o");
    cr_assert_eq(json_array_size(metrics), 5);
    for (size_t i = 0; i < 5; i++) {
        cr_assert_eq(field(metrics, i, "epoch"), (double)i);
        cr_assert_eq(field(metrics, i, "lr"), 0.25);
        cr_assert_eq(field(metrics, i, "epoch_s"), 0.5);
        cr_assert_eq(field(metrics, i, "compute_s"), 0.25);
        cr_assert_eq(field(metrics, i, "pack_s"), 0.0625);
        cr_assert_eq(field(metrics, i, "wait_s"), 0.125);
        cr_assert_eq(field(metrics, i, "evaluate_s"), 0.0625);
        char *times = json_dumps(json_object_get(json_array_get(metrics, i), "seconds_workers"), JSON_COMPACT);
        cr_assert_str_eq(times, "[[0.25,0,0.125,0.0625],[0.125,0.0625,null,0.5]]");
        free(times);
        cr_assert_eq(field(metrics, i, "bytes_sent"), 100);
        cr_assert_eq(field(metrics, i, "bytes_received"), 200);
        cr_assert_eq(field(metrics, i, "bytes_forward"), 90);
        cr_assert_eq(field(metrics, i, "bytes_backward"), 60);
        cr_assert_eq(field(metrics, i, "bytes_evaluate"), 20);
        cr_assert_eq(field(metrics, i, "bytes_reduce"), 30);
        cr_assert_eq(isnan(field(metrics, i, "valid_metric")), i == 0 || i == 2);
    }
    cr_assert_eq(field(metrics, 0, "loss"), 1.0);
    cr_assert_eq(field(metrics, 3, "valid_metric"), 0.03);
    cr_assert_eq(field(metrics, 3, "test_metric"), 0.30);
}

Test(training, no_epochs_means_one_evaluation_and_no_line)
{
    struct run *run = open_run("o", "epochs = 0\n");
    expect_done(run);
    cr_assert_str_eq(run->fleet.said, "ek");
    cr_assert_eq(run->output.n_metrics_bytes, 0);
    cr_assert_eq(run->training.state.best_epoch, -1);
    cr_assert_eq(run->training.state.last.loss, 1.5, "the training rows' mean loss");
    cr_assert_eq(run->training.state.last.of[0].test, 0.30);
}

Test(training, the_earlier_of_equally_good_epochs_is_the_best)
{
    struct run *run = open_run("o", "epochs = 6\n");
    const int valid[] = {10, 40, 30, 40, 20, 40};
    memcpy(run->fleet.valid_correct, valid, sizeof valid);
    expect_done(run);
    cr_assert_eq(run->training.state.best_epoch, 1);
    cr_assert_eq(run->training.state.best.of[0].valid, 0.40);
    cr_assert_str_eq(run->fleet.said, "TkTkTTTT");
}

Test(training, without_a_validation_split_the_last_weights_are_the_best)
{
    struct run *run = open_run("o", "epochs = 7\neval_every = 3\n");
    run->fleet.has_no_valid = true;
    expect_done(run);
    cr_assert(isnan(run->training.state.best.of[0].valid));
    cr_assert_eq(run->training.state.best_epoch, 6);
    cr_assert_arr_eq(run->fleet.state[3], run->fleet.state[0], sizeof run->fleet.state[0]);
    cr_assert_eq(training_evaluate_best(&run->training), STATUS_OK);
    cr_assert_str_eq(run->fleet.said, "ttTkttTkTk", "they were evaluated again");
}

Test(training, a_resume_without_a_validation_split_at_the_very_end_takes_the_present_weights)
{
    struct run *run = open_run("o", "epochs = 4\neval_every = 3\ncheckpoint_every = 4\n");
    run->fleet.has_no_valid = true;
    run->asked = 0;
    run->fleet.signal_at = 3;
    run->job.train.epochs = 5;
    cr_assert_eq(training_run(&run->training), STATUS_INTERRUPTED);
    close_run(run);
    run = resume_run("o", "epochs = 4\neval_every = 3\ncheckpoint_every = 4\n");
    run->fleet.has_no_valid = true;
    cr_assert_eq(run->training.state.best_epoch, 2);
    expect_done(run);
    cr_assert_eq(run->training.state.best_epoch, 3);
    cr_assert_arr_eq(run->fleet.state[3], run->fleet.state[0], sizeof run->fleet.state[0]);
}

Test(training, the_best_weights_are_evaluated_for_their_logits)
{
    struct run *run = open_run("o", "epochs = 4\n");
    const int valid[] = {10, 40, 30, 20};
    memcpy(run->fleet.valid_correct, valid, sizeof valid);
    expect_done(run);
    cr_assert_arr_neq(run->fleet.state[3], run->fleet.state[0], sizeof run->fleet.state[0]);
    run->fleet.n_said = 0;
    memset(run->fleet.said, 0, sizeof run->fleet.said);
    cr_assert_eq(training_evaluate_best(&run->training), STATUS_OK);
    cr_assert_str_eq(run->fleet.said, "gpe");
    cr_assert_arr_eq(run->fleet.state[3], run->fleet.state[0], sizeof run->fleet.state[0]);
}

Test(training, patience_counts_evaluations_without_a_better_one)
{
    struct run *run = open_run("o", "epochs = 100\neval_every = 2\npatience = 3\n");
    for (int i = 0; i < 100; i++) {
        run->fleet.valid_correct[i] = i == 1 ? 20 : i == 5 ? 30 : 10;
    }
    expect_done(run);
    cr_assert_eq(run->training.state.best_epoch, 5);
    cr_assert_eq(run->training.state.n_epoch, 12, "of epoch 3 one was no better, then those of epochs 7, 9 and 11");
    cr_assert_eq(run->training.end, TRAINING_END_PATIENCE);
}

Test(training, a_failing_worker_ends_the_job_with_the_fleets_reason)
{
    struct run *run = open_run("o", "epochs = 10\n");
    run->fleet.fail_at = 4;
    cr_assert_eq(training_run(&run->training), STATUS_PEER);
    cr_assert_str_eq(status_reason(), "worker 1 was killed by signal 9 in epoch 4");
    json_t *metrics = metrics_of("o");
    cr_assert_eq(json_array_size(metrics), 4, "whole lines of the epochs before");
}

#define EPOCHS "epochs = 9\neval_every = 2\n"

Test(training, interrupted_anywhere_and_resumed_a_job_ends_with_the_same_bits)
{
    expect_resumed_alike(EPOCHS);
}

Test(training, lines_after_the_checkpoint_are_cut_when_a_crash_lost_later_epochs)
{
    struct run *whole = open_run("one", EPOCHS "checkpoint_every = 4\n");
    expect_done(whole);
    struct run *first = open_run("two", EPOCHS "checkpoint_every = 4\n");
    first->fleet.fail_at = 7;
    cr_assert_eq(training_run(&first->training), STATUS_PEER);
    close_run(first);
    struct run *second = resume_run("two", EPOCHS "checkpoint_every = 4\n");
    cr_assert_eq(second->training.state.n_epoch, 4);
    expect_done(second);
    expect_same_end(whole, second);
}

#define BACK EPOCHS "checkpoint_every = 4\non_nan = \"rollback\"\nmax_rollbacks = 3\n"

Test(training, a_loss_that_is_not_finite_ends_the_job_in_its_epoch)
{
    struct run *run = open_run("o", EPOCHS "checkpoint_every = 4\n");
    run->fleet.nan_at = 6;
    cr_assert_eq(training_run(&run->training), STATUS_TRAINING);
    cr_assert(strstr(status_reason(), "the loss is not a number in epoch 6"), "%s", status_reason());
    json_t *metrics = metrics_of("o");
    cr_assert_eq(json_array_size(metrics), 6);
}

Test(training, weights_that_are_not_finite_are_never_saved)
{
    struct run *run = open_run("o", EPOCHS "checkpoint_every = 4\n");
    run->fleet.state[0][2] = INFINITY;
    cr_assert_eq(training_run(&run->training), STATUS_TRAINING);
    cr_assert(strstr(status_reason(), "weight 'own' (line 4 of model.program) is not finite in epoch 3"), "%s",
              status_reason());
    cr_assert_not(folder_has("o/checkpoint"));
}

Test(training, a_weight_or_a_gradient_that_is_not_finite_ends_the_job_in_its_epoch_with_its_name)
{
    static const struct {
        uint32_t found;
        enum status status;
        const char *says;
    } cases[] = {
        {1, STATUS_TRAINING, "weight 'lin.weight' is not finite in epoch 6: lower train.lr"},
        {4, STATUS_TRAINING, "the gradient of 'own' (line 4 of model.program) is not finite in epoch 6"},
        {5, STATUS_PEER, "a worker reports weights 5, expected at most 4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct run *run = open_run("o", EPOCHS);
        run->fleet.nan_at = 6;
        run->fleet.not_finite = cases[i].found;
        cr_assert_eq(training_run(&run->training), cases[i].status);
        cr_assert(strstr(status_reason(), cases[i].says), "%s", status_reason());
        close_run(run);
    }
}

Test(training, a_weight_that_is_not_finite_goes_back_as_a_loss_does)
{
    struct run *run = open_run("o", BACK);
    run->fleet.nan_at = 6;
    run->fleet.nan_above = 0.3;
    run->fleet.not_finite = 2;
    expect_done(run);
    cr_assert_eq(run->training.state.n_rollback, 2);
}

/* Epoch 6 fails until the rate is a quarter. */
static struct run *diverging(const char *name, const char *keys)
{
    struct run *run = open_run(name, keys);
    run->fleet.nan_at = 6;
    run->fleet.nan_above = 0.3;
    return run;
}

Test(training, divergence_goes_back_to_the_checkpoint_with_half_the_rate_each_time)
{
    struct run *run = diverging("o", BACK);
    expect_done(run);
    cr_assert_eq(run->training.state.n_rollback, 2);
    cr_assert_eq(run->fleet.factor, 0.25);
    json_t *metrics = metrics_of("o");
    cr_assert_eq(json_array_size(metrics), 9);
    for (size_t i = 0; i < 9; i++) {
        cr_assert_eq(field(metrics, i, "epoch"), (double)i);
        cr_assert_eq(field(metrics, i, "lr"), i < 4 ? 0.01 : 0.0025);
        cr_assert_eq(field(metrics, i, "rollbacks"), i < 4 ? 0 : 2);
    }
}

Test(training, divergence_before_any_checkpoint_goes_back_to_the_initial_weights)
{
    struct run *run = diverging("o", EPOCHS "on_nan = \"rollback\"\n");
    expect_done(run);
    json_t *metrics = metrics_of("o");
    cr_assert_eq(json_array_size(metrics), 9);
    cr_assert_eq(field(metrics, 0, "lr"), 0.0025);
    cr_assert_eq(field(metrics, 0, "loss"), 1.0, "as they were drawn");
}

Test(training, going_back_has_an_end)
{
    struct run *run = diverging("o", BACK);
    run->fleet.nan_above = -1;
    cr_assert_eq(training_run(&run->training), STATUS_TRAINING);
    cr_assert(strstr(status_reason(), "the loss is not a number in epoch 6") &&
                  strstr(status_reason(), "3 rollbacks (train.max_rollbacks) did not help"),
              "%s", status_reason());
}

Test(training, a_job_that_went_back_ends_with_the_same_bits_wherever_it_is_interrupted)
{
    struct run *whole = diverging("one", BACK);
    expect_done(whole);
    for (int64_t at = 0; at < 8; at++) {
        struct run *first = diverging("two", BACK);
        first->fleet.signal_at = at;
        cr_assert_eq(training_run(&first->training), STATUS_INTERRUPTED, "%s", status_reason());
        close_run(first);
        struct run *second = resume_run("two", BACK);
        second->fleet.nan_at = 6;
        second->fleet.nan_above = 0.3;
        expect_done(second);
        expect_same_end(whole, second);
        close_run(second);
    }
}

Test(training, a_resume_at_the_very_end_only_evaluates)
{
    struct run *first = open_run("two", EPOCHS "checkpoint_every = 100\n");
    expect_done(first);
    output_close(&first->output, true);
    struct run *second = resume_run("two", EPOCHS "checkpoint_every = 100\n");
    second->fleet.n_said = 0;
    memset(second->fleet.said, 0, sizeof second->fleet.said);
    expect_done(second);
    cr_assert_str_eq(second->fleet.said, "e");
    cr_assert_arr_eq(first->fleet.state, second->fleet.state, sizeof first->fleet.state);
    cr_assert_eq(second->training.state.last.loss, first->training.state.last.loss);
}

Test(training, an_optimizer_without_moments_saves_and_restores_none)
{
    struct run *first = open_run("two", EPOCHS "optimizer = \"sgd\"\n");
    first->fleet.has_moments = false;
    first->fleet.signal_at = 3;
    cr_assert_eq(training_run(&first->training), STATUS_INTERRUPTED, "%s", status_reason());
    close_run(first);
    struct run *second = resume_run("two", EPOCHS "optimizer = \"sgd\"\n");
    cr_assert_str_eq(second->fleet.said, "pp", "weights and best weights");
}

Test(training, another_graph_or_partition_is_not_resumed)
{
    struct run *run = open_run("o", EPOCHS);
    struct checkpoint checkpoint = {.state = run->training.state, .n_float = {FAKE_N_WEIGHT}, .path = "it"};
    checkpoint.state.partition ^= 1;
    cr_assert_eq(training_resume(&run->training, &checkpoint), STATUS_DATA);
    cr_assert(strstr(status_reason(), "other parts"), "%s", status_reason());
    checkpoint.state.dataset[0] = 'x';
    cr_assert_eq(training_resume(&run->training, &checkpoint), STATUS_DATA);
    cr_assert(strstr(status_reason(), "the graph in"), "%s", status_reason());
    checkpoint.state = run->training.state;
    checkpoint.n_float[CHECKPOINT_ARRAY_WEIGHTS] = 4;
    cr_assert_eq(training_resume(&run->training, &checkpoint), STATUS_DATA);
    cr_assert(strstr(status_reason(), "has 4 numbers of weights: expected 5"), "%s", status_reason());
}

Test(training, of_several_metrics_the_first_chooses_and_all_are_in_the_lines)
{
    struct run *run = open_run("o", "epochs = 3\nmetrics = [\"roc_auc\", \"accuracy\"]\n");
    int32_t labels[FAKE_N_NODE] = {0, 1, 0, 1, 0, 1};
    uint8_t split[FAKE_N_NODE] = {2, 2, 2, 2, 3, 3};
    run->training.labels = (struct score_labels){
        .n_node = FAKE_N_NODE, .n_class = 2, .labels = labels, .split = split};
    expect_done(run);
    cr_assert_eq(run->training.state.best_epoch, 0, "the area stays, the accuracy gets better");
    json_t *metrics = metrics_of("o"), *last = json_array_get(metrics, 2);
    cr_assert_str_eq(json_string_value(json_object_get(last, "metric")), "roc_auc");
    cr_assert_eq(field(metrics, 2, "valid_metric"), 1.0);
    cr_assert_eq(field(metrics, 2, "valid_roc_auc"), 1.0);
    cr_assert_eq(field(metrics, 2, "valid_accuracy"), 0.02);
    cr_assert_eq(field(metrics, 2, "test_accuracy"), 0.30);
    cr_assert_eq(field(metrics, 2, "train_accuracy"), 0.10);
    cr_assert_eq(field(metrics, 2, "valid_loss"), 1.5);
}

Test(training, interrupted_anywhere_and_resumed_all_metrics_are_those_of_the_best_epoch)
{
    expect_resumed_alike("epochs = 5\nmetrics = [\"accuracy\", \"micro_f1\"]\n");
}

/* --- the accuracy guard --- */

#define GUARD                                                                                                        \
    EPOCHS "checkpoint_every = 4\n[exchange]\nsampling = 0.1\ncodec = \"int8\"\nguard_every = 3\nguard_limit = "     \
           "0.5\n"

/* Epochs 2, 5 and 8 compare; the first and the last find too much. */
static struct run *guarded(const char *name)
{
    struct run *run = open_run(name, GUARD);
    run->fleet.error_most = 0.5;
    run->fleet.error_at[2] = 0.625;
    run->fleet.error_at[5] = 0.25;
    run->fleet.error_at[8] = 0.75;
    return run;
}

Test(training, what_the_guard_finds_is_in_the_metrics_the_log_and_the_state)
{
    struct run *run = guarded("o");
    expect_done(run);
    json_t *metrics = metrics_of("o");
    for (size_t i = 0; i < 9; i++) {
        cr_assert_eq(field(metrics, i, "back_offs"), i < 2 ? 0 : i < 8 ? 1 : 2);
        double at = field(metrics, i, "guard_epoch"), error = field(metrics, i, "guard_error");
        cr_assert(i < 2 ? isnan(at) && isnan(error) : at == (i < 5 ? 2 : i < 8 ? 5 : 8), "%zu: %g", i, at);
        cr_assert(i < 2 || error == (i < 5 ? 0.625 : i < 8 ? 0.25 : 0.75), "%zu: %g", i, error);
        cr_assert(i < 2 || (field(metrics, i, "guard_loss") == 0.5 && field(metrics, i, "guard_cosine") == 0.25));
    }
    cr_assert_eq(run->training.state.n_guard, 3);
    cr_assert_eq(run->training.state.n_back_off, 2);
    cr_assert_eq(run->training.state.guard_epoch, 8);
    char words[4096] = "";
    rewind(run->words);
    words[fread(words, 1, sizeof words - 1, run->words)] = '\0';
    cr_assert_not_null(
        strstr(words, "epoch 2: the gradient's relative error is 0.625, more than exchange.guard_limit = 0.5; "
                      "backed off to 0.2 of the boundary rows, bf16"),
        "%s", words);
    cr_assert_null(strstr(words, "epoch 5: the gradient"), "%s", words);
    cr_assert_not_null(strstr(words, "backed off to 0.4 of the boundary rows, fp32"), "%s", words);
}

Test(training, a_resumed_job_tells_the_workers_how_far_the_guard_has_backed_off)
{
    struct run *whole = guarded("one");
    expect_done(whole);
    struct run *first = guarded("two");
    first->fleet.signal_at = 3;
    cr_assert_eq(training_run(&first->training), STATUS_INTERRUPTED);
    close_run(first);
    struct run *second = resume_run("two", GUARD);
    cr_assert_eq(second->fleet.n_back_off, 1);
    memcpy(second->fleet.error_at, whole->fleet.error_at, sizeof whole->fleet.error_at);
    second->fleet.error_most = 0.5;
    expect_done(second);
    cr_assert_eq(second->training.state.n_back_off, 2);
    cr_assert_eq(second->training.state.n_guard, 3);
    expect_same_end(whole, second);
}

Test(training, a_rollback_takes_back_the_guards_back_offs_too)
{
    struct run *run = open_run("o", EPOCHS "checkpoint_every = 4\non_nan = \"rollback\"\n[exchange]\nsampling = 0.1\n"
                                           "guard_every = 5\nguard_limit = 0.5\n");
    run->fleet.nan_at = 6;
    run->fleet.nan_above = 0.8;
    run->fleet.error_most = 0.5;
    run->fleet.error_at[4] = 1.0;
    expect_done(run);
    cr_assert_eq(run->training.state.n_rollback, 1);
    cr_assert_eq(run->training.state.n_back_off, 1, "once in each of two runs of epoch 4, of which one counts");
    cr_assert_eq(run->training.state.n_guard, 1);
    cr_assert_eq(run->fleet.n_back_off, 1);
}

Test(training, a_job_without_a_guard_says_nothing_of_one)
{
    struct run *run = open_run("o", EPOCHS);
    expect_done(run);
    json_t *metrics = metrics_of("o");
    cr_assert_null(json_object_get(json_array_get(metrics, 0), "back_offs"));
    cr_assert_null(strchr(run->fleet.said, 'c'));
}
