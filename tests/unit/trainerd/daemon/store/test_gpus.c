#include "tests/support/process/expect.h"
#include "trainerd/daemon/store/gpus.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct gpus gpus;
static char visible[GPUS_VISIBLE_BYTES], numbers[GPUS_TEXT_BYTES];

#define TWO                                                                                                          \
    "{\"gpus\":[{\"gpu\":3,\"ordinal\":0,\"uuid\":\"GPU-c\",\"name\":\"H100\",\"memory\":85899345920,\"memory_"      \
    "used\":1},"                                                                                                     \
    "{\"gpu\":1,\"ordinal\":1,\"uuid\":\"GPU-b\",\"name\":\"A100\",\"memory\":42949672960,\"memory_used\":null}]}\n"

static void expect(const char *seen, uint64_t set, const char *expected)
{
    gpus_visible(&gpus, set, visible);
    cr_assert_str_eq(visible, expected, "of CUDA_VISIBLE_DEVICES=%s: %s", seen != NULL ? seen : "-", visible);
}

Test(gpus, what_a_worker_lists_is_known_by_the_machines_numbers_and_named_by_uuid)
{
    expect_done(gpus_read(TWO, NULL, &gpus));
    cr_assert_eq(gpus.n, 2);
    cr_assert_eq(gpus.gpu[0].number, 1);
    cr_assert_str_eq(gpus.gpu[0].name, "A100");
    cr_assert_eq(gpus.gpu[1].n_bytes, INT64_C(85899345920));
    cr_assert_eq(gpus_all(&gpus), 0xa);
    expect(NULL, 0xa, "GPU-b,GPU-c");
    expect(NULL, 0x8, "GPU-c");
    expect(NULL, 0, "");
    gpus_text(0xa, numbers);
    cr_assert_str_eq(numbers, "1, 3");
}

Test(gpus, the_least_numbered_of_a_set_are_taken)
{
    cr_assert_eq(gpus_least(0xf4, 1), 0x4);
    cr_assert_eq(gpus_least(0xf4, 3), 0x34);
    cr_assert_eq(gpus_least(0xf4, 0), 0);
    cr_assert_eq(gpus_least(UINT64_MAX, 64), UINT64_MAX);
    cr_assert_eq(gpus_n(0xf4), 5);
}

Test(gpus, a_slice_of_a_gpu_keeps_the_name_that_the_daemon_was_given)
{
    expect_done(gpus_read(
        "{\"gpus\":[{\"gpu\":0,\"ordinal\":0,\"uuid\":\"GPU-a\"},{\"gpu\":0,\"ordinal\":1,\"uuid\":\"GPU-a\"}]}",
        "MIG-1/0 , MIG-1/1", &gpus));
    expect("MIG-1/0 , MIG-1/1", 0x3, "MIG-1/0,MIG-1/1");
    cr_assert_eq(gpus.gpu[1].number, 1, "two with one number are counted off");
    cr_assert_eq(gpus.gpu[1].n_bytes, -1);
}

Test(gpus, without_a_uuid_a_gpu_has_the_name_that_the_daemon_sees_it_by)
{
    static const char one[] = "{\"gpus\":[{\"gpu\":5,\"ordinal\":1,\"uuid\":\"\"}]}";
    cr_assert_eq(gpus_read(one, "4,5", &gpus), STATUS_OK);
    expect("4,5", UINT64_C(1) << 5, "5");
    cr_assert_eq(gpus_read(one, NULL, &gpus), STATUS_OK);
    expect(NULL, UINT64_C(1) << 5, "1");
}

Test(gpus, those_that_no_worker_sees_are_counted_off_within_what_the_daemon_sees)
{
    static const struct {
        const char *seen, *visible, *numbers;
        int32_t n;
    } cases[] = {{NULL, "0,1,2", "0, 1, 2", 3},
                 {"7,2", "2,7", "2, 7", 3},
                 {"7,2", "7", "7", 1},
                 {"", "", "", 3},
                 {"GPU-x,1", "GPU-x,1", "0, 1", 3},
                 {"2,2", "2,2", "0, 1", 2},
                 {"1,,2", "1", "1", 3},
                 {"64,1", "64,1", "0, 1", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gpus_count_off(cases[i].n, cases[i].seen, &gpus);
        expect(cases[i].seen, UINT64_MAX, cases[i].visible);
        gpus_text(gpus_all(&gpus), numbers);
        cr_assert_str_eq(numbers, cases[i].numbers, "%zu", i);
    }
}

Test(gpus, the_reason_of_a_worker_that_finds_none_is_kept_and_malformed_output_is_refused)
{
    static const struct {
        const char *text, *words;
        enum status status;
    } cases[] = {
        {"{\"gpus\":[],\"error\":\"no usable GPU: there is no driver\"}", "no usable GPU: there is no driver",
         STATUS_PEER},
        {"", "does not print 1 to 64 GPUs as JSON", STATUS_DATA},
        {"no usable GPU\n", "does not print 1 to 64 GPUs as JSON", STATUS_DATA},
        {"{\"gpus\":[]}", "does not print 1 to 64 GPUs as JSON", STATUS_DATA},
        {"{\"gpus\":{}}", "does not print 1 to 64 GPUs as JSON", STATUS_DATA},
        {"{\"gpus\":[7]}", "GPU 0 of its list has no gpu, a number from 0 to 63", STATUS_DATA},
        {"{\"gpus\":[{\"gpu\":64,\"ordinal\":0}]}", "no gpu, a number from 0 to 63", STATUS_DATA},
        {"{\"gpus\":[{\"gpu\":0,\"ordinal\":0},{\"gpu\":1,\"ordinal\":-1}]}", "GPU 1 of its list has no ordinal",
         STATUS_DATA},
        {"{\"gpus\":[{\"gpu\":0,\"ordinal\":0,\"uuid\":\"GPU-a,GPU-b\"}]}", "no uuid of letters, digits and hyphens",
         STATUS_DATA},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_eq(gpus_read(cases[i].text, NULL, &gpus), cases[i].status, "%s", cases[i].text);
        expect_reason(cases[i].words);
    }
}
