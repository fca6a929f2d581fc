#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char folder[64];

void folder_make(void)
{
    strcpy(folder, "/tmp/trainerd-test-XXXXXX");
    cr_assert_not_null(mkdtemp(folder), "%s: %s", folder, strerror(errno));
}

static int entry_remove(const char *path, const struct stat *about, int kind, struct FTW *place)
{
    (void)about;
    (void)kind;
    (void)place;
    return remove(path);
}

void folder_remove(void)
{
    if (folder[0] != '\0') {
        cr_assert_eq(nftw(folder, entry_remove, 8, FTW_DEPTH | FTW_PHYS), 0, "%s: %s", folder, strerror(errno));
        folder[0] = '\0';
    }
}

const char *folder_path(const char *name)
{
    static char paths[8][512];
    static int turn;
    turn = (turn + 1) % 8;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", folder, name);
    return paths[turn];
}

bool folder_has(const char *name)
{
    struct stat about;
    return lstat(folder_path(name), &about) == 0;
}

void folder_write(const char *name, const char *text)
{
    FILE *file = fopen(folder_path(name), "w");
    cr_assert_not_null(file, "%s: %s", name, strerror(errno));
    cr_assert(fputs(text, file) >= 0);
    cr_assert_eq(fclose(file), 0);
}

void folder_read(const char *name, char *out, size_t n_out)
{
    FILE *file = fopen(folder_path(name), "r");
    cr_assert_not_null(file, "%s: %s", name, strerror(errno));
    out[fread(out, 1, n_out - 1, file)] = '\0';
    fclose(file);
}

void program_find(const char *name, char *out, size_t n_out)
{
    ssize_t n = readlink("/proc/self/exe", out, n_out - 1);
    cr_assert_gt(n, 0);
    out[n] = '\0';
    size_t n_folder = (size_t)(strrchr(out, '/') + 1 - out);
    cr_assert_lt(n_folder + strlen(name), n_out);
    strcpy(out + n_folder, name);
}
