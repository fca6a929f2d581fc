#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "trainerd/daemon/supervisor/event_log.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(event_log, .init = folder_make, .fini = folder_remove);

static struct event got[32];
static size_t n_got;

static void keep(void *context, const struct event *event)
{
    (void)context;
    got[n_got++ % 32] = *event;
}

/* Read attempt 2's news from there. */
static int64_t read_from(int64_t offset)
{
    bool more;
    n_got = 0;
    enum status status = event_log_read(folder_path("events.jsonl"), 2, &offset, &more, keep, NULL);
    expect_done(status);
    cr_assert_not(more);
    return offset;
}

#define LINE(rest) "{\"ts\":1.5,\"attempt\":2,\"event\":" rest "}\n"

Test(event_log, every_kind_is_read_with_its_numbers)
{
    folder_write(
        "events.jsonl",
        LINE("\"begin\",\"pid\":7") LINE("\"state\",\"state\":\"STARTING\"")
            LINE("\"plan\",\"memory\":4096,\"workers\":2")
                LINE("\"epoch\",\"epoch\":3,\"epochs\":10,\"loss\":0.5,\"train_metric\":null,\"valid_metric\":1,"
                     "\"test_metric\":0.25,\"metric\":\"roc_auc\",\"best_valid_metric\":2,\"best_test_metric\":0.75,"
                     "\"epoch_s\":0.01,\"seconds_left\":7,\"compute_s\":0.006,\"wait_s\":0.004,"
                     "\"evaluate_s\":0.002,\"bytes_sent\":100,\"bytes_received\":200,\"memory\":4000")
                    LINE("\"checkpoint\",\"epoch\":3,\"path\":\"x\"")
                        LINE("\"end\",\"exit_code\":69,\"status\":\"PEER\",\"reason\":\"worker 1 was lost\","
                             "\"restartable\":true"));
    read_from(0);
    cr_assert_eq(n_got, 5);
    cr_assert_eq(got[0].kind, EVENT_KIND_BEGIN);
    cr_assert(got[1].kind == EVENT_KIND_STATE && got[1].state == JOB_STATE_STARTING);
    const struct job_progress *progress = &got[2].progress;
    cr_assert(got[2].kind == EVENT_KIND_EPOCH && progress->epoch == 3 && progress->n_epoch == 10);
    cr_assert(progress->loss == 0.5 && isnan(progress->train_metric) && progress->valid_metric == 1.0);
    cr_assert(progress->test_metric == 0.25 && progress->epoch_s == 0.01 && progress->seconds_left == 7.0);
    cr_assert(progress->best_valid_metric == 2.0 && progress->best_test_metric == 0.75);
    cr_assert_str_eq(progress->metric, "roc_auc");
    cr_assert(progress->compute_s == 0.006 && progress->wait_s == 0.004 && progress->evaluate_s == 0.002);
    cr_assert(progress->bytes_sent == 100.0 && progress->bytes_received == 200.0 && progress->memory == 4000.0);
    cr_assert(got[3].kind == EVENT_KIND_CHECKPOINT && got[3].epoch == 3);
    cr_assert(got[4].kind == EVENT_KIND_END && got[4].status == STATUS_PEER && got[4].restartable);
    cr_assert_str_eq(got[4].reason, "worker 1 was lost");
}

Test(event_log, an_end_is_read_again_by_whoever_goes_on_from_there)
{
    static const char before[] = LINE("\"checkpoint\",\"epoch\":1");
    folder_write("events.jsonl",
                 LINE("\"checkpoint\",\"epoch\":1")
                     LINE("\"end\",\"exit_code\":65,\"status\":\"DATA\",\"reason\":\"x\",\"restartable\":false")
                         LINE("\"checkpoint\",\"epoch\":2"));
    for (int64_t at = 0, turn = 0; turn < 2; turn++) {
        at = read_from(at);
        cr_assert_eq(at, (int64_t)sizeof before - 1);
        cr_assert_eq(n_got, 2 - turn, "nothing follows an end");
        cr_assert_eq(got[n_got - 1].kind, EVENT_KIND_END);
        cr_assert_eq(got[n_got - 1].status, STATUS_DATA);
    }
}

Test(event_log, reading_goes_on_where_it_ended)
{
    folder_write("events.jsonl", LINE("\"checkpoint\",\"epoch\":1"));
    int64_t at = read_from(0);
    cr_assert_eq(n_got, 1);
    cr_assert_eq(read_from(at), at);
    cr_assert_eq(n_got, 0);
    folder_write("events.jsonl", LINE("\"checkpoint\",\"epoch\":1") LINE("\"checkpoint\",\"epoch\":2"));
    read_from(at);
    cr_assert_eq(n_got, 1);
    cr_assert_eq(got[0].epoch, 2);
}

Test(event_log, a_line_that_is_not_whole_yet_is_read_when_it_is)
{
    folder_write("events.jsonl", LINE("\"checkpoint\",\"epoch\":1") "{\"ts\":1.5,\"attempt\":2,\"event\":\"chec");
    int64_t at = read_from(0);
    cr_assert_eq(n_got, 1);
    folder_write("events.jsonl", LINE("\"checkpoint\",\"epoch\":1") LINE("\"checkpoint\",\"epoch\":2"));
    read_from(at);
    cr_assert_eq(n_got, 1);
    cr_assert_eq(got[0].epoch, 2);
}

Test(event_log, a_line_cut_by_a_death_and_closed_by_the_next_attempt_is_passed_over)
{
    folder_write("events.jsonl", "{\"ts\":1.5,\"attempt\":2,\"event\":\"chec\n" LINE("\"checkpoint\",\"epoch\":2"));
    read_from(0);
    cr_assert_eq(n_got, 1);
    cr_assert_eq(got[0].epoch, 2);
}

