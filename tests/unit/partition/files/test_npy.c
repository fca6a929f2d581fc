#include "tests/support/graphs/npy_save.h"
#include "tests/unit/partition/fixture.h"

#include "partition/files/npy.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(npy, .init = folder_make, .fini = folder_remove);

/* Opens as bytes of a file named x.npy; the reason must hold `expected`. */
static void refused(const char *dict, const void *bytes, size_t n, const char *expected)
{
    struct npy npy;
    fixture_header("x.npy", dict, bytes, n);
    cr_assert_eq(npy_open(folder_path("x.npy"), &npy), STATUS_DATA, "%s", dict);
    cr_assert(strstr(status_reason(), "x.npy: ") != NULL, "'%s' does not name the file", status_reason());
    cr_assert(strstr(status_reason(), expected) != NULL, "'%s' does not say '%s'", status_reason(), expected);
}

static void accepted(const char *dict, const void *bytes, size_t n, int64_t n_value)
{
    struct npy npy;
    fixture_header("x.npy", dict, bytes, n);
    cr_assert_eq(npy_open(folder_path("x.npy"), &npy), STATUS_OK, "%s: %s", dict, status_reason());
    cr_assert_eq(npy.n_value, n_value);
    npy_close(&npy);
}

static const char zeros[64];

Test(npy, what_is_saved_is_what_is_read)
{
    const float values[] = {1.5f, -2, 0.25f, 1e30f, 5, 6};
    fixture_f32("x.npy", 2, (int64_t[]){2, 3}, values);
    struct npy npy;
    cr_assert_eq(npy_open(folder_path("x.npy"), &npy), STATUS_OK, "%s", status_reason());
    cr_assert_eq(npy.type, NPY_TYPE_F32);
    cr_assert_eq(npy.rank, 2);
    cr_assert_eq(npy.shape[0], 2);
    cr_assert_eq(npy.shape[1], 3);
    cr_assert_arr_eq(npy.data, values, sizeof values);
    npy_close(&npy);
    cr_assert_neq(access(folder_path("x.npy.aside"), F_OK), 0);
}

Test(npy, the_header_written_is_the_one_numpy_writes)
{
    const int64_t values[] = {7};
    fixture_i64("x.npy", 1, (int64_t[]){1}, values);
    size_t n;
    char *bytes = fixture_read("x.npy", &n);
    cr_assert_eq(n, 128 + 8);
    cr_assert_arr_eq(bytes, "\x93NUMPY\x01\x00\x76\x00{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }  ",
                     66);
    cr_assert_eq(bytes[127], '\n');
    free(bytes);
}

Test(npy, keys_come_in_any_order_and_spacing)
{
    accepted("{\"shape\":(2,3),'descr':'<f4','fortran_order':False}\n", zeros, 24, 6);
    accepted("{ 'fortran_order' : False , 'shape' : ( 2 , ) , 'descr' : '|u1' , }   \n", zeros, 2, 2);
    accepted("{'descr': '<i8', 'fortran_order': False, 'shape': (), }", zeros, 8, 1);
    accepted("{'descr': '<i8', 'fortran_order': False, 'shape': (0, 7), }", zeros, 0, 0);
}

Test(npy, values_come_row_after_row_in_either_order)
{
    struct npy npy;
    const float columns[] = {0, 3, 1, 4, 2, 5};
    const int16_t cube[] = {0, 12, 4, 16, 8, 20, 1, 13, 5, 17, 9, 21, 2, 14, 6, 18, 10, 22, 3, 15, 7, 19, 11, 23};
    fixture_header("x.npy", "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", columns, sizeof columns);
    cr_assert_eq(npy_open(folder_path("x.npy"), &npy), STATUS_OK, "%s", status_reason());
    cr_assert_eq(npy_expect(&npy, NPY_KIND_NUMBER, 2, 2, 3), STATUS_OK, "%s", status_reason());
    for (int i = 0; i < 6; i++) {
        cr_assert_eq(npy_real(&npy, i), i);
    }
    npy_close(&npy);
    fixture_header("x.npy", "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3, 4), }\n", cube, sizeof cube);
    cr_assert_eq(npy_open(folder_path("x.npy"), &npy), STATUS_OK, "%s", status_reason());
    for (int i = 0; i < 24; i++) {
        cr_assert(npy_int(&npy, i) == i && npy_real(&npy, i) == i && npy_int_stored(&npy, i) == cube[i]);
    }
    npy_close(&npy);
    accepted("{'descr': '<f4', 'fortran_order': True, 'shape': (6,), }\n", zeros, 24, 6);
    accepted("{'descr': '<f4', 'fortran_order': True, 'shape': (6, 1), }\n", zeros, 24, 6);
    accepted("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3, 0), }\n", zeros, 0, 0);
}

