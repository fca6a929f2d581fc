#include "protocol/files/dir.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static struct dir dir;

static void begin(void)
{
    folder_make();
    expect_done(dir_open(folder, DIR_LAST_NO_LINK, &dir));
}

static void end(void)
{
    dir_close(&dir);
    folder_remove();
}

TestSuite(dir, .init = begin, .fini = end);

static const char *text_of(const char *name)
{
    static char text[64];
    folder_read(name, text, sizeof text);
    return text;
}

static void plant(const char *target, const char *name)
{
    cr_assert_eq(symlink(target, folder_path(name)), 0);
}

static int is_named(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static void expect_n(int n)
{
    struct dirent **entry;
    int found = scandir(folder, &entry, is_named, NULL);
    for (int i = 0; i < found; i++) {
        free(entry[i]);
    }
    free(entry);
    cr_assert_eq(found, n, "%d names, expected %d", found, n);
}

/* From here on no byte fits into a file. */
static void fill_disk(void)
{
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
}

static const struct iovec old = {.iov_base = "old", .iov_len = 3}, new = {.iov_base = "new", .iov_len = 3};

Test(dir, a_link_in_the_way_to_a_folder_is_followed_and_one_in_its_place_is_not)
{
    struct dir other;
    cr_assert_eq(mkdir(folder_path("inner"), 0777), 0);
    plant(folder, "way");
    plant("inner", "end");
    expect_done(dir_open(folder_path("way/inner"), DIR_LAST_NO_LINK, &other));
    dir_close(&other);
    cr_assert_eq(dir_open(folder_path("end"), DIR_LAST_FOLLOWED, &other), STATUS_OK);
    dir_close(&other);
    expect_fails(dir_open(folder_path("end///"), DIR_LAST_NO_LINK, &other), STATUS_CREATE,
                 "/end' is a link, expected a folder");
    expect_fails(dir_inner(&dir, "end", true, &other), STATUS_CREATE, "/end' is a link, expected a folder");
    cr_assert_eq(dir_inner(&dir, "none", false, &other), STATUS_NO_INPUT);
    cr_assert_eq(dir_inner(&dir, "none", true, &other), STATUS_OK);
    dir_close(&other);
    folder_write("file", "");
    expect_fails(dir_inner(&dir, "file", true, &other), STATUS_CREATE, "/file' is a file, expected a folder");
}

Test(dir, a_link_of_ones_own_is_followed_and_one_that_another_user_has_put_there_is_not)
{
    struct dir other;
    cr_assert_eq(mkdir(folder_path("inner"), 0777), 0);
    cr_assert_eq(mkdir(folder_path("open"), 0777), 0);
    plant("inner", "end");
    plant(folder_path("inner"), "open/mine");
    plant("nowhere", "open/dangling");
    folder_write("file", "");
    plant("file", "no-folder");
    expect_done(dir_open(folder_path("end"), DIR_LAST_OWN_LINK, &other));
    dir_close(&other);
    expect_done(dir_open(folder_path("open/mine//"), DIR_LAST_OWN_LINK, &other));
    dir_close(&other);
    expect_done(dir_open(folder_path("inner"), DIR_LAST_OWN_LINK, &other));
    dir_close(&other);
    cr_assert_eq(dir_open(folder_path("open/dangling"), DIR_LAST_OWN_LINK, &other), STATUS_NO_INPUT);
    cr_assert_eq(dir_open(folder_path("no-folder"), DIR_LAST_OWN_LINK, &other), STATUS_CREATE);
    cr_assert_eq(dir_open(folder_path("file"), DIR_LAST_OWN_LINK, &other), STATUS_CREATE);
    if (geteuid() != 0) {
        cr_skip_test("only root can make links of others");
    }
    cr_assert_eq(lchown(folder_path("open/mine"), 65534, 65534), 0);
    expect_fails(dir_open(folder_path("open/mine"), DIR_LAST_OWN_LINK, &other), STATUS_CREATE,
                 "/open/mine' is a link of another user (65534)");
    cr_assert_eq(chown(folder_path("open"), 65534, 65534), 0); /* whose folder it is, has put the link there */
    expect_done(dir_open(folder_path("open/mine"), DIR_LAST_OWN_LINK, &other));
    dir_close(&other);
}

Test(dir, a_folder_that_was_opened_is_the_same_when_its_name_leads_elsewhere)
{
    struct dir inner;
    cr_assert_eq(dir_inner(&dir, "inner", true, &inner), STATUS_OK);
    cr_assert_eq(rename(folder_path("inner"), folder_path("moved")), 0);
    cr_assert_eq(mkdir(folder_path("precious"), 0777), 0);
    plant("precious", "inner");
    cr_assert_eq(dir_replace(&inner, "f", &new, 1), STATUS_OK);
    dir_close(&inner);
    cr_assert(folder_has("moved/f") && !folder_has("precious/f"));
}

Test(dir, a_file_is_whole_or_the_old_one_stays)
{
    const struct iovec piece[] = {{.iov_base = "ne", .iov_len = 2}, {.iov_base = "w", .iov_len = 1}};
    cr_assert_eq(dir_replace(&dir, "f", &old, 1), STATUS_OK);
    cr_assert_eq(dir_replace(&dir, "f", piece, 2), STATUS_OK);
    cr_assert_str_eq(text_of("f"), "new");
    expect_n(1);
    fill_disk();
    expect_fails(dir_replace(&dir, "f", &old, 1), STATUS_IO, "/f': File too large");
    cr_assert_str_eq(text_of("f"), "new");
    expect_n(1);
}

Test(dir, what_is_no_plain_file_is_not_replaced)
{
    static const char *const names[] = {"link", "folder", "pipe"};
    folder_write("note", "mine");
    plant("note", "link");
    cr_assert_eq(mkdir(folder_path("folder"), 0777), 0);
    cr_assert_eq(mkfifo(folder_path("pipe"), 0600), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int file;
        cr_assert_eq(dir_replace(&dir, names[i], &new, 1), STATUS_CREATE, "%s", names[i]);
        cr_assert(strstr(status_reason(), names[i]) && strstr(status_reason(), "expected a file"), "%s",
                  status_reason());
        cr_assert_eq(dir_file_remove(&dir, names[i]), STATUS_CREATE, "%s", names[i]);
        cr_assert_eq(dir_file_open(&dir, names[i], &file), STATUS_CREATE, "%s", names[i]);
        cr_assert(folder_has(names[i]));
    }
    cr_assert_str_eq(text_of("note"), "mine");
    expect_n(4);
}

static bool is_f(const char *name)
{
    return strcmp(name, "f") == 0;
}

Test(dir, files_in_the_making_of_a_dead_process_are_removed_and_no_others)
{
    static const char *const names[] = {"f.0123abcd.tmp", "g.0123abcd.tmp", "f.tmp",          "f.0123ABCD.tmp",
                                        "f.0123abc.tmp",  ".0123abcd.tmp",  "f.0123abcd.tmp2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        folder_write(names[i], "");
    }
    folder_write("two", "");
    cr_assert_eq(link(folder_path("two"), folder_path("f.22222222.tmp")), 0);
    plant("two", "f.11111111.tmp");
    dir_asides_remove(&dir, is_f);
    cr_assert(!folder_has(names[0]));
    for (size_t i = 1; i < sizeof names / sizeof *names; i++) {
        cr_assert(folder_has(names[i]), "%s", names[i]);
    }
    cr_assert(folder_has("f.11111111.tmp") && folder_has("f.22222222.tmp") && folder_has("two"));
}

static enum status fill(void *context, char *bytes)
{
    const char *text = context;
    memcpy(bytes, text, strlen(text));
    return text[0] != '!' ? STATUS_OK : status_fail(STATUS_PEER, "no more bytes come");
}

Test(dir, a_mapped_file_is_whole_or_the_old_one_stays)
{
    char first[] = "old", second[] = "new", broken[] = "!broken";
    expect_done(dir_replace_mapped(&dir, "f", 3, fill, first));
    cr_assert_eq(dir_replace_mapped(&dir, "f", 3, fill, second), STATUS_OK);
    cr_assert_str_eq(text_of("f"), "new");
    cr_assert_eq(dir_replace_mapped(&dir, "f", 7, fill, broken), STATUS_PEER);
    cr_assert_str_eq(status_reason(), "no more bytes come");
    cr_assert_str_eq(text_of("f"), "new");
    expect_n(1);
    fill_disk(); /* it has no space for pages */
    expect_fails(dir_replace_mapped(&dir, "g", 3, fill, second), STATUS_IO, "/g'");
    expect_n(1);
}

Test(dir, a_link_is_made_or_led_elsewhere_and_nothing_else_is_replaced_by_one)
{
    char target[64] = "";
    cr_assert_eq(dir_link_replace(&dir, "link", "one"), STATUS_OK);
    cr_assert_eq(dir_link_replace(&dir, "link", "two"), STATUS_OK);
    cr_assert_eq(readlinkat(dir.file, "link", target, sizeof target - 1), 3);
    cr_assert_str_eq(target, "two");
    folder_write("file", "mine");
    expect_fails(dir_link_replace(&dir, "file", "one"), STATUS_CREATE, "/file' is a file, expected a link");
    expect_n(2);
}

Test(dir, a_link_is_removed_where_it_leads_to_what_is_said_and_nothing_else_is)
{
    folder_write("file", "mine");
    cr_assert_eq(dir_link_replace(&dir, "link", "one"), STATUS_OK);
    dir_link_remove(&dir, "link", "on");
    dir_link_remove(&dir, "link", "ones");
    dir_link_remove(&dir, "file", "one");
    dir_link_remove(&dir, "nothing", "one");
    expect_n(2);
    dir_link_remove(&dir, "link", "one");
    expect_n(1);
    cr_assert(folder_has("file"));
}

static ino_t inode_of(const char *name)
{
    struct stat about;
    cr_assert_eq(lstat(folder_path(name), &about), 0);
    return about.st_ino;
}

Test(dir, a_shared_file_has_two_names_or_is_copied)
{
    struct dir to;
    cr_assert_eq(dir_inner(&dir, "to", true, &to), STATUS_OK);
    folder_write("f", "text");
    folder_write("to/f", "older");
    expect_done(dir_share(&dir, "f", &to, "f", false));
    cr_assert_eq(dir_share(&dir, "f", &to, "f", false), STATUS_OK, "it has both names already");
    cr_assert_eq(inode_of("f"), inode_of("to/f"));
    cr_assert_eq(dir_share(&dir, "f", &to, "f", true), STATUS_OK);
    cr_assert_neq(inode_of("f"), inode_of("to/f"));
    cr_assert_str_eq(text_of("to/f"), "text");
    plant("f", "link");
    cr_assert_eq(dir_share(&dir, "link", &to, "g", false), STATUS_CREATE);
    cr_assert_eq(dir_share(&dir, "f", &dir, "link", true), STATUS_CREATE);
    cr_assert_eq(dir_share(&dir, "none", &to, "g", false), STATUS_NO_INPUT);
    dir_close(&to);
    expect_n(3);
}
