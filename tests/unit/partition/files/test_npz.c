#include "tests/support/process/expect.h"
#include "tests/unit/partition/fixture.h"

#include "partition/files/npz.h"
#include "partition/files/pickle_csr.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

TestSuite(npz, .init = folder_make, .fini = folder_remove);

static const int64_t values[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};

static void archive_write(void)
{
    static const char *const members[][2] = {{"a.npy", "deflated.npy"}, {"a.npy", "stored.npy"}};
    fixture_i64("a.npy", 1, (int64_t[]){9}, values);
    fixture_zip("x.npz", members, 2);
}

Test(npz, members_stored_and_deflated_read_alike)
{
    archive_write();
    struct npz *npz;
    expect_done(npz_open(folder_path("x.npz"), &npz));
    cr_assert(npz_has(npz, "stored") && npz_has(npz, "deflated") && !npz_has(npz, "other"));
    const char *const names[] = {"stored", "deflated"};
    for (int i = 0; i < 2; i++) {
        struct npy npy;
        expect_done(npz_member(npz, names[i], &npy));
        cr_assert_arr_eq(npy.data, values, sizeof values);
        npy_close(&npy);
    }
    struct npy npy;
    expect_fails(npz_member(npz, "other", &npy), STATUS_DATA, "x.npz:other.npy: is not in the archive, expected it");
    npz_close(npz);
}

/* One stored member as NumPy writes it: the sizes stand in an extra field of the local header, 64 bits wide, and in the
 * directory in the plain fields. */
static void archive_write_as_numpy(void)
{
    size_t n_array;
    fixture_i64("a.npy", 1, (int64_t[]){9}, values);
    char *array = fixture_read("a.npy", &n_array), out[1024], *at = out;
    uint32_t crc = (uint32_t)crc32(0, (const Bytef *)array, (uInt)n_array), size = (uint32_t)n_array;
#define PUT(bytes, n) (memcpy(at, bytes, n), at += (n))
    PUT("PK\3\4\x2d\0\0\0\0\0\0\0\x21\0", 14);
    PUT(&crc, 4);
    PUT("\xff\xff\xff\xff\xff\xff\xff\xff\x0a\0\x14\0stored.npy\1\0\x10\0", 26);
    for (int i = 0; i < 2; i++) {
        PUT(&size, 4);
        PUT("\0\0\0\0", 4);
    }
    PUT(array, n_array);
    uint32_t directory = (uint32_t)(at - out);
    PUT("PK\1\2\x2d\3\x2d\0\0\0\0\0\0\0\x21\0", 16);
    PUT(&crc, 4);
    PUT(&size, 4);
    PUT(&size, 4);
    PUT("\x0a\0\0\0\0\0\0\0\0\0\0\0\x80\1\0\0\0\0stored.npy", 28);
    PUT("PK\5\6\0\0\0\0\1\0\1\0\x38\0\0\0", 16);
    PUT(&directory, 4);
    PUT("\0\0", 2);
#undef PUT
    fixture_bytes("x.npz", out, (size_t)(at - out));
    free(array);
}

/* Open cut.npz and read n of its members. */
static enum status read_members(int n)
{
    struct npz *npz;
    enum status status = npz_open(folder_path("cut.npz"), &npz);
    if (status != STATUS_OK) {
        return status;
    }
    const char *const names[] = {"stored", "deflated"};
    for (int i = 0; i < n && status == STATUS_OK; i++) {
        struct npy npy;
        status = npz_member(npz, names[i], &npy);
        if (status == STATUS_OK) {
            npy_close(&npy);
        }
    }
    npz_close(npz);
    return status;
}

Test(npz, an_archive_cut_at_any_byte_is_refused)
{
    archive_write();
    size_t n;
    char *bytes = fixture_read("x.npz", &n);
    for (size_t cut = 0; cut < n; cut++) {
        fixture_bytes("cut.npz", bytes, cut);
        cr_assert_eq(read_members(2), STATUS_DATA, "cut at %zu of %zu", cut, n);
        expect_reason("cut.npz");
    }
    free(bytes);
}