Test(event_log, lines_of_other_attempts_and_garbage_are_passed_over)
{
    folder_write("events.jsonl",
                 "{\"attempt\":1,\"event\":\"end\",\"exit_code\":0,\"restartable\":false}\n"
                 "{\"attempt\":3,\"event\":\"end\",\"exit_code\":0,\"restartable\":false}\n"
                 "{\"event\":\"end\",\"exit_code\":0}\n"
                 "\n[]\nnull\n42\n\"end\"\n{}\n\xff\xfe\n{\"attempt\":2}\n"
                 "{\"attempt\":\"2\",\"event\":\"end\",\"exit_code\":0}\n" LINE("\"surprise\"") LINE("7")
                     LINE("\"state\",\"state\":\"SUCCEEDED\"") LINE("\"state\",\"state\":\"QUEUED\"")
                         LINE("\"state\",\"state\":3") LINE("\"end\",\"exit_code\":256")
                             LINE("\"end\",\"exit_code\":\"0\"") LINE("\"end\"")
                                 LINE("\"epoch\",\"epoch\":11,\"epochs\":10") LINE("\"checkpoint\",\"epoch\":-1"));
    struct stat about;
    cr_assert_eq(stat(folder_path("events.jsonl"), &about), 0);
    cr_assert_eq(read_from(0), about.st_size);
    cr_assert_eq(n_got, 0, "kind %d", (int)got[0].kind);
}

/* n times 'x' within a line, then another line. */
static void long_line_write(int n)
{
    FILE *file = fopen(folder_path("events.jsonl"), "w");
    for (int i = 0; i < n; i++) {
        fputc('x', file);
    }
    fputs("\n" LINE("\"checkpoint\",\"epoch\":9"), file);
    fclose(file);
}

static void expect_fault(int64_t at, const char *why)
{
    const int64_t was = at;
    bool more = true;
    expect_fails(event_log_read(folder_path("events.jsonl"), 2, &at, &more, keep, NULL), STATUS_DATA, why);
    cr_assert_eq(at, was);
    cr_assert_not(more);
}

Test(event_log, the_longest_line_is_passed_over_and_a_longer_one_is_a_fault)
{
    long_line_write(EVENT_LINE_MOST_BYTES);
    int64_t at = 0;
    bool more = true;
    n_got = 0;
    for (int turn = 0; more; turn++) {
        cr_assert_lt(turn, 3);
        cr_assert_eq(event_log_read(folder_path("events.jsonl"), 2, &at, &more, keep, NULL), STATUS_OK);
    }
    cr_assert_eq(n_got, 1);
    cr_assert_eq(got[0].epoch, 9);
    long_line_write(EVENT_LINE_MOST_BYTES + 1);
    expect_fault(0, "a line of more than 65536 bytes, from byte 0 on");
}

/* A sparse file: reading it all would take minutes. */
Test(event_log, a_hole_is_a_fault_however_large)
{
    folder_write("events.jsonl", LINE("\"checkpoint\",\"epoch\":1"));
    int64_t at = read_from(0);
    cr_assert_eq(truncate(folder_path("events.jsonl"), (off_t)60 << 30), 0);
    expect_fault(at, "has zero bytes");
    cr_assert_eq(event_log_bytes(folder_path("events.jsonl")), (int64_t)60 << 30);
    cr_assert_eq(event_log_bytes(folder_path("none")), -1);
}

Test(event_log, control_characters_in_a_reason_do_not_get_through)
{
    folder_write("events.jsonl", LINE("\"end\",\"exit_code\":1,\"reason\":\"a\\u001b[31mb\\nc\""));
    read_from(0);
    cr_assert_str_eq(got[0].reason, "a\\x1b[31mb\\x0ac");
}

Test(event_log, what_is_no_plain_file_is_refused_and_links_are_not_followed)
{
    int64_t at = 5;
    bool more;
    const char *path = folder_path("events.jsonl");
    cr_assert_eq(event_log_read(path, 2, &at, &more, keep, NULL), STATUS_NO_INPUT);
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_assert_eq(event_log_read(path, 2, &at, &more, keep, NULL), STATUS_DATA);
    cr_assert(strstr(status_reason(), "events.jsonl") && strstr(status_reason(), "not a regular file"), "%s",
              status_reason());
    cr_assert_eq(unlink(path), 0);
    folder_write("target", LINE("\"checkpoint\",\"epoch\":1"));
    cr_assert_eq(symlink("target", path), 0);
    cr_assert_eq(event_log_read(path, 2, &at, &more, keep, NULL), STATUS_DATA);
    cr_assert_eq(at, 5);
}

Test(event_log, a_file_that_became_shorter_is_a_fault)
{
    folder_write("events.jsonl", LINE("\"checkpoint\",\"epoch\":1"));
    expect_fault(100000, "is shorter than what was read of it before");
}

Test(event_log, the_last_words_are_the_last_line_for_people)
{
    char words[64];
    folder_write("log", "epoch 1\ntrainerd: job.toml:3:1: unknown key\n\n");
    event_log_last_line_in(folder_path("log"), words, sizeof words);
    cr_assert_str_eq(words, "job.toml:3:1: unknown key");
    folder_write("log", "one line without an end");
    event_log_last_line_in(folder_path("log"), words, sizeof words);
    cr_assert_str_eq(words, "one line without an end");
    folder_write("log", "");
    event_log_last_line_in(folder_path("log"), words, sizeof words);
    cr_assert_str_eq(words, "");
    event_log_last_line_in(folder_path("none"), words, sizeof words);
    cr_assert_str_eq(words, "");
}
