/* Figures with their units. */
#include "trainerd/base/figure.h"

#include <criterion/criterion.h>
#include <math.h>

Test(figure, numbers_have_their_units_and_what_is_not_known_is_a_dash)
{
    const struct {
        double value;
        struct figure (*print)(double value);
        const char *text;
    } rows[] = {
        {0.0012, figure_seconds, "0.0012 s"},
        {0.25, figure_seconds, "0.250 s"},
        {3.14, figure_seconds, "3.1 s"},
        {119.2, figure_seconds, "119 s"},
        {200, figure_seconds, "3 min 20 s"},
        {7500, figure_seconds, "2 h 05 min"},
        {3e5, figure_seconds, "3 d 11 h"},
        {NAN, figure_seconds, "-"},
        {0, figure_bytes, "0 B"},
        {999, figure_bytes, "999 B"},
        {1500, figure_bytes, "1.5 kB"},
        {999600, figure_bytes, "1.0 MB"},
        {2.5e11, figure_bytes, "250 GB"},
        {INFINITY, figure_bytes, "-"},
        {0.8125, figure_fraction, "81.25 %"},
        {NAN, figure_fraction, "-"},
        {3.25, figure_fraction, "3.25"},
        {-1.5, figure_fraction, "-1.5"},
        {1.0 / 3, figure_number, "0.3333"},
        {NAN, figure_number, "-"},
        {12345678, figure_whole, "12345678"},
        {INFINITY, figure_whole, "-"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_expect_str_eq(rows[i].print(rows[i].value).text, rows[i].text, "%g", rows[i].value);
    }
}

Test(figure, one_is_one)
{
    cr_assert_str_eq(figure_count(1, "epoch").text, "1 epoch");
    cr_assert_str_eq(figure_count(0, "GPU").text, "0 GPUs");
}
