/* A job on a terminal: its sparks, and the frame around them. */
#include "trainerd/ctl/screen.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct history history;

static void add(double epoch, const char *rest)
{
    char line[256];
    snprintf(line, sizeof line, "{\"epoch\":%g%s}", epoch, rest);
    json_t *event = json_loads(line, 0, NULL);
    cr_assert_not_null(event, "%s", line);
    history_add(&history, event);
    json_decref(event);
}

static void begin(void)
{
    srand(1);
}

static void end(void)
{
    history_release(&history);
}

TestSuite(screen, .init = begin, .fini = end);

Test(screen, an_attempt_that_goes_on_from_a_checkpoint_replaces_what_lies_behind_it)
{
    for (int i = 1; i <= 1000; i++) {
        add(i, ",\"loss\":2");
    }
    add(500, ",\"loss\":1,\"valid_metric\":null");
    cr_assert_eq(history.n, 500);
    cr_assert_eq(history.epoch[499].at, 500);
    cr_assert_eq(history.epoch[499].value[HISTORY_LOSS], 1);
    cr_assert(isnan(history.epoch[499].value[HISTORY_VALID]));
    add(501, ",\"loss\":\"none\"");
    cr_assert(isnan(history.epoch[500].value[HISTORY_LOSS]));
    json_t *other = json_pack("{s:n}", "epoch");
    history_add(&history, other);
    json_decref(other);
    cr_assert_eq(history.n, 501);
}

/* --- sparks --- */

/* The level of each cell, 0 to 7; -1: a blank. */
static int levels_of(const char *sparks, int *out)
{
    int n = 0;
    while (*sparks != '\0') {
        bool is_blank = *sparks == ' ';
        cr_assert(is_blank || (strncmp(sparks, "\xe2\x96", 2) == 0 && sparks[2] >= '\x81' && sparks[2] <= '\x88'),
                  "%s", sparks);
        out[n++] = is_blank ? -1 : sparks[2] - '\x81';
        sparks += is_blank ? 1 : 3;
    }
    return n;
}

/* Random values, many of them unknown or the same: a spark is as high as the mean lies between least and most. */
static void expect_sparks(int n, int n_cell)
{
    char sparks[3 * 80 + 1];
    int level[80], n_known[80] = {0}, expected = n < n_cell ? n : n_cell;
    double sum[80] = {0}, least = INFINITY, most = -INFINITY;
    history.n = 0;
    for (int i = 0, cell = 0; i < n; i++) {
        char rest[64] = ",\"loss\":null";
        int value = rand() % 9 - 4;
        bool is_known = rand() % 4 != 0;
        cell += (cell + 1) * n / expected <= i;
        if (is_known) {
            snprintf(rest, sizeof rest, ",\"loss\":%d", value);
            sum[cell] += value;
            n_known[cell]++;
        }
        add(i, rest);
    }
    history_sparks(&history, HISTORY_LOSS, n_cell, sparks);
    cr_assert_eq(levels_of(sparks, level), expected, "%d epochs, %d cells: %s", n, n_cell, sparks);
    for (int c = 0; c < expected; c++) {
        cr_assert_eq(level[c] < 0, n_known[c] == 0, "cell %d of %s", c, sparks);
        least = n_known[c] > 0 ? fmin(least, sum[c] / n_known[c]) : least;
        most = n_known[c] > 0 ? fmax(most, sum[c] / n_known[c]) : most;
    }
    for (int c = 0; c < expected; c++) {
        double eighths = most > least ? 8 * (sum[c] / n_known[c] - least) / (most - least) : 0;
        cr_assert(n_known[c] == 0 || (level[c] <= eighths + 1e-9 && level[c] >= eighths - 1.01),
                  "cell %d of %s: level %d, expected %g", c, sparks, level[c], eighths);
    }
}

