#include "protocol/files/safetensors.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

TestSuite(safetensors, .init = folder_make, .fini = folder_remove);

/* A file from a header and `n_data` bytes; returns its size. */
static size_t compose(unsigned char *bytes, const char *header, const void *data, size_t n_data)
{
    uint64_t n = strlen(header);
    memcpy(bytes, &n, 8);
    memcpy(bytes + 8, header, n);
    memcpy(bytes + 8 + n, data, n_data);
    return 8 + n + n_data;
}

static float loaded[8];

static enum status save_in(const char *where, const char *name, const struct safetensor *tensor, size_t n,
                           const struct safetensors_note *note)
{
    struct dir dir;
    expect_done(dir_open(where, DIR_LAST_NO_LINK, &dir));
    enum status status = safetensors_save(&dir, name, tensor, n, note, note != NULL ? 1 : 0);
    dir_close(&dir);
    return status;
}

/* Load tensor "w" of shape [2] from a header over 8 bytes of data, 1.0 and 2.0. */
static enum status load_w(const char *header, size_t n_data)
{
    unsigned char bytes[4096];
    const float data[4] = {1, 2, 3, 4};
    const struct safetensor want = {.name = "w", .n_dim = 1, .shape = {2}, .data = loaded};
    size_t n = compose(bytes, header, data, n_data);
    return safetensors_load_bytes(bytes, n, "some.file", &want, 1);
}

static void refused(const char *header, size_t n_data, const char *reason)
{
    loaded[0] = 77;
    cr_assert_eq(load_w(header, n_data), STATUS_DATA, "%s", header);
    cr_assert_not_null(strstr(status_reason(), reason), "%s: %s", header, status_reason());
    expect_reason("some.file");
    cr_assert_eq(loaded[0], 77, "nothing is written when the file is refused");
}

Test(safetensors, what_is_saved_is_loaded_bit_for_bit)
{
    float weight[6] = {1.5f, -2, 3e-38f, 4, -0.0f, 1e-45f}, bias[1] = {7}, weight_back[6], bias_back[1];
    const struct safetensor save[] = {{.name = "b.weight", .n_dim = 2, .shape = {2, 3}, .data = weight},
                                      {.name = "a.bias", .n_dim = 1, .shape = {1}, .data = bias}};
    const struct safetensor load[] = {{.name = "a.bias", .n_dim = 1, .shape = {1}, .data = bias_back},
                                      {.name = "b.weight", .n_dim = 2, .shape = {2, 3}, .data = weight_back}};
    const struct safetensors_note note = {"epoch", "12"};
    const char *path = folder_path("model.safetensors");
    expect_done(save_in(folder, "model.safetensors", save, 2, &note));
    expect_done(safetensors_load(path, load, 2));
    cr_assert_arr_eq(weight, weight_back, sizeof weight);
    cr_assert_arr_eq(bias, bias_back, sizeof bias);
    cr_assert_not(folder_has("model.safetensors.tmp"));
}

Test(safetensors, the_file_is_laid_out_as_the_format_says)
{
    float weight[2] = {1, 2}, bias[1] = {3};
    const struct safetensor save[] = {{.name = "w", .n_dim = 2, .shape = {1, 2}, .data = weight},
                                      {.name = "b", .n_dim = 1, .shape = {1}, .data = bias}};
    const char *path = folder_path("layout.safetensors");
    cr_assert_eq(save_in(folder, "layout.safetensors", save, 2, NULL), STATUS_OK);
    char bytes[512];
    FILE *file = fopen(path, "rb");
    size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    const char *header = "{\"b\":{\"data_offsets\":[0,4],\"dtype\":\"F32\",\"shape\":[1]},"
                         "\"w\":{\"data_offsets\":[4,12],\"dtype\":\"F32\",\"shape\":[1,2]}}";
    uint64_t n_header;
    memcpy(&n_header, bytes, 8);
    cr_assert_eq(n_header % 8, 0);
    cr_assert_eq(n, 8 + n_header + 12);
    cr_assert_eq(strncmp(bytes + 8, header, strlen(header)), 0, "%.*s", (int)n_header, bytes + 8);
    for (size_t i = 8 + strlen(header); i < 8 + n_header; i++) {
        cr_assert_eq(bytes[i], ' ');
    }
    cr_assert_arr_eq(bytes + 8 + n_header, bias, 4);
    cr_assert_arr_eq(bytes + 12 + n_header, weight, 8);
}

