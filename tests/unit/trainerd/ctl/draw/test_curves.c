/* Curves as they come, on a terminal and in a picture. */
#include "tests/support/process/folder.h"
#include "trainerd/ctl/draw/braille.h"
#include "trainerd/ctl/draw/chart.h"
#include "trainerd/ctl/draw/curves.h"
#include "trainerd/ctl/draw/screen.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct curves curves;

static void add(double epoch, const char *rest)
{
    char line[256];
    snprintf(line, sizeof line, "{\"epoch\":%g%s}", epoch, rest);
    json_t *event = json_loads(line, 0, NULL);
    cr_assert_not_null(event, "%s", line);
    curves_add(&curves, event);
    json_decref(event);
}

static void make_all(void)
{
    folder_make();
    curves_init(&curves);
}

static void remove_all(void)
{
    curves_release(&curves);
    folder_remove();
}

TestSuite(curves, .init = make_all, .fini = remove_all);

/* A job that evaluates every other epoch, and one that stops early. */
Test(curves, a_mean_is_over_the_jobs_that_have_the_epoch_and_the_value)
{
    struct curves of[3] = {{0}}, mean = {0};
    static const double loss[3][3] = {{1, 2, 3}, {3, 6, 0}, {5, 0, 0}},
                        valid[3][3] = {{0.5, NAN, 0.7}, {NAN, NAN, 0}, {1, 0, 0}};
    static const size_t n[3] = {3, 2, 1};
    for (int j = 0; j < 3; j++) {
        for (size_t i = 0; i < n[j]; i++) {
            json_t *event = json_pack("{s:i, s:f}", "epoch", (int)i, "loss", loss[j][i]);
            if (isfinite(valid[j][i])) {
                json_object_set_new(event, "valid_metric", json_real(valid[j][i]));
            }
            curves_add(&of[j], event);
            json_decref(event);
        }
    }
    curves_mean(&mean, of, 3);
    cr_assert_eq(mean.n, 3);
    static const double expected_loss[] = {3, 4, 3}, expected_valid[] = {0.75, NAN, 0.7};
    for (size_t i = 0; i < 3; i++) {
        cr_expect_eq(mean.at[i], (double)i);
        cr_expect_eq(mean.value[CURVE_LOSS][i], expected_loss[i]);
        cr_expect(mean.value[CURVE_VALID][i] == expected_valid[i] ||
                  (isnan(mean.value[CURVE_VALID][i]) && isnan(expected_valid[i])));
        cr_expect(isnan(mean.value[CURVE_TEST][i]));
    }
    cr_expect_eq(mean.low[CURVE_LOSS][0], 1, "of 1, 3 and 5 the sample's deviation is 2");
    cr_expect_eq(mean.high[CURVE_LOSS][0], 5);
    cr_expect(isnan(mean.low[CURVE_LOSS][2]), "of one there is none");
    double least = INFINITY, most = -INFINITY;
    cr_assert(curves_range(&mean, CURVE_LOSS, &least, &most));
    cr_expect(least == 1 && most > 6, "the band is in the range: %g to %g", least, most);
    for (int j = 0; j < 3; j++) {
        curves_release(&of[j]);
    }
    curves_release(&mean);
    curves_mean(&mean, of, 3);
    cr_expect_eq(mean.n, 0);
}

Test(curves, an_attempt_that_goes_on_from_a_checkpoint_replaces_what_lies_behind_it)
{
    for (int i = 1; i <= 1000; i++) {
        add(i, ",\"loss\":2");
    }
    add(500, ",\"loss\":1,\"valid_metric\":null");
    cr_assert_eq(curves.n, 500);
    cr_assert_eq(curves.at[499], 500);
    cr_assert_eq(curves.value[CURVE_LOSS][499], 1);
    cr_assert(isnan(curves.value[CURVE_VALID][499]));
    add(501, ",\"loss\":\"none\"");
    cr_assert(isnan(curves.value[CURVE_LOSS][500]));
    double least = INFINITY, most = -INFINITY;
    cr_assert(curves_range(&curves, CURVE_LOSS, &least, &most));
    cr_assert_eq(least, 1);
    cr_assert_eq(most, 2);
    cr_assert_not(curves_range(&curves, CURVE_TEST, &least, &most));
}