Test(screen, sparks_are_as_high_as_the_means_of_their_epochs)
{
    for (int i = 0; i < 500; i++) {
        expect_sparks(rand() % 300, 1 + rand() % 80);
    }
    history.n = 0;
    for (int i = 0; i < 8; i++) {
        char rest[32];
        snprintf(rest, sizeof rest, ",\"valid_metric\":0.%d", i);
        add(i, rest);
    }
    char sparks[32];
    history_sparks(&history, HISTORY_VALID, 80, sparks);
    cr_assert_str_eq(sparks, "▁▂▃▄▅▆▇█");
    history_sparks(&history, HISTORY_VALID, 2, sparks);
    cr_assert_str_eq(sparks, "▁█");
    add(0, ",\"loss\":1e308");
    add(1, ",\"loss\":-1e308");
    history_sparks(&history, HISTORY_LOSS, 80, sparks); /* their distance is no number */
    cr_assert_str_eq(sparks, "▁▁");
}

/* --- a frame --- */

/* A frame is `n_row` lines, each as wide as the terminal at most. owns  the caller frees it */
static char *frame_of(const json_t *job, int n_column, int n_row)
{
    char *text = NULL;
    size_t n, n_line = 1;
    FILE *file = open_memstream(&text, &n);
    const struct screen_view view = {
        .n_column = n_column, .n_row = n_row, .job = job, .history = &history, .footer = "the last line"};
    screen_draw(file, &view);
    fclose(file);
    int column = 0;
    for (const char *at = text; *at != '\0'; at++) {
        if (at[0] == '\x1b') {
            at += strcspn(at, "HK");
        } else if (*at == '\n') {
            n_line++;
            column = 0;
        } else if ((*at & 0xc0) != 0x80 && *at != '\r') {
            cr_assert_leq(++column, n_column, "line %zu of %dx%d", n_line, n_column, n_row);
        }
    }
    cr_assert_eq(n_line, (size_t)n_row, "%zu lines, %d wanted", n_line, n_row);
    const char *last = strrchr(text, '\n') + 1;
    cr_assert_eq(strncmp(last, "the last line", 13), 0, "%s", text);
    return text;
}

Test(screen, a_frame_fits_any_terminal_whatever_the_job_is_called)
{
    json_t *job = json_pack(
        "{s:i, s:s, s:s, s:s, s:i, s:i, s:f}", "id", 7, "name", "n\x1b[2Jame", "state", "RUNNING", "reason_text",
        "because of a long sentence that does not fit into any line at all, however wide it may be", "epoch", 50,
        "epochs", 100, "percent", 50.0);
    static const int sizes[][2] = {{80, 24}, {20, 4}, {200, 60}, {300, 8}, {30, 10}, {25, 5}};
    for (int with = 0; with < 2; with++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            free(frame_of(job, sizes[i][0], sizes[i][1]));
        }
        for (int i = 1; i <= 50; i++) {
            add(i, i % 3 == 0 ? ",\"loss\":0.5,\"valid_metric\":0.25" : ",\"loss\":1.5e30");
        }
    }
    json_decref(job);
}

Test(screen, a_frame_has_sparks_with_numbers_beside_and_the_best_epoch)
{
    static const char *const metrics[] = {"accuracy", "rmse"},
                             *const best[] = {"75.00 % at epoch 5", "0.5 at epoch 1"},
                             *const sparks[] = {"accuracy  ▁▁▁▁█▁▁▁▁▁  valid 50.00 %  train 99.00 %  test -",
                                                "rmse  ▁▁▁▁█▁▁▁▁▁  valid 0.5  train 0.99  test -"};
    for (int i = 1; i <= 10; i++) {
        add(i, i == 5 ? ",\"loss\":1,\"valid_metric\":0.75" : ",\"loss\":2,\"valid_metric\":0.5");
    }
    for (int m = 0; m < 2; m++) {
        json_t *job = json_pack("{s:i, s:s, s:s, s:f, s:f, s:f}", "id", 7, "name", "k", "metric", metrics[m], "loss",
                                0.125, "valid_metric", 0.5, "train_metric", 0.99);
        char *text = frame_of(job, 80, 24);
        cr_expect_not_null(strstr(text, "████▁█████  0.125\x1b[K"), "%s", text);
        cr_expect_not_null(strstr(text, sparks[m]), "%s", text);
        cr_expect_not_null(strstr(text, best[m]), "%s", text);
        free(text);
        json_decref(job);
    }
}