/* Other values for every byte of x.npz, one at a time: in place, as writing it whole each time takes seconds. */
static void bytes_change(int n_member)
{
    static const unsigned char flips[] = {0x01, 0x20, 0x80, 0xff, 0};
    size_t n;
    char *bytes = fixture_read("x.npz", &n);
    fixture_bytes("cut.npz", bytes, n);
    FILE *file = fopen(folder_path("cut.npz"), "r+b");
    cr_assert_not_null(file);
    for (size_t i = 0; i < n * sizeof flips; i++) {
        size_t at = i / sizeof flips;
        fseek(file, (long)at, SEEK_SET);
        fputc((unsigned char)bytes[at] ^ flips[i % sizeof flips], file);
        cr_assert_eq(fflush(file), 0);
        enum status status = read_members(n_member);
        cr_assert(status == STATUS_OK || status == STATUS_DATA, "byte %zu of %zu: %s: %s", at, n, status_name(status),
                  status_reason());
    }
    expect_done(read_members(n_member));
    fclose(file);
    free(bytes);
}

Test(npz, a_changed_byte_anywhere_is_never_called_a_missing_file)
{
    archive_write();
    bytes_change(2);
    archive_write_as_numpy();
    bytes_change(1);
}

Test(npz, a_changed_byte_of_the_values_breaks_the_checksum)
{
    archive_write();
    size_t n;
    char *bytes = fixture_read("x.npz", &n);
    char *stored = memmem(bytes, n, &values[3], sizeof values[3]);
    cr_assert_not_null(stored);
    *stored ^= 64;
    fixture_bytes("cut.npz", bytes, n);
    expect_fails(read_members(2), STATUS_DATA, "cut.npz:stored.npy: byte ");
    expect_reason("CRC error");
    free(bytes);
}

Test(npz, a_size_that_deflate_cannot_reach_is_refused_before_memory_is_taken)
{
    archive_write();
    size_t n;
    char *bytes = fixture_read("x.npz", &n);
    /* Sizes in the central directory: "PK\1\2", 24 bytes on, the size before compression. */
    char *entry = memmem(bytes, n, "PK\1\2", 4);
    cr_assert_not_null(entry);
    memcpy(entry + 24, "\xff\xff\xff\x7f", 4);
    memcpy(bytes + 22, "\xff\xff\xff\x7f", 4);
    fixture_bytes("cut.npz", bytes, n);
    struct npz *npz;
    if (npz_open(folder_path("cut.npz"), &npz) == STATUS_OK) {
        struct npy npy;
        expect_fails(npz_member(npz, "deflated", &npy), STATUS_DATA, "expected at most 1032 to 1");
        npz_close(npz);
    } else {
        expect_reason("cut.npz");
    }
    free(bytes);
}

/* A csr_matrix of 2 × 3 as Python 3 pickles it into a .npy; `index` is its second column number's byte. */
static size_t pickle_write(char *out, const char *class_name, char index)
{
    static const char head[] = "\x93NUMPY\x01\x00\x36\x00{'descr': '|O', 'fortran_order': False, 'shape': (), }";
    static const char array[] = "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85"
                                "C\x01"
                                "b\x87R";
    static const char dtype[] =
        "cnumpy\ndtype\nX\x02\x00\x00\x00i4K\x00K\x01\x87R(K\x03X\x01\x00\x00\x00<NNNJ\xff\xff\xff\xff"
        "J\xff\xff\xff\xffK\x00tb\x89";
    static const char *const keys[] = {"indices", "indptr", "data"};
    const int32_t arrays[3][3] = {{2, index, 0}, {0, 1, 2}, {5, 6, 0}};
    const int n_value[] = {2, 3, 2};
    char *at = out;
#define PUT(text, n) (memcpy(at, text, n), at += (n))
    PUT(head, sizeof head - 1);
    PUT("\x80\x03", 2);
    PUT(array, sizeof array - 1);
    PUT("(K\x01)", 4);
    PUT(dtype, sizeof dtype - 1);
    PUT("]", 1);
    PUT("c", 1);
    PUT(class_name, strlen(class_name));
    PUT("\n)\x81}(X\x06\x00\x00\x00_shapeK\x02K\x03\x86", 21);
    for (int i = 0; i < 3; i++) {
        char length = (char)strlen(keys[i]);
        PUT("X", 1);
        PUT(&length, 1);
        PUT("\x00\x00\x00", 3);
        PUT(keys[i], strlen(keys[i]));
        PUT(array, sizeof array - 1);
        char shape[] = {'(', 'K', 1, 'K', (char)n_value[i], (char)0x85};
        PUT(shape, sizeof shape);
        PUT(dtype, sizeof dtype - 1);
        char bytes[] = {'C', (char)(4 * n_value[i])};
        PUT(bytes, sizeof bytes);
        PUT(arrays[i], 4 * (size_t)n_value[i]);
        PUT("tb", 2);
    }
    PUT("ubatb.", 6);
#undef PUT
    return (size_t)(at - out);
}