Test(curves, steps_of_an_axis_are_round)
{
    cr_assert_float_eq(curves_step(0, 1, 5), 0.2, 1e-12);
    cr_assert_float_eq(curves_step(0, 7000, 5), 1000, 1e-9);
    cr_assert_float_eq(curves_step(0.1, 0.1003, 5), 5e-5, 1e-12);
    cr_assert_eq(curves_step(3, 3, 5), 1);
}

Test(curves, a_line_of_dots_goes_from_corner_to_corner_and_not_beyond)
{
    struct braille braille;
    char *text = NULL;
    size_t n;
    braille_init(&braille, 2, 1);
    braille_line(&braille, 0, 0, 3, 3, 2);
    braille_line(&braille, -5, -5, -1, 90, 2);
    FILE *file = open_memstream(&text, &n);
    braille_print(&braille, 0, true, file);
    fclose(file);
    cr_assert_str_eq(text, "\x1b[32m\xe2\xa1\xa0\xe2\xa0\x8a\x1b[0m", "%s", text);
    free(text);
    braille_release(&braille);
}

/* --- the screen --- */

/* A frame is `n_row` lines, each as wide as the terminal at most. */
static void expect_frame(const json_t *job, int n_column, int n_row)
{
    char *text = NULL;
    size_t n, n_line = 1;
    FILE *file = open_memstream(&text, &n);
    const struct screen_view view = {
        .n_column = n_column, .n_row = n_row, .job = job, .curves = &curves, .footer = "the last line"};
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
    free(text);
}

Test(curves, a_frame_fits_any_terminal_whatever_the_job_is_called)
{
    json_t *job = json_pack(
        "{s:i, s:s, s:s, s:s, s:i, s:i, s:f}", "id", 7, "name", "n\x1b[2Jame", "state", "RUNNING", "reason_text",
        "because of a long sentence that does not fit into any line at all, however wide it may be", "epoch", 50,
        "epochs", 100, "percent", 50.0);
    static const int sizes[][2] = {{80, 24}, {20, 4}, {200, 60}, {30, 10}, {25, 5}};
    for (size_t i = 0; i < 5; i++) {
        expect_frame(job, sizes[i][0], sizes[i][1]);
    }
    for (int i = 1; i <= 50; i++) {
        add(i, i % 3 == 0 ? ",\"loss\":0.5,\"valid_metric\":0.25" : ",\"loss\":1.5e30");
    }
    for (size_t i = 0; i < 5; i++) {
        expect_frame(job, sizes[i][0], sizes[i][1]);
    }
    json_decref(job);
}

static char *frame_of(const json_t *job, int n_column, int n_row)
{
    char *text = NULL;
    size_t n;
    FILE *file = open_memstream(&text, &n);
    screen_draw(file, &(struct screen_view){
                          .n_column = n_column, .n_row = n_row, .job = job, .curves = &curves, .footer = ""});
    fclose(file);
    return text;
}