Test(npy, dtypes_that_are_not_plain_little_endian_numbers_are_refused)
{
    refused("{'descr': '>i8', 'fortran_order': False, 'shape': (1,), }\n", zeros, 8,
            "big-endian, expected little-endian");
    refused("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", zeros, 8,
            "pickled Python objects, expected plain");
    refused("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,), }\n", zeros, 4,
            "structured, expected plain");
    refused("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }\n", zeros, 8,
            "'<c8' is not supported, expected");
    refused("{'descr': '<U3', 'fortran_order': False, 'shape': (1,), }\n", zeros, 12, "is not supported, expected");
    refused("{'descr': '|i4', 'fortran_order': False, 'shape': (1,), }\n", zeros, 4, "is not supported, expected");
}

Test(npy, headers_that_break_the_grammar_are_refused)
{
    refused("{'descr': '<i8', 'fortran_order': False, 'shape': (1) }\n", zeros, 8, "expected ','");
    refused("{'descr': '<i8', 'fortran_order': False}\n", zeros, 8, "expected descr, fortran_order and shape");
    refused("{'descr': '<i8', 'descr': '<i8', 'fortran_order': False, 'shape': (1,)}\n", zeros, 8, "once each");
    refused("{'descr': '<i8', 'fortran_order': 0, 'shape': (1,)}\n", zeros, 8, "expected True or False");
    refused("{'descr': '<i8', 'fortran_order': False, 'shape': (-1,)}\n", zeros, 8, "expected a size");
    refused("{'descr': '<i8', 'fortran_order': False, 'shape': (1,)} x\n", zeros, 8, "expected nothing after");
    refused("{'descr': '<i8', 'fortran_order': False, 'shape': (1,1,1,1,1)}\n", zeros, 8, "at most 4 dimensions");
    refused("{'descr': '<i8', 'extra': False, 'shape': (1,)}\n", zeros, 8, "expected descr, fortran_order and shape");
    refused("", zeros, 8, "expected '{'");
}

Test(npy, a_shape_that_does_not_fill_the_file_is_refused)
{
    refused("{'descr': '<i8', 'fortran_order': False, 'shape': (2,)}\n", zeros, 8,
            "8 bytes of values, expected 2 values of int64");
    refused("{'descr': '<i8', 'fortran_order': False, 'shape': (2,)}\n", zeros, 17, "17 bytes of values, expected 2");
    refused("{'descr': '<i8', 'fortran_order': False, 'shape': (9223372036854775807, 3)}\n", zeros, 8,
            "more than 2^63");
    refused("{'descr': '<i8', 'fortran_order': False, 'shape': (9223372036854775807,)}\n", zeros, 8,
            "8 bytes of values");
    refused("{'descr': '<i8', 'fortran_order': False, 'shape': (99999999999999999999,)}\n", zeros, 8, "below 2^63");
}

Test(npy, a_file_cut_at_any_byte_is_refused)
{
    const int64_t values[] = {1, 2, 3};
    fixture_i64("x.npy", 1, (int64_t[]){3}, values);
    size_t n;
    char *bytes = fixture_read("x.npy", &n);
    for (size_t cut = 0; cut < n; cut++) {
        struct npy npy;
        fixture_bytes("cut.npy", bytes, cut);
        cr_assert_eq(npy_open(folder_path("cut.npy"), &npy), STATUS_DATA, "cut at %zu", cut);
        cr_assert(strstr(status_reason(), "cut.npy: ") != NULL && strstr(status_reason(), "expected") != NULL, "%s",
                  status_reason());
    }
    free(bytes);
}