Test(pickle_csr, a_pickled_matrix_reads_as_its_arrays)
{
    char bytes[2048];
    size_t n = pickle_write(bytes, "scipy.sparse.csr\ncsr_matrix", 1);
    struct csr csr;
    expect_done(pickle_csr_read("m", bytes, n, &csr));
    cr_assert_eq(csr.n_row, 2);
    cr_assert_eq(csr.n_column, 3);
    cr_assert_eq(csr.indptr.n_value, 3);
    cr_assert_eq(npy_int(&csr.indptr, 2), 2);
    cr_assert_eq(npy_int(&csr.indices, 0), 2);
    cr_assert_eq(npy_int(&csr.indices, 1), 1);
    cr_assert_eq(npy_real(&csr.data, 1), 6);
    csr_release(&csr);
}

Test(pickle_csr, a_csr_array_is_read_as_a_matrix)
{
    static const char *const names[] = {"scipy.sparse._arrays\ncsr_array", "scipy.sparse._csr\ncsr_array"};
    for (int i = 0; i < 2; i++) {
        char bytes[2048];
        size_t n = pickle_write(bytes, names[i], 1);
        struct csr csr;
        expect_done(pickle_csr_read("m", bytes, n, &csr));
        cr_assert_eq(csr.n_column, 3);
        csr_release(&csr);
    }
}

Test(pickle_csr, a_pickle_cut_at_any_byte_is_refused)
{
    char bytes[2048];
    size_t n = pickle_write(bytes, "scipy.sparse._csr\ncsr_matrix", 1);
    for (size_t cut = 0; cut < n; cut++) {
        char *exact = malloc(cut + 1);
        memcpy(exact, bytes, cut);
        struct csr csr;
        cr_assert_eq(pickle_csr_read("m", exact, cut, &csr), STATUS_DATA, "cut at %zu", cut);
        cr_assert(strstr(status_reason(), "m: ") == status_reason(), "%s", status_reason());
        free(exact);
    }
}

Test(pickle_csr, other_classes_and_opcodes_are_refused)
{
    char bytes[2048];
    struct csr csr;
    size_t n = pickle_write(bytes, "os\nsystem", 1);
    expect_fails(pickle_csr_read("m", bytes, n, &csr), STATUS_DATA, "expected one pickled scipy.sparse.csr_matrix");
    bytes[64 + 2] = 'P';
    expect_fails(pickle_csr_read("m", bytes, n, &csr), STATUS_DATA,
                 "pickle byte 3: opcode that a matrix has no use for");
}

Test(pickle_csr, an_array_of_other_bytes_than_its_shape_says_is_refused)
{
    char bytes[2048];
    struct csr csr;
    size_t n = pickle_write(bytes, "scipy.sparse.csr\ncsr_matrix", 1);
    char *shape = memmem(bytes, n, "(K\1K\3\x85", 6); /* of indptr: 3 numbers in 12 bytes */
    cr_assert_not_null(shape);
    for (char length = 2; length <= 4; length += 2) {
        shape[4] = length;
        cr_assert_eq(pickle_csr_read("m", bytes, n, &csr), STATUS_DATA);
        cr_assert(strstr(status_reason(), "m.indptr: holds 12 bytes of int32, expected as many as its shape says") !=
                      NULL,
                  "%s", status_reason());
    }
}

Test(pickle_csr, opcodes_that_take_more_than_there_is_are_refused)
{
    char bytes[2048];
    struct csr csr;
    size_t n_head = pickle_write(bytes, "os\nsystem", 1);
    char *code = memmem(bytes, n_head, "\x80\x03", 2);
    cr_assert_not_null(code);
    static const char *const short_of[] = {"\x85.", "R.",   "b.",   "a.",    "s.",     "t.",
                                           "u.",    "q\1.", "h\1.", "\x93.", "(\x85.", "."};
    for (size_t i = 0; i < sizeof short_of / sizeof *short_of; i++) {
        size_t n = strlen(short_of[i]);
        memcpy(code + 2, short_of[i], n);
        cr_assert_eq(pickle_csr_read("m", bytes, (size_t)(code - bytes) + 2 + n, &csr), STATUS_DATA, "row %zu", i);
        cr_assert(strstr(status_reason(), "m: ") == status_reason(), "%s", status_reason());
    }
}