Test(curves, a_frame_has_an_axis_of_epochs_with_the_best_one_marked)
{
    json_t *job = json_pack("{s:i, s:s, s:i, s:i, s:s}", "id", 7, "name", "k", "epoch", 100, "epochs", 100, "metric",
                            "accuracy");
    static const struct {
        int best;
        const char *axis;
    } cases[] = {{50, "           1            epoch           \xe2\x96\xb2                           100\x1b[K"},
                 {100, "           1                           epoch                      100 \xe2\x96\xb2\x1b[K"},
                 {1, "           \xe2\x96\xb2 1                         epoch                        100\x1b[K"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        curves.n = 0;
        for (int i = 1; i <= 100; i++) {
            add(i, i == cases[c].best ? ",\"loss\":1,\"valid_metric\":0.75" : ",\"loss\":1,\"valid_metric\":0.5");
        }
        char *text = frame_of(job, 71, 24), best[64];
        cr_expect_not_null(strstr(text, cases[c].axis), "%s", text);
        snprintf(best, sizeof best, "\xe2\x96\xb2 best 75.00 %% at epoch %d", cases[c].best);
        cr_expect_not_null(strstr(text, best), "%s", text);
        free(text);
    }
    json_decref(job);
}

/* --- pictures --- */

static void expect_picture(struct canvas *canvas, const char *name, const char *begins)
{
    char head[64];
    chart_draw(canvas, "<job> & \x1b[31m\xff", &curves);
    cr_assert_eq(canvas_save(canvas, folder_path(name)), STATUS_OK, "%s", status_reason());
    canvas_close(canvas);
    folder_read(name, head, sizeof head);
    cr_assert_eq(strncmp(head, begins, strlen(begins)), 0, "%s begins otherwise", name);
}

static char *svg_of(const char *name)
{
    static char svg[1 << 21];
    folder_read(name, svg, sizeof svg);
    return svg;
}

static void expect_pictures(void)
{
    static char svg[1 << 21];
    expect_picture(canvas_open(true, CHART_WIDTH, CHART_HEIGHT), "a.svg", "<?xml ");
    expect_picture(canvas_open(false, CHART_WIDTH, CHART_HEIGHT), "a.png", "\x89PNG\r\n\x1a\n");
    folder_read("a.svg", svg, sizeof svg);
    cr_assert_not_null(strstr(svg, "&lt;job&gt; &amp; \\x1b[31m\\xff</text>"));
    cr_assert_null(strstr(svg, "nan"));
    cr_assert_null(strstr(svg, "inf"));
    cr_assert_null(strstr(svg, ">-0"));
    cr_assert_str_eq(svg + strlen(svg) - 7, "</svg>\n");
}

Test(curves, a_picture_is_drawn_from_no_one_equal_and_many_epochs)
{
    expect_pictures();
    add(0, ",\"loss\":1,\"epoch_s\":0.5");
    expect_pictures();
    add(1, ",\"loss\":1,\"epoch_s\":0,\"valid_metric\":0.5");
    expect_pictures();
    for (int i = 2; i < 10000; i++) {
        add(i, i % 7 == 0 ? ",\"loss\":0.5,\"valid_metric\":0.7,\"epoch_s\":3,\"compute_s\":2,\"wait_s\":2"
                          : ",\"loss\":0.1");
    }
    expect_pictures();
}

Test(curves, a_picture_that_cannot_be_written_is_named)
{
    struct canvas *canvas = canvas_open(true, 10, 10);
    cr_assert_eq(canvas_save(canvas, "/nowhere/a.svg"), STATUS_CREATE);
    cr_assert_not_null(strstr(status_reason(), "/nowhere"));
    canvas_close(canvas);
}

/* --- legends --- */

/* Every text of a picture lies on it, as wide as letters are about. */
static void expect_on_canvas(const char *svg)
{
    for (const char *at = strstr(svg, "<text "); at != NULL; at = strstr(at + 1, "<text ")) {
        double x, y, size;
        char anchor[8];
        cr_assert_eq(
            sscanf(at, "<text x=\"%lf\" y=\"%lf\" text-anchor=\"%7[a-z]\" font-size=\"%lf\"", &x, &y, anchor, &size),
            4);
        const char *text = strchr(at, '>') + 1;
        double n = 0;
        for (const char *c = text; *c != '<'; c++) {
            n += (*c & 0xc0) != 0x80;
        }
        double wide = 0.6 * size * n, left = strcmp(anchor, "start") == 0 ? x
                                             : strcmp(anchor, "end") == 0 ? x - wide
                                                                          : x - wide / 2;
        cr_expect(left >= 0 && left + wide <= CHART_WIDTH && y > 0 && y < CHART_HEIGHT, "%.*s: %g to %g, %g",
                  (int)strcspn(text, "<"), text, left, left + wide, y);
    }
}

static size_t n_of(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        n++;
    }
    return n;
}

/* How cairo writes what it draws in a colour; what: ";fill", ";stroke". */
static const char *drawn_in(const char *what, const char *colour)
{
    static char mark[96];
    unsigned long rgb = strtoul(colour, NULL, 16);
    int n = snprintf(mark, sizeof mark, "%s:rgb(", what);
    for (int shift = 16; shift >= 0; shift -= 8) {
        n += snprintf(mark + n, sizeof mark - (size_t)n, "%.8g%%%s", (double)(rgb >> shift & 255) / 2.55,
                      shift > 0 ? "," : ")");
    }
    return mark;
}

