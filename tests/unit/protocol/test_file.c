#include "protocol/file.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(file, .init = folder_make, .fini = folder_remove);

static const char *text_of(const char *name)
{
    static char text[64];
    folder_read(name, text, sizeof text);
    return text;
}

Test(file, a_file_is_whole_or_the_old_one_stays)
{
    const struct iovec old = {.iov_base = "old", .iov_len = 3};
    cr_assert_eq(file_replace(folder_path("f"), &old, 1), STATUS_OK);
    struct iovec piece[] = {{.iov_base = "ne", .iov_len = 2}, {.iov_base = "w", .iov_len = 1}};
    cr_assert_eq(file_replace(folder_path("f"), piece, 2), STATUS_OK);
    cr_assert_str_eq(text_of("f"), "new");
    cr_assert_not(folder_has("f.tmp"));

    /* A folder in the file's place makes the rename fail, the last step that can. */
    cr_assert_eq(mkdir(folder_path("d"), 0777), 0);
    cr_assert_eq(file_replace(folder_path("d/inside"), &old, 1), STATUS_OK);
    cr_assert_eq(file_replace(folder_path("d"), piece, 2), STATUS_IO);
    cr_assert(strstr(status_reason(), folder_path("d")), "%s", status_reason());
    cr_assert_not(folder_has("d.tmp"));
    cr_assert_eq(file_replace(folder_path("none/f"), piece, 2), STATUS_CREATE);
}

Test(file, what_a_crash_left_aside_does_not_get_into_the_file)
{
    folder_write("f.tmp", "left by a crash");
    const struct iovec text = {.iov_base = "new", .iov_len = 3};
    cr_assert_eq(file_replace(folder_path("f"), &text, 1), STATUS_OK);
    cr_assert_str_eq(text_of("f"), "new");
}

Test(file, a_full_disk_is_an_io_error_that_leaves_no_part_of_a_file)
{
    struct iovec piece = {.iov_base = "x", .iov_len = 1};
    cr_assert_eq(symlink("/dev/full", folder_path("f.tmp")), 0);
    cr_assert_eq(file_replace(folder_path("f"), &piece, 1), STATUS_IO);
    cr_assert(strstr(status_reason(), strerror(ENOSPC)), "%s", status_reason());
    cr_assert_not(folder_has("f"));
    cr_assert_not(folder_has("f.tmp"));
}

static enum status fill(void *context, char *bytes)
{
    const char *text = context;
    memcpy(bytes, text, strlen(text));
    return text[0] != '!' ? STATUS_OK : status_fail(STATUS_PEER, "no more bytes come");
}

Test(file, a_mapped_file_is_whole_or_the_old_one_stays)
{
    char old[] = "old", new[] = "new", broken[] = "!broken";
    cr_assert_eq(file_replace_mapped(folder_path("f"), 3, fill, old), STATUS_OK, "%s", status_reason());
    cr_assert_eq(file_replace_mapped(folder_path("f"), 3, fill, new), STATUS_OK);
    cr_assert_str_eq(text_of("f"), "new");
    cr_assert_eq(file_replace_mapped(folder_path("f"), 7, fill, broken), STATUS_PEER);
    cr_assert_str_eq(status_reason(), "no more bytes come");
    cr_assert_str_eq(text_of("f"), "new");
    cr_assert_not(folder_has("f.tmp"));
    cr_assert_eq(symlink("/dev/full", folder_path("g.tmp")), 0); /* it has no space for pages */
    cr_assert_eq(file_replace_mapped(folder_path("g"), 3, fill, new), STATUS_IO);
    cr_assert(strstr(status_reason(), folder_path("g")), "%s", status_reason());
    cr_assert(!folder_has("g") && !folder_has("g.tmp"));
    cr_assert_eq(file_replace_mapped(folder_path("none/f"), 3, fill, new), STATUS_CREATE);
}

Test(file, a_folder_is_made_with_those_above_it_and_may_be_there)
{
    cr_assert_eq(file_folder_make(folder_path("a/b/c")), STATUS_OK);
    cr_assert(folder_has("a/b/c"));
    cr_assert_eq(file_folder_make(folder_path("a/b/c/")), STATUS_OK);
    cr_assert_eq(file_folder_make("/"), STATUS_OK);
}

Test(file, a_folder_that_cannot_be_made_is_named)
{
    const struct iovec text = {.iov_base = "x", .iov_len = 1};
    cr_assert_eq(file_replace(folder_path("f"), &text, 1), STATUS_OK);
    cr_assert_eq(file_folder_make(folder_path("f")), STATUS_CREATE);
    cr_assert_not_null(strstr(status_reason(), "something else has that name"));
    cr_assert_eq(file_folder_make(folder_path("f/below")), STATUS_CREATE);
    cr_assert_not_null(strstr(status_reason(), "/f/below': Not a directory"), "%s", status_reason());
}

Test(file, an_input_is_read_whole_or_said_to_be_short)
{
    int file;
    char bytes[4];
    const struct iovec text = {.iov_base = "text", .iov_len = 4};
    cr_assert_eq(file_replace(folder_path("f"), &text, 1), STATUS_OK);
    cr_assert_eq(file_open(folder_path("f"), &file), STATUS_OK);
    cr_assert_eq(file_read(file, bytes, 3), 0);
    cr_assert_arr_eq(bytes, "tex", 3);
    cr_assert_eq(file_read(file, bytes, 2), ENODATA);
    close(file);
}

Test(file, an_input_that_is_no_plain_file_is_refused_at_once, .timeout = 10)
{
    int file;
    cr_assert_eq(file_open(folder_path("nothing"), &file), STATUS_NO_INPUT);
    cr_assert_not_null(strstr(status_reason(), "nothing: cannot open: No such file"), "%s", status_reason());
    cr_assert_eq(mkfifo(folder_path("pipe"), 0600), 0);
    const char *const other[] = {folder_path("pipe"), folder, "/dev/zero"};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        cr_assert_eq(file_open(other[i], &file), STATUS_DATA, "%s", other[i]);
        cr_assert_not_null(strstr(status_reason(), "is a folder, device, pipe or socket, expected a file"));
    }
}
