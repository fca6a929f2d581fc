#include "tests/support/process/folder.h"
#include "trainerd/coordinator/records/tensorboard.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(tensorboard, .init = folder_make, .fini = folder_remove);

/* CRC-32C bit by bit, as RFC 3720 defines it. */
static uint32_t crc32c(const uint8_t *bytes, size_t n)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < 8 * n; i++) {
        uint32_t bit = (crc ^ bytes[i / 8] >> i % 8) & 1;
        crc = crc >> 1 ^ (bit != 0 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static uint32_t unmasked(const uint8_t *at)
{
    uint32_t masked;
    memcpy(&masked, at, sizeof masked);
    masked -= 0xa282ead8u;
    return masked << 15 | masked >> 17;
}

static uint8_t bytes[4096];

/* The only file of the folder; how many bytes it has. */
static size_t read_all(void)
{
    DIR *all = opendir(folder_path("tb"));
    cr_assert_not_null(all);
    size_t n = 0;
    int n_file = 0;
    for (struct dirent *entry = readdir(all); entry != NULL; entry = readdir(all)) {
        char path[512];
        if (strncmp(entry->d_name, "events.out.tfevents.", 20) == 0) {
            snprintf(path, sizeof path, "%s/tb/%s", folder, entry->d_name);
            FILE *file = fopen(path, "rb");
            n = fread(bytes, 1, sizeof bytes, file);
            fclose(file);
            n_file++;
        }
    }
    closedir(all);
    cr_assert_eq(n_file, 1);
    return n;
}

/* Check the record at `at`; where the next one is. */
static size_t check(size_t at, const uint8_t **body_out, uint64_t *n_out)
{
    memcpy(n_out, bytes + at, sizeof *n_out);
    *body_out = bytes + at + 12;
    cr_assert_eq(unmasked(bytes + at + 8), crc32c(bytes + at, 8));
    cr_assert_eq(unmasked(*body_out + *n_out), crc32c(*body_out, *n_out));
    return at + 12 + *n_out + 4;
}

/* A file of events in tb/. */
static struct tensorboard *open_one(void)
{
    struct tensorboard *tensorboard;
    struct dir all, tb;
    cr_assert_eq(dir_open(folder, DIR_LAST_NO_LINK, &all), STATUS_OK);
    cr_assert_eq(dir_inner(&all, "tb", true, &tb), STATUS_OK, "%s", status_reason());
    cr_assert_eq(tensorboard_open(&tb, &tensorboard), STATUS_OK, "%s", status_reason());
    dir_close(&tb);
    dir_close(&all);
    return tensorboard;
}

Test(tensorboard, records_are_as_the_format_says_byte_for_byte)
{
    struct tensorboard *tensorboard = open_one();
    cr_assert_eq(crc32c((const uint8_t *)"123456789", 9), 0xe3069283u);
    const struct tensorboard_scalar scalars[] = {{"loss", 0.5}, {"gone", NAN}, {"lr", 2.0}};
    cr_assert_eq(tensorboard_write(tensorboard, 300, 1.0, scalars, 3), STATUS_OK);
    cr_assert_eq(tensorboard_restart(tensorboard, 7), STATUS_OK);
    tensorboard_close(tensorboard);
    const uint8_t *body;
    uint64_t n_body;
    size_t n = read_all(), at = check(0, &body, &n_body);
    cr_assert_eq(memcmp(body + 9,
                        "\x10\x00\x1a\x0d"
                        "brain.Event:2",
                        n_body - 9),
                 0);
    at = check(at, &body, &n_body);
    static const char record[] = "\x09\x00\x00\x00\x00\x00\x00\xf0\x3f"
                                 "\x10\xac\x02"
                                 "\x2a\x18"
                                 "\x0a\x0b\x0a\x04loss\x15\x00\x00\x00\x3f"
                                 "\x0a\x09\x0a\x02lr\x15\x00\x00\x00\x40";
    cr_assert_eq(n_body, sizeof record - 1);
    cr_assert_eq(memcmp(body, record, n_body), 0);
    at = check(at, &body, &n_body);
    cr_assert_eq(memcmp(body + 9, "\x10\x07\x3a\x02\x08\x01", n_body - 9), 0);
    cr_assert_eq(at, n, "nothing behind the last record");
}

Test(tensorboard, each_opening_is_a_file_of_its_own_and_none_is_asked_of_nobody)
{
    struct tensorboard *first = open_one(), *second = open_one();
    tensorboard_close(first);
    tensorboard_close(second);
    cr_assert_eq(tensorboard_write(NULL, 0, 0, NULL, 0), STATUS_OK);
    cr_assert_eq(tensorboard_restart(NULL, 0), STATUS_OK);
    tensorboard_close(NULL);
}