Test(npy, versions_two_and_three_have_a_longer_length)
{
    char bytes[12 + 64 + 8] =
        "\x93NUMPY\x02\x00\x40\x00\x00\x00{'descr': '<i8', 'fortran_order': False, 'shape': (1,)}";
    bytes[12 + 64] = 5;
    for (size_t i = strlen(bytes + 12) + 12; i < 12 + 64; i++) {
        bytes[i] = ' ';
    }
    for (char version = 2; version <= 3; version++) {
        struct npy npy;
        bytes[6] = version;
        cr_assert_eq(npy_open_bytes("memory", bytes, sizeof bytes, &npy), STATUS_OK, "%s", status_reason());
        cr_assert_eq(npy_int(&npy, 0), 5);
        npy_close(&npy);
    }
    bytes[6] = 4;
    struct npy npy;
    cr_assert_eq(npy_open_bytes("memory", bytes, sizeof bytes, &npy), STATUS_DATA);
    cr_assert(strstr(status_reason(), "format 4.0, expected 1.0, 2.0 or 3.0") != NULL);
    bytes[6] = 2;
    bytes[11] = 1;
    cr_assert_eq(npy_open_bytes("memory", bytes, sizeof bytes, &npy), STATUS_DATA);
    cr_assert(strstr(status_reason(), "expected at most 72") != NULL, "%s", status_reason());
}

Test(npy, values_that_do_not_lie_on_their_size_are_moved)
{
    const int64_t value = 0x1122334455667788;
    struct npy npy;
    fixture_header("x.npy", "{'descr': '<i8', 'fortran_order': False, 'shape': (1,)} \n", &value, sizeof value);
    cr_assert_eq(npy_open(folder_path("x.npy"), &npy), STATUS_OK);
    cr_assert(npy.is_block);
    cr_assert_eq((uintptr_t)npy.data % 8, 0);
    cr_assert_eq(npy_int(&npy, 0), value);
    npy_close(&npy);
}

Test(npy, every_integer_type_reads_its_own_ends)
{
    static const struct {
        const char *descr;
        size_t size;
        int64_t least, most;
    } rows[] = {{"|b1", 1, 0, 1},
                {"|i1", 1, -128, 127},
                {"<i2", 2, INT16_MIN, INT16_MAX},
                {"<i4", 4, INT32_MIN, INT32_MAX},
                {"<i8", 8, INT64_MIN, INT64_MAX},
                {"|u1", 1, 0, 255},
                {"<u2", 2, 0, 65535},
                {"<u4", 4, 0, UINT32_MAX}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char dict[128], bytes[16];
        snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (2,)}\n", rows[i].descr);
        memcpy(bytes, &rows[i].least, rows[i].size);
        memcpy(bytes + rows[i].size, &rows[i].most, rows[i].size);
        fixture_header("x.npy", dict, bytes, 2 * rows[i].size);
        struct npy npy;
        cr_assert_eq(npy_open(folder_path("x.npy"), &npy), STATUS_OK, "%s", status_reason());
        cr_assert_eq(npy_int(&npy, 0), rows[i].least, "%s", rows[i].descr);
        cr_assert_eq(npy_int(&npy, 1), rows[i].most, "%s", rows[i].descr);
        npy_close(&npy);
    }
}

Test(npy, a_missing_file_and_what_is_no_file_are_told_apart, .timeout = 60)
{
    struct npy npy;
    cr_assert_eq(npy_open(folder_path("nothing.npy"), &npy), STATUS_NO_INPUT);
    cr_assert(strstr(status_reason(), "nothing.npy: cannot open: No such file") != NULL);
    cr_assert_eq(mkdir(folder_path("folder.npy"), 0777), 0);
    cr_assert_eq(npy_open(folder_path("folder.npy"), &npy), STATUS_DATA);
    cr_assert(strstr(status_reason(), "is a folder, device, pipe or socket, expected a file") != NULL);
    cr_assert_eq(mkfifo(folder_path("pipe.npy"), 0600), 0);
    cr_assert_eq(npy_open(folder_path("pipe.npy"), &npy), STATUS_DATA);
}

Test(npy, a_failed_save_leaves_the_old_file)
{
    const int64_t value = 1;
    fixture_i64("x.npy", 1, (int64_t[]){1}, &value);
    const struct rlimit none = {.rlim_cur = 10, .rlim_max = RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
    cr_assert_eq(npy_save(folder_path("x.npy"), NPY_TYPE_I64, 1, (int64_t[]){1}, &value), STATUS_IO);
    cr_assert(strstr(status_reason(), "x.npy': File too large") != NULL, "%s", status_reason());
    struct npy npy;
    cr_assert_eq(npy_open(folder_path("x.npy"), &npy), STATUS_OK);
    npy_close(&npy);
}