Test(safetensors, half_and_double_numbers_become_float32)
{
    const char *header = "{\"h\":{\"dtype\":\"F16\",\"shape\":[6],\"data_offsets\":[0,12]},"
                         "\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[12,16]},"
                         "\"d\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[16,24]},"
                         "\"none\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[24,24]}}";
    struct {
        uint16_t half[6], brain[2];
        double wide;
    } data = {{0x3c00, 0xc000, 0x7bff, 0x0001, 0x03ff, 0x8400}, {0x3f80, 0xc040}, -0.1};
    unsigned char bytes[1024];
    float half[6], brain[2], wide, none;
    const struct safetensor want[] = {{.name = "h", .n_dim = 1, .shape = {6}, .data = half},
                                      {.name = "b", .n_dim = 1, .shape = {2}, .data = brain},
                                      {.name = "d", .data = &wide},
                                      {.name = "none", .n_dim = 2, .shape = {0, 3}, .data = &none}};
    size_t n = compose(bytes, header, &data, 24);
    expect_done(safetensors_load_bytes(bytes, n, "x", want, 4));
    const float half_want[6] = {1, -2, 65504, 0x1p-24f, 1023 * 0x1p-24f, -0x1p-14f};
    cr_assert_arr_eq(half, half_want, sizeof half);
    cr_assert(brain[0] == 1 && brain[1] == -3 && wide == -0.1f);
}

Test(safetensors, a_header_that_breaks_the_format_is_refused_by_name)
{
    cr_assert_eq(load_w("{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}  ", 8), STATUS_OK);
    cr_assert_eq(
        load_w("{\"__metadata__\":{\"a\":\"b\"},\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8),
        STATUS_OK);
    refused("", 0, "expected '{'");
    refused("[]", 0, "expected '{'");
    refused("{\"w\"", 0, "bad header");
    refused("{\"w\":{},\"w\":{}}", 0, "duplicate");
    refused("{\"w\":3}", 0, "'w'");
    refused("{\"w\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, "dtype is I64, expected F32");
    refused("{\"w\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}", 8, "shape must be");
    refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, "shape[0]");
    refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[2.5],\"data_offsets\":[0,8]}}", 8, "shape[0]");
    refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,8]}}", 8, "shape[1]");
    refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0, "data_offsets");
    refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8, "two whole numbers");
    refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,9]}}", 8, "two whole numbers");
    refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, "[8, 0]");
    refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "[0, 4]");
}

Test(safetensors, counts_of_batches_are_passed_over_and_other_integers_are_named)
{
    expect_done(load_w("{\"norm.num_batches_tracked\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[8,16]},"
                       "\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
                       16));
    refused("{\"norm.steps\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[8,16]},"
            "\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
            16, "tensor 'norm.steps' belongs to nothing in this model: it holds integers, of dtype I64");
    refused("{\"not_num_batches_tracked\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[8,16]},"
            "\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
            16, "'not_num_batches_tracked' belongs to nothing");
}

Test(safetensors, holes_overlaps_and_missing_bytes_are_refused)
{
    refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 12, "expected 0");
    refused("{\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]},"
            "\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
            8, "expected 8");
    refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4, "take 8 bytes, the file has 4");
    refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 12, "take 8 bytes, the file has 12");
}

Test(safetensors, a_length_past_the_file_or_the_format_s_limit_is_refused)
{
    unsigned char bytes[64] = {0};
    const struct safetensor want = {.name = "w", .n_dim = 1, .shape = {2}, .data = loaded};
    const uint64_t lengths[] = {57, 100000001, UINT64_C(1) << 63, UINT64_MAX};
    for (int i = 0; i < 4; i++) {
        memcpy(bytes, &lengths[i], 8);
        expect_fails(safetensors_load_bytes(bytes, sizeof bytes, "f", &want, 1), STATUS_DATA, "with at most 56");
    }
    expect_fails(safetensors_load_bytes(bytes, 7, "f", &want, 1), STATUS_DATA,
                 "f: 7 bytes, expected a safetensors file");
}

Test(safetensors, a_long_name_does_not_push_out_what_was_expected)
{
    char name[2001], text[2200];
    memset(name, 'x', 2000);
    name[2000] = '\0';
    snprintf(text, sizeof text, "{\"%s\":{\"dtype\":\"F8\",\"shape\":[2],\"data_offsets\":[0,2]}}", name);
    refused(text, 2, "xxx': dtype is F8, expected F32, F16, BF16 or F64");
}

Test(safetensors, a_tensor_that_is_missing_unknown_or_of_another_shape_is_named)
{
    refused("{\"v\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
            "'w' is missing, expected with shape [2]");
    refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
            "\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
            12, "'v' belongs to nothing");
    refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}}", 8,
            "has shape [1, 2], expected [2]");
    refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]}}", 8,
            "has shape [2, 1], expected [2]");
}

