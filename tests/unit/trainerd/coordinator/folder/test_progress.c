#include "trainerd/coordinator/folder/progress.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *text;
static size_t n_text;
static FILE *file;
static struct progress progress;

/* What `text` gets, without a terminal. */
static void begin(void)
{
    file = open_memstream(&text, &n_text);
    progress_init(&progress, file, false);
}

static void end(void)
{
    fclose(file);
    free(text);
}

TestSuite(progress, .init = begin, .fini = end);

static const char *seen(void)
{
    fflush(file);
    return text;
}

static int count(const char *in, const char *word)
{
    int n = 0;
    for (const char *at = strstr(in, word); at != NULL; at = strstr(at + 1, word)) {
        n++;
    }
    return n;
}

static struct progress_epoch epoch_of(int64_t n_done, bool is_evaluated)
{
    double known = is_evaluated ? 0.815 : NAN;
    return (struct progress_epoch){.n_done = n_done,
                                   .is_evaluated = is_evaluated,
                                   .loss = 0.5,
                                   .train_metric = known,
                                   .valid_metric = known,
                                   .test_metric = known,
                                   .epoch_s = 0.02,
                                   .bytes_received = 1500000};
}

Test(progress, metrics_are_in_per_cent_unless_they_are_numbers)
{
    cr_assert_str_eq(progress_metric(&(struct progress){.n_epoch = 1}, 0.815).text, "81.50 %");
    cr_assert_str_eq(progress_metric(&(struct progress){.is_of_numbers = true}, 0.123456).text, "0.12346");
    cr_assert_str_eq(progress_metric(&(struct progress){.n_epoch = 1}, NAN).text, "-");
}

Test(progress, a_name_in_a_message_cannot_write_to_the_terminal)
{
    progress_print(&progress, "loaded %s", "caf\xc3\xa9\x1b[2J\n\xff");
    cr_assert_str_eq(seen(), "loaded caf\xc3\xa9\\x1b[2J\\x0a\\xff\n");
}

Test(progress, without_a_terminal_each_evaluation_is_one_plain_line)
{
    progress_print(&progress, "loaded %d nodes", 34);
    progress_begin(&progress, 0, 10, 5, 0.0);
    for (int64_t i = 1; i <= 10; i++) {
        struct progress_epoch epoch = epoch_of(i, i % 5 == 0);
        progress_epoch(&progress, &epoch, 0.5 * (double)i);
    }
    progress_end(&progress);
    cr_assert_str_eq(
        seen(),
        "loaded 34 nodes\n"
        "epoch 5/10  loss 0.5  2.5 s left  train 81.5 %  valid 81.5 %  test 81.5 %  0.020 s/epoch  1.5 MB/epoch\n"
        "epoch 10/10  loss 0.5  train 81.5 %  valid 81.5 %  test 81.5 %  0.020 s/epoch  1.5 MB/epoch\n");
}

Test(progress, metrics_have_their_names_and_others_their_validation)
{
    progress.n_metric = 2;
    progress.metric[0] = "roc_auc";
    progress.metric[1] = "accuracy";
    progress_begin(&progress, 0, 2, 1, 0.0);
    struct progress_epoch epoch = epoch_of(1, true);
    epoch.bytes_received = 0;
    epoch.train_metric = NAN;
    epoch.valid_of[1] = 0.25;
    progress_epoch(&progress, &epoch, 1.0);
    progress_end(&progress);
    cr_assert_str_eq(seen(),
                     "epoch 1/2  loss 0.5  1.0 s left  roc_auc: valid 81.5 %  test 81.5 %  accuracy: valid 25.0 %  "
                     "0.020 s/epoch\n");
}

Test(progress, ten_thousand_quick_evaluations_are_about_twenty_lines)
{
    progress_begin(&progress, 0, 10000, 1, 0.0);
    for (int64_t i = 1; i <= 10000; i++) {
        struct progress_epoch epoch = epoch_of(i, true);
        progress_epoch(&progress, &epoch, 0.001 * (double)i);
    }
    int n = count(seen(), "\n");
    cr_assert(n >= 20 && n <= 22, "%d lines", n);
    cr_assert_eq(count(text, "epoch 1/10000 "), 1);
    cr_assert_eq(count(text, "epoch 10000/10000 "), 1);
}

Test(progress, slow_evaluations_are_all_shown)
{
    progress_begin(&progress, 0, 1000, 1, 0.0);
    for (int64_t i = 1; i <= 50; i++) {
        struct progress_epoch epoch = epoch_of(i, true);
        progress_epoch(&progress, &epoch, 30.0 * (double)i);
    }
    cr_assert_eq(count(seen(), "\n"), 50);
}

Test(progress, a_live_line_is_redrawn_ten_times_a_second_at_most_and_cleared)
{
    FILE *terminal = tmpfile();
    progress_init(&progress, terminal, true);
    progress_begin(&progress, 0, 1000000, 1, 0.0);
    for (int64_t i = 1; i <= 1000; i++) {
        struct progress_epoch epoch = epoch_of(i, true);
        progress_epoch(&progress, &epoch, 0.001 * (double)i);
    }
    progress_print(&progress, "done");
    progress_end(&progress);
    static char bytes[8192];
    rewind(terminal);
    size_t n = fread(bytes, 1, sizeof bytes - 1, terminal);
    cr_assert_gt(n, 0);
    int n_drawn = count(bytes, "\repoch ");
    cr_assert(n_drawn >= 9 && n_drawn <= 11, "%d times", n_drawn);
    cr_assert_eq(count(bytes, "\n"), 1);
    cr_assert(strstr(bytes, "\x1b[K\r\x1b[Kdone\n"), "the line is gone before other words come");
    /* No window behind a plain file: 79 columns. */
    char *line = strtok(bytes, "\r");
    for (int i = 0; i < n_drawn; i++, line = strtok(NULL, "\r")) {
        cr_assert_leq(strlen(line) - strlen("\x1b[K"), 79, "%s", line);
        cr_assert(strstr(line, "valid 81.5 %"), "%s", line);
        cr_assert(i == n_drawn - 1 || strstr(line, " left  "), "%s", line);
    }
    fclose(terminal);
}

Test(progress, a_live_line_between_evaluations_keeps_the_last_metrics)
{
    progress_begin(&progress, 0, 4, 1, 0.0);
    struct progress_epoch first = epoch_of(1, true), second = epoch_of(2, false);
    progress_epoch(&progress, &first, 1.0);
    progress_epoch(&progress, &second, 2.0);
    cr_assert_eq(progress.last.n_done, 2);
    cr_assert_eq(progress.last.valid_metric, 0.815);
}