Test(curves, a_legend_names_each_job_once_with_its_key_and_is_cut_off_nowhere)
{
    static const char *const names[CHART_JOBS_MOST] = {
        "hidden=16, lr=0.01, dropout=0.5 (10 runs)",
        "b",
        "a long name, of more letters than a "
        "picture is wide, and that is why it is cut at the end of the row that it has alone in the "
        "legend, where nothing else has any place",
        "d",
        "e",
        "f",
        "a name",
        "h"};
    struct chart_job jobs[CHART_JOBS_MOST];
    for (int i = 0; i < 10; i++) {
        add(i, i == 4 ? ",\"loss\":1,\"valid_metric\":0.75,\"test_metric\":0.5" : ",\"loss\":1,\"valid_metric\":0.5");
    }
    for (int j = 0; j < CHART_JOBS_MOST; j++) {
        jobs[j] = (struct chart_job){names[j], &curves};
    }
    struct canvas *canvas = canvas_open(true, CHART_WIDTH, CHART_HEIGHT);
    chart_compare(canvas, names[2], jobs, CHART_JOBS_MOST);
    cr_assert_eq(canvas_save(canvas, folder_path("l.svg")), STATUS_OK, "%s", status_reason());
    canvas_close(canvas);
    const char *svg = svg_of("l.svg");
    expect_on_canvas(svg);
    cr_expect_eq(n_of(svg, ">hidden=16, lr=0.01, dropout=0.5 (10 runs)</text>"), 1);
    cr_expect_eq(n_of(svg, ">h</text>"), 1);
    cr_expect_eq(n_of(svg, ">best valid</text>"), 1);
    cr_expect_eq(n_of(svg, drawn_in(";fill", "e377c2")), 2, "the best epoch, of valid and of test");
    cr_expect_null(strstr(svg, "fill-opacity:0"), "a job that is no mean has no band");
    expect_pictures();
    expect_on_canvas(svg_of("a.svg"));
}

/* --- axes --- */

#define BYTES(received, evaluate)                                                                                    \
    ",\"loss\":1,\"epoch_s\":60,\"bytes_received\":" #received ",\"bytes_evaluate\":" #evaluate

Test(curves, bytes_are_those_that_training_received_up_to_the_end_of_each_epoch)
{
    add(0, BYTES(1000, 0));
    add(1, BYTES(5000, 4000));
    add(2, ",\"loss\":1");
    add(3, BYTES(500, 0));
    curves_lay(&curves, CURVES_AXIS_BYTES);
    static const double bytes[] = {1000, 2000, 2000, 2500};
    for (size_t i = 0; i < 4; i++) {
        cr_expect_eq(curves.at[i], bytes[i], "epoch %zu: %g", i, curves.at[i]);
    }
}

Test(curves, seconds_are_those_of_all_epochs_so_far)
{
    add(0, BYTES(1000, 0));
    add(1, BYTES(1000, 0));
    curves_lay(&curves, CURVES_AXIS_TIME);
    cr_expect_eq(curves.at[0], 60);
    cr_expect_eq(curves.at[1], 120);
}

Test(curves, an_axis_has_one_of_three_names)
{
    cr_expect_eq(curves_axis_of("epoch"), CURVES_AXIS_EPOCH);
    cr_expect_eq(curves_axis_of("bytes"), CURVES_AXIS_BYTES);
    cr_expect_eq(curves_axis_of("time"), CURVES_AXIS_TIME);
    cr_expect_eq(curves_axis_of("byte"), CURVES_AXIS_N);
}

/* The path of a picture's curve of this colour, "M x y L x y … "; NULL: it has none. */
static const char *curve_path(const char *svg, const char *colour)
{
    const char *mark = drawn_in(";stroke", colour);
    for (const char *at = strstr(svg, "stroke-width:1.6;"); at != NULL; at = strstr(at + 1, "stroke-width:1.6;")) {
        const char *path = strstr(at, " d=\""), *stroke = strstr(at, mark);
        if (stroke != NULL && stroke < path) {
            return path + 4;
        }
    }
    return NULL;
}