Test(safetensors, a_number_that_is_not_finite_is_refused)
{
    unsigned char bytes[256];
    const uint32_t data[2] = {0x3f800000, 0x7f800000};
    const struct safetensor want = {.name = "w", .n_dim = 1, .shape = {2}, .data = loaded};
    size_t n = compose(bytes, "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", data, 8);
    expect_fails(safetensors_load_bytes(bytes, n, "f", &want, 1), STATUS_DATA, "'w': element 1 is not a finite");
}

Test(safetensors, files_that_cannot_be_opened_say_so)
{
    const struct safetensor want = {.name = "w", .n_dim = 1, .shape = {2}, .data = loaded};
    cr_assert_eq(safetensors_load("/nowhere/w.safetensors", &want, 1), STATUS_NO_INPUT);
    cr_assert_eq(safetensors_load("/", &want, 1), STATUS_DATA);
    expect_fails(save_in("/proc", "w.safetensors", &want, 1, NULL), STATUS_CREATE, "/proc/w.safetensors");
}

Test(safetensors, a_save_that_fails_leaves_the_older_file_alone)
{
    const struct safetensor tensor = {.name = "w", .n_dim = 1, .shape = {2}, .data = loaded};
    const char *path = folder_path("kept.safetensors");
    loaded[0] = 5;
    cr_assert_eq(save_in(folder, "kept.safetensors", &tensor, 1, NULL), STATUS_OK);
    const struct rlimit none = {.rlim_cur = 10, .rlim_max = RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &none), 0); /* the file cannot be written aside */
    loaded[0] = 6;
    cr_assert_eq(save_in(folder, "kept.safetensors", &tensor, 1, NULL), STATUS_IO);
    cr_assert_eq(safetensors_load(path, &tensor, 1), STATUS_OK);
    cr_assert_eq(loaded[0], 5);
}

Test(safetensors, every_missing_and_every_other_tensor_is_listed)
{
    unsigned char bytes[1024];
    float data[3] = {1, 2, 3};
    const struct safetensor want[] = {{.name = "a", .n_dim = 1, .shape = {1}, .data = loaded},
                                      {.name = "b", .n_dim = 2, .shape = {2, 3}, .stored = "x.b", .transposed = true},
                                      {.name = "c", .n_dim = 1, .shape = {1}, .data = loaded}};
    size_t n = compose(bytes,
                       "{\"c\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                       "\"d\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]},"
                       "\"e\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
                       data, sizeof data);
    expect_fails(safetensors_load_bytes(bytes, n, "f", want, 3), STATUS_DATA,
                 "f: tensor 'a' is missing, expected with shape [1]\n"
                 "f: tensor 'b' ('x.b' in the file) is missing, expected with shape [3, 2]\n"
                 "f: tensor 'd' belongs to nothing in this model\n"
                 "f: tensor 'e' belongs to nothing in this model: it holds integers, of dtype I32");
}

Test(safetensors, a_tensor_may_have_another_name_and_be_transposed)
{
    unsigned char bytes[1024];
    float data[6] = {1, 2, 3, 4, 5, 6}, expected[6] = {1, 3, 5, 2, 4, 6};
    const char *header = "{\"x.w\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]}}";
    struct safetensor want = {
        .name = "w", .n_dim = 2, .shape = {2, 3}, .data = loaded, .stored = "x.w", .transposed = true};
    size_t n = compose(bytes, header, data, sizeof data);
    expect_done(safetensors_load_bytes(bytes, n, "f", &want, 1));
    cr_assert_arr_eq(loaded, expected, sizeof expected);
    loaded[0] = 77;
    want.data = NULL;
    expect_done(safetensors_load_bytes(bytes, n, "f", &want, 1));
    cr_assert_eq(loaded[0], 77, "it is only checked");
    want.transposed = false;
    expect_fails(safetensors_load_bytes(bytes, n, "f", &want, 1), STATUS_DATA,
                 "tensor 'w' ('x.w' in the file) has shape [3, 2], expected [2, 3]");
}

Test(safetensors, shapes_are_read_without_numbers)
{
    unsigned char bytes[1024];
    float data[6] = {0};
    struct safetensor ask[] = {{.name = "w", .stored = "x.w"}, {.name = "v"}};
    const char *header = "{\"x.w\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]}}";
    size_t n = compose(bytes, header, data, sizeof data);
    expect_done(safetensors_shapes_bytes(bytes, n, "f", ask, 2));
    cr_assert(ask[0].n_dim == 2 && ask[0].shape[0] == 3 && ask[0].shape[1] == 2 && ask[1].n_dim == -1);
    expect_fails(safetensors_shapes_bytes(bytes, n - 1, "f", ask, 2), STATUS_DATA, "take 24 bytes, the file has 23");
    cr_assert_eq(safetensors_shapes("/nowhere/w.safetensors", ask, 2), STATUS_NO_INPUT);
}
