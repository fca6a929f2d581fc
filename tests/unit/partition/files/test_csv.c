#include "tests/support/process/expect.h"
#include "tests/unit/partition/fixture.h"

#include "partition/files/csv_gz.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

TestSuite(csv_gz, .init = folder_make, .fini = folder_remove);

static void table_refused(const char *text, enum npy_type type, int64_t n_row, const char *expected)
{
    struct npy table;
    fixture_gz("x.csv.gz", text);
    cr_assert_eq(csv_gz_table(folder_path("x.csv.gz"), type, n_row, &table), STATUS_DATA, "'%s'", text);
    cr_assert(strstr(status_reason(), "x.csv.gz: ") != NULL, "'%s' does not name the file", status_reason());
    cr_assert(strstr(status_reason(), expected) != NULL, "'%s' does not say '%s'", status_reason(), expected);
}

Test(csv_gz, tables_read_with_either_line_end_and_with_or_without_the_last)
{
    static const char *const texts[] = {"1,2\n3,-4\n5,6\n", "1,2\r\n3,-4\r\n5,6\r\n", "1,2\n3,-4\n5,6",
                                        "1,2\n3,-4\n5,6\n\n"};
    const int64_t expected[] = {1, 2, 3, -4, 5, 6};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct npy table;
        fixture_gz("x.csv.gz", texts[i]);
        expect_done(csv_gz_table(folder_path("x.csv.gz"), NPY_TYPE_I64, -1, &table));
        cr_assert_eq(table.shape[0], 3);
        cr_assert_eq(table.shape[1], 2);
        cr_assert_arr_eq(table.data, expected, sizeof expected);
        npy_close(&table);
    }
}

Test(csv_gz, an_empty_field_is_not_a_number)
{
    struct npy table;
    fixture_gz("x.csv.gz", "1.5,,nan\n,2e3,-0.5\n");
    expect_done(csv_gz_table(folder_path("x.csv.gz"), NPY_TYPE_F32, 2, &table));
    const float *values = table.data;
    cr_assert(values[0] == 1.5f && isnan(values[1]) && isnan(values[2]));
    cr_assert(isnan(values[3]) && values[4] == 2000.0f && values[5] == -0.5f);
    npy_close(&table);
}

Test(csv_gz, several_members_are_one_file)
{
    size_t n_first, n_second;
    fixture_gz("a.gz", "1\n2");
    fixture_gz("b.gz", "3\n4\n");
    char *first = fixture_read("a.gz", &n_first), *second = fixture_read("b.gz", &n_second);
    char *both = malloc(n_first + n_second);
    memcpy(both, first, n_first);
    memcpy(both + n_first, second, n_second);
    fixture_bytes("x.csv.gz", both, n_first + n_second);
    struct npy table;
    expect_done(csv_gz_table(folder_path("x.csv.gz"), NPY_TYPE_I64, -1, &table));
    cr_assert_eq(table.n_value, 3);
    cr_assert_eq(npy_int(&table, 1), 23);
    npy_close(&table);

    fixture_bytes("x.csv.gz", both, n_first + n_second - 9);
    cr_assert_eq(csv_gz_table(folder_path("x.csv.gz"), NPY_TYPE_I64, -1, &table), STATUS_DATA);
    both[n_first] = 'x';
    fixture_bytes("x.csv.gz", both, n_first + n_second);
    expect_fails(csv_gz_table(folder_path("x.csv.gz"), NPY_TYPE_I64, -1, &table), STATUS_DATA,
                 "line 2: gzip data are damaged");
    free(first);
    free(second);
    free(both);
}

Test(csv_gz, a_file_cut_at_any_byte_names_the_line)
{
    fixture_gz("x.csv.gz", "1,2\n3,4\n5,6\n");
    size_t n;
    char *bytes = fixture_read("x.csv.gz", &n);
    for (size_t cut = 0; cut < n; cut++) {
        struct npy table;
        fixture_bytes("cut.csv.gz", bytes, cut);
        cr_assert_eq(csv_gz_table(folder_path("cut.csv.gz"), NPY_TYPE_I64, -1, &table), STATUS_DATA, "cut at %zu",
                     cut);
        expect_reason("cut.csv.gz: line ");
    }
    free(bytes);
}

