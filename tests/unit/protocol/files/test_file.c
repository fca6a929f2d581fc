#include "protocol/files/file.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
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

    cr_assert_eq(mkdir(folder_path("d"), 0777), 0);
    cr_assert_eq(file_replace(folder_path("d/inside"), &old, 1), STATUS_OK);
    expect_fails(file_replace(folder_path("d"), piece, 2), STATUS_CREATE, folder_path("d"));
    cr_assert_eq(file_replace(folder_path("none/f"), piece, 2), STATUS_CREATE);
}

Test(file, a_folder_is_made_with_those_above_it_and_may_be_there)
{
    cr_assert_eq(file_folder_make(folder_path("a/b/c"), NULL), STATUS_OK);
    cr_assert(folder_has("a/b/c"));
    cr_assert_eq(file_folder_make(folder_path("a/b/c/"), NULL), STATUS_OK);
    cr_assert_eq(file_folder_make("/", NULL), STATUS_OK);
}

Test(file, a_folder_that_cannot_be_made_is_named)
{
    const struct iovec text = {.iov_base = "x", .iov_len = 1};
    cr_assert_eq(file_replace(folder_path("f"), &text, 1), STATUS_OK);
    expect_fails(file_folder_make(folder_path("f"), NULL), STATUS_CREATE, "something else has that name");
    expect_fails(file_folder_make(folder_path("f/below"), NULL), STATUS_CREATE, "/f/below': Not a directory");
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

Test(file, an_input_that_is_no_plain_file_is_refused_at_once, .timeout = 60)
{
    int file;
    expect_fails(file_open(folder_path("nothing"), &file), STATUS_NO_INPUT, "nothing: cannot open: No such file");
    cr_assert_eq(mkfifo(folder_path("pipe"), 0600), 0);
    const char *const other[] = {folder_path("pipe"), folder, "/dev/zero"};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        cr_assert_eq(file_open(other[i], &file), STATUS_DATA, "%s", other[i]);
        expect_reason("is a folder, device, pipe or socket, expected a file");
    }
}

Test(file, a_limit_of_the_size_of_files_is_named_where_there_is_one)
{
    cr_assert_str_eq(file_limit_text(), "");
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, RLIM_INFINITY}), 0);
    cr_assert_str_eq(file_limit_text(), " (files may have at most 4096 bytes: ulimit -f)");
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}), 0);
}