/* Where it ends, in points from the left; -1: there is none. */
static double curve_end(const char *svg, const char *colour)
{
    const char *path = curve_path(svg, colour), *last = NULL;
    for (const char *at = path; at != NULL && *at != '"'; at++) {
        last = *at == 'M' || *at == 'L' ? at + 2 : last;
    }
    return last != NULL ? strtod(last, NULL) : -1;
}

Test(curves, a_picture_over_bytes_or_time_names_its_axis_in_a_fitting_unit)
{
    for (int i = 0; i < 100; i++) {
        add(i, BYTES(250000, 0));
    }
    curves_lay(&curves, CURVES_AXIS_BYTES);
    expect_pictures();
    cr_expect_not_null(strstr(svg_of("a.svg"), ">MB received in training</text>"));
    cr_expect_not_null(strstr(svg_of("a.svg"), ">20</text>"));
    cr_expect_float_eq(curve_end(svg_of("a.svg"), "d62728"), CHART_WIDTH - 25, 0.1);
    curves_lay(&curves, CURVES_AXIS_TIME);
    expect_pictures();
    cr_expect_not_null(strstr(svg_of("a.svg"), ">minutes of epochs</text>"));
}

/* Points of the first curve of this colour. */
static int curve_points(const char *svg, const char *colour)
{
    int n = 0;
    for (const char *at = curve_path(svg, colour); at != NULL && *at != '"'; at++) {
        n += *at == 'M' || *at == 'L';
    }
    return n;
}

Test(curves, of_more_epochs_than_a_picture_is_wide_some_are_drawn_and_always_the_last)
{
    for (int i = 0; i < 10000; i++) {
        char line[64];
        snprintf(line, sizeof line, ",\"loss\":%d.%04d", 1 + i * i % 7, i * i % 9973); /* on no straight line */
        add(i, line);
    }
    expect_pictures();
    int n = curve_points(svg_of("a.svg"), "d62728");
    cr_expect(n > 700 && n < 900, "%d points", n);
    cr_expect_float_eq(curve_end(svg_of("a.svg"), "d62728"), CHART_WIDTH - 25, 0.01);
}

Test(curves, jobs_that_are_compared_have_a_curve_each_on_one_axis)
{
    struct curves few;
    curves_init(&few);
    for (int i = 0; i < 10; i++) {
        char line[256];
        add(i, ",\"loss\":1,\"valid_metric\":0.5,\"bytes_received\":1000000,\"bytes_evaluate\":0");
        snprintf(line, sizeof line, "{\"epoch\":%d,\"loss\":2,\"bytes_received\":100000,\"bytes_evaluate\":0}", i);
        json_t *event = json_loads(line, 0, NULL);
        curves_add(&few, event);
        json_decref(event);
    }
    curves_lay(&curves, CURVES_AXIS_BYTES);
    curves_lay(&few, CURVES_AXIS_BYTES);
    const struct chart_job jobs[] = {{"all & more", &curves}, {"few", &few}};
    struct canvas *canvas = canvas_open(true, CHART_WIDTH, CHART_HEIGHT);
    chart_compare(canvas, "two", jobs, 2);
    cr_assert_eq(canvas_save(canvas, folder_path("two.svg")), STATUS_OK, "%s", status_reason());
    canvas_close(canvas);
    const char *svg = svg_of("two.svg");
    cr_expect_not_null(strstr(svg, "all &amp; more"));
    cr_expect_not_null(strstr(svg, "no values yet"), "no epoch was tested");
    cr_expect_null(strstr(svg, "nan"));
    cr_expect_null(strstr(svg, "inf"));
    double end = CHART_WIDTH - 25, wide = CHART_WIDTH - 25 - 80;
    cr_expect_float_eq(curve_end(svg, "1f77b4"), end, 0.1);
    /* From 0.1 MB to 10 MB are two decades: 1 MB is in the middle. */
    cr_expect_float_eq(curve_end(svg, "d62728"), end - wide / 2, 0.1, "%g", curve_end(svg, "d62728"));
    curves_release(&few);
}