Test(csv_gz, text_that_is_not_gzip_is_refused)
{
    struct npy table;
    fixture_bytes("x.csv.gz", "1,2\n", 4);
    expect_fails(csv_gz_table(folder_path("x.csv.gz"), NPY_TYPE_I64, -1, &table), STATUS_DATA,
                 "line 1: gzip data are damaged");
    cr_assert_eq(csv_gz_table(folder_path("none.csv.gz"), NPY_TYPE_I64, -1, &table), STATUS_NO_INPUT);
}

Test(csv_gz, lines_that_are_not_the_numbers_expected_are_named)
{
    table_refused("1,2\n3,x\n", NPY_TYPE_I64, -1, "line 2: '3,x', expected two integers");
    table_refused("1,2\n3\n", NPY_TYPE_I64, -1, "line 2: '3', expected two integers");
    table_refused("1,2\n3,4,5\n", NPY_TYPE_I64, -1, "line 2: '3,4,5', expected two integers");
    table_refused("1\n2.5\n", NPY_TYPE_I64, -1, "line 2: '2.5', expected one integer");
    table_refused("1\n99999999999999999999\n", NPY_TYPE_I64, -1,
                  "line 2: '99999999999999999999', expected one integer");
    table_refused("1, 2\n", NPY_TYPE_I64, -1, "line 1: '1, 2', expected two integers");
    table_refused("1\n\xfe\x9b\n", NPY_TYPE_I64, -1, "line 2: '\\xfe\\x9b', expected one integer");
    table_refused("1.0,2.0\n3.0\n", NPY_TYPE_F32, -1, "line 2: '3.0', expected 2 numbers");
    table_refused("1.0\nabc\n", NPY_TYPE_F32, -1, "line 2: 'abc', expected 1 numbers");
    table_refused("1\n\n2\n", NPY_TYPE_I64, -1, "line 2: is blank, expected numbers");
    table_refused("1\n2\n", NPY_TYPE_F32, 3, "ends after 2 lines, expected 3");
    table_refused("1\n2\n", NPY_TYPE_I64, 3, "ends after 2 lines, expected more");
    table_refused("1\n2\n3\n4\n", NPY_TYPE_I64, 3, "goes on after line 3, expected 3 lines");
}

Test(csv_gz, a_line_without_end_is_refused_and_a_long_one_read)
{
    size_t n = CSV_GZ_LINE_MOST + 100000;
    char *text = malloc(n + 1);
    memset(text, '1', n);
    text[n] = '\0';
    table_refused(text, NPY_TYPE_F32, -1, "line 1: is longer than 1 MiB");
    n = CSV_GZ_LINE_MOST;
    text[n] = '\0';
    for (size_t i = 1; i < n; i += 2) {
        text[i] = ',';
    }
    struct npy table;
    fixture_gz("x.csv.gz", text);
    expect_done(csv_gz_table(folder_path("x.csv.gz"), NPY_TYPE_F32, 1, &table));
    cr_assert_eq(table.shape[1], (int64_t)n / 2 + 1);
    npy_close(&table);
    free(text);
}

Test(csv_gz, lines_across_many_buffers_are_whole)
{
    enum { N_LINE = 400000 }; /* some 5 MB */
    char *text = malloc(N_LINE * 24), *at = text;
    for (int64_t i = 0; i < N_LINE; i++) {
        at += sprintf(at, "%lld,%lld\n", (long long)(i * 7919 % 100003), (long long)i);
    }
    struct npy table;
    fixture_gz("x.csv.gz", text);
    expect_done(csv_gz_table(folder_path("x.csv.gz"), NPY_TYPE_I64, N_LINE, &table));
    for (int64_t i = 0; i < N_LINE; i++) {
        cr_assert_eq(npy_int(&table, 2 * i), i * 7919 % 100003);
        cr_assert_eq(npy_int(&table, 2 * i + 1), i);
    }
    npy_close(&table);
    free(text);
}

Test(csv_gz, a_pipe_is_refused_and_not_waited_for, .timeout = 60)
{
    struct csv_gz *csv;
    cr_assert_eq(mkfifo(folder_path("pipe.csv.gz"), 0600), 0);
    expect_fails(csv_gz_open(folder_path("pipe.csv.gz"), &csv), STATUS_DATA,
                 "pipe.csv.gz: is a folder, device, pipe or socket, expected a file");
}
