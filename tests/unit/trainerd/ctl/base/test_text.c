/* Answers for people: durations, sizes, tables, and what must not reach a terminal. */
#include "trainerd/ctl/base/columns.h"
#include "trainerd/ctl/base/text.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

Test(text, a_metric_is_in_percent_unless_its_name_says_that_it_is_no_fraction)
{
    const struct {
        const char *json, *text;
    } rows[] = {{"{\"valid_metric\":0.35}", "35.00 %"},
                {"{\"valid_metric\":0.35,\"metric\":\"micro_f1\"}", "35.00 %"},
                {"{\"valid_metric\":0.35,\"metric\":\"rmse\"}", "0.35"},
                {"{\"valid_metric\":0.35,\"metric\":null}", "35.00 %"},
                {"{\"valid_metric\":null,\"metric\":\"r2\"}", "-"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *job = json_loads(rows[i].json, 0, NULL);
        cr_assert_str_eq(text_metric(job, "valid_metric").text, rows[i].text, "%s", rows[i].json);
        json_decref(job);
    }
}

Test(text, a_job_without_epochs_shows_none_and_no_moment_is_a_dash)
{
    json_t *job = json_pack("{s:i, s:i}", "epoch", 3, "epochs", 10);
    cr_assert_str_eq(text_epochs(job).text, "3/10");
    json_object_set_new(job, "epoch", json_integer(0));
    json_object_set_new(job, "epochs", json_integer(0));
    cr_assert_str_eq(text_epochs(job).text, "-");
    cr_assert_str_eq(text_moment(NAN).text, "-");
    json_decref(job);
}

Test(text, times_are_read_with_their_units)
{
    double seconds;
    cr_assert_eq(text_read_duration("90", "t", &seconds), STATUS_OK);
    cr_assert_eq(seconds, 90);
    cr_assert_eq(text_read_duration("1.5h", "t", &seconds), STATUS_OK);
    cr_assert_eq(seconds, 5400);
    cr_assert_eq(text_read_duration("2d", "t", &seconds), STATUS_OK);
    cr_assert_eq(seconds, 172800);
    static const char *const bad[] = {"", "h", "5x", "5 min", "-1", "nan", "inf", "5hh"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_eq(text_read_duration(bad[i], "--time-limit", &seconds), STATUS_USAGE, "%s", bad[i]);
        cr_assert_not_null(strstr(status_reason(), "expected a time: 90, 90s, 15m"));
    }
}

static char *written_table(struct table *table, int n_columns)
{
    char *out = NULL;
    size_t n;
    FILE *file = open_memstream(&out, &n);
    table_print(table, file, n_columns, NULL);
    fclose(file);
    return out;
}

Test(text, a_table_is_as_wide_as_its_cells_and_its_last_column_is_cut_at_the_edge)
{
    struct table table;
    table_init(&table, 3);
    table.is_right[0] = true;
    static const char *const cells[] = {"ID", "NAME", "REASON", "7", "gr\xc3\xbc\xc3\x9f.", "because of this",
                                        "12", "x",    ""};
    for (size_t i = 0; i < 9; i++) {
        table_add(&table, cells[i]);
    }
    char *out = written_table(&table, 18);
    cr_assert_str_eq(out, "ID  NAME   REASON\n 7  gr\xc3\xbc\xc3\x9f.  because\n12  x\n");
    free(out);
}

Test(text, a_table_leaves_out_empty_columns_and_the_least_worth_where_lines_are_too_wide)
{
    static const char *const cells[] = {"ID",   "GROUP", "VALID", "BEST", "REASON", "1",    "-",  "50 %",
                                        "60 %", "",      "2",     "",     "40 %",   "70 %", "why"};
    static const struct {
        int n_column;
        const char *text;
    } cases[] = {{0, "ID  VALID  BEST  REASON\n 1   50 %  60 %\n 2   40 %  70 %  why\n"},
                 {23, "ID  VALID  BEST  REASON\n 1   50 %  60 %\n 2   40 %  70 %  why\n"},
                 {22, "ID  BEST  REASON\n 1  60 %\n 2  70 %  why\n"},
                 {10, "ID  REASON\n 1\n 2  why\n"},
                 {8, "ID  REAS\n 1\n 2  why\n"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct table table;
        table_init(&table, 5);
        for (int i = 0; i < 4; i++) {
            table.is_right[i] = true;
            table.worth[i] = i; /* the first stays */
        }
        for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
            table_add(&table, cells[i]);
        }
        char *out = written_table(&table, cases[c].n_column);
        cr_expect_str_eq(out, cases[c].text, "%d columns:\n%s", cases[c].n_column, out);
        free(out);
    }
}

Test(text, a_long_text_is_cut_at_whole_characters_at_its_end_or_its_beginning)
{
    static const struct {
        int n_most;
        bool keeps_end;
        const char *text;
    } cases[] = {
        {0, false, "grüße.x"}, {7, true, "grüße.x"}, {6, false, "grüße…"}, {4, false, "grü…"}, {5, true, "…ße.x"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *cut = text_cut("grüße.x", cases[i].n_most, cases[i].keeps_end);
        cr_expect_str_eq(cut, cases[i].text, "%s", cut);
        free(cut);
    }
}

Test(text, a_job_that_waits_says_its_position_and_what_it_waits_for)
{
    static const struct {
        const char *job, *text;
    } cases[] = {{"{\"reason\":\"WAITING_TURN\",\"reason_text\":\"jobs before it wait\",\"position\":3}",
                  "waiting, position 3"},
                 {"{\"reason\":\"WAITING_SLOTS\",\"reason_text\":\"0 slots are free\",\"position\":1}",
                  "waiting, position 1: 0 slots are free"},
                 {"{\"reason\":\"WORKER_LOST\",\"reason_text\":\"it died\",\"position\":null}", "it died"},
                 {"{\"reason\":\"NONE\",\"reason_text\":\"x\",\"position\":null}", ""},
                 {"{}", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *job = json_loads(cases[i].job, 0, NULL);
        cr_expect_str_eq(text_reason(job).text, cases[i].text, "%s", cases[i].job);
        json_decref(job);
    }
}

Test(text, short_durations_have_two_units_at_most)
{
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{NAN, "-"}, {-3, "0s"},    {0.4, "0s"},     {59.9, "59s"},
                 {60, "1m"}, {3599, "59m"}, {3900, "1h05m"}, {86400 * 12 + 3600, "12d01h"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_str_eq(text_duration_short(cases[i].seconds).text, cases[i].text, "%g", cases[i].seconds);
    }
}

Test(text, control_characters_of_others_reach_no_terminal)
{
    struct table table;
    table_init(&table, 1);
    table_add(&table, "a\x1b[31m\nb");
    char *out = written_table(&table, 0), *lines = NULL;
    cr_assert_str_eq(out, "a\\x1b[31m\\x0ab\n");
    free(out);
    size_t n;
    FILE *file = open_memstream(&lines, &n);
    text_print_lines(file, "one\n\ttwo\x1b[2J\x07 \xc2\x9b"
                           "31m\xff.\n");
    fclose(file);
    cr_assert_str_eq(lines, "one\n\ttwo[2J \\xc2\\x9b31m\\xff.\n");
    free(lines);
}

Test(text, json_has_no_character_that_is_not_seen_and_the_same_value)
{
    static const char name[] = "gr\xc3\xbc\xc3\x9f \xe2\x80\xaegnp \x7f \xf3\xa0\x81\x81";
    json_t *value = json_pack("{s:s}", "name", name);
    char *out = NULL;
    size_t n;
    FILE *file = open_memstream(&out, &n);
    text_write_json(file, value);
    fclose(file);
    cr_assert_str_eq(out, "{\"name\":\"gr\xc3\xbc\xc3\x9f \\u202egnp \\u007f \\udb40\\udc41\"}\n");
    json_t *again = json_loads(out, 0, NULL);
    cr_assert_str_eq(json_string_value(json_object_get(again, "name")), name);
    json_decref(again);
    json_decref(value);
    free(out);
}
