#include "tests/system/attack/user.h"

#include "tests/support/process/folder.h"
#include "tests/system/attack/campaign.h"

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

struct account {
    const char *name; /* of the machine's user */
    uid_t otherwise;  /* where the machine has no user of that name */
    const char *home, *secret;
};

static const struct account accounts[USER_N] = {{"nobody", 65534, "home0", "SECRET-marmot-of-the-first"},
                                                {"bin", 2, "home1", "SECRET-walrus-of-the-second"},
                                                {"daemon", 1, "home2", "SECRET-ferret-of-the-third"},
                                                {"sys", 3, "home3", "SECRET-badger-of-the-fourth"},
                                                {"root", 0, "root", "SECRET-falcon-of-root"}};

enum { N_TREE = 1 << 15 };
static char tree_made[USER_N][N_TREE];

uid_t user_uid(enum user who)
{
    const struct passwd *found = getpwnam(accounts[who].name);
    return found != NULL ? found->pw_uid : accounts[who].otherwise;
}

const char *user_home(enum user who)
{
    return accounts[who].home;
}

/* The word that only this user's private file has. */
static const char *user_secret(enum user who)
{
    return accounts[who].secret;
}

/* Also by its real ids, which signals are allowed by; the saved one is the way back. */
void user_become(enum user who)
{
    uid_t uid = user_uid(who);
    if (who != USER_ROOT &&
        (setgroups(0, NULL) != 0 || setresgid((gid_t)uid, (gid_t)uid, 0) != 0 || setresuid(uid, uid, 0) != 0)) {
        abort();
    }
}

void user_leave(void)
{
    if (setresuid(0, 0, 0) != 0 || setresgid(0, 0, 0) != 0) {
        abort();
    }
}

/* --- trees --- */

static int is_entry(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static unsigned long long hash_of(const char *path, const struct stat *about)
{
    char bytes[4096] = "";
    size_t n = 0;
    if (S_ISREG(about->st_mode)) {
        FILE *file = fopen(path, "rb");
        n = file != NULL ? fread(bytes, 1, sizeof bytes, file) : 0;
        if (file != NULL) {
            fclose(file);
        }
    }
    return XXH3_64bits(bytes, n);
}

/* A line for each entry below a folder, and the folder itself. */
static void tree_print(const char *path, char out[N_TREE])
{
    struct dirent **entry;
    struct stat about;
    size_t n_out = strlen(out);
    if (lstat(path, &about) != 0) {
        snprintf(out + n_out, N_TREE - n_out, "%s: %s\n", path, strerror(errno));
        return;
    }
    snprintf(out + n_out, N_TREE - n_out, "%s %o %d:%d %lld %lld.%09ld %016llx\n", path + strlen(folder),
             (unsigned)about.st_mode, (int)about.st_uid, (int)about.st_gid,
             S_ISDIR(about.st_mode) ? 0 : (long long)about.st_size, (long long)about.st_mtim.tv_sec,
             about.st_mtim.tv_nsec, hash_of(path, &about));
    int n = S_ISDIR(about.st_mode) ? scandir(path, &entry, is_entry, alphasort) : 0;
    for (int i = 0; i < n; i++) {
        char below[PATH_MAX];
        snprintf(below, sizeof below, "%s/%s", path, entry[i]->d_name);
        tree_print(below, out);
        free(entry[i]);
    }
    if (n > 0) {
        free(entry);
    }
}

static const char *tree_path(enum user who)
{
    char name[64];
    snprintf(name, sizeof name, "%s/precious", user_home(who));
    return folder_path(name);
}

static void make_folder(enum user who, const char *name, mode_t mode)
{
    char path[64];
    snprintf(path, sizeof path, "%s%s", user_home(who), name);
    cr_assert_eq(mkdir(folder_path(path), 0700), 0, "%s: %s", path, strerror(errno));
    cr_assert_eq(chmod(folder_path(path), mode), 0);
    cr_assert_eq(chown(folder_path(path), user_uid(who), (gid_t)user_uid(who)), 0);
}

static void make_file(enum user who, const char *name, mode_t mode)
{
    char path[96];
    snprintf(path, sizeof path, "%s%s", user_home(who), name);
    folder_write(path, user_secret(who));
    cr_assert_eq(chown(folder_path(path), user_uid(who), (gid_t)user_uid(who)), 0);
    cr_assert_eq(chmod(folder_path(path), mode), 0);
}

static void make_user(enum user who)
{
    static const char *const files[] = {"note.txt",          "metrics.jsonl",    "result.json",
                                        "model.safetensors", "best.safetensors", "model.safetensors.tmp",
                                        "epoch-4.ckpt",      "jobs.sqlite"};
    make_folder(who, "", 0755);
    make_folder(who, "/shared", 0777);
    make_folder(who, "/sticky", 01777);
    make_folder(who, "/precious", 0755);
    make_folder(who, "/precious/open", 0777);
    make_folder(who, "/precious/closed", 0700);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[64];
        snprintf(path, sizeof path, "/precious/%s", files[i]);
        make_file(who, path, i % 2 == 0 ? 0644 : 0600);
        snprintf(path, sizeof path, "/precious/open/%s", files[i]);
        make_file(who, path, i % 2 == 0 ? 0644 : 0600);
    }
    make_file(who, "/precious/closed/secret.txt", 0600);
    make_file(who, "/secret.txt", 0600);
    tree_print(tree_path(who), tree_made[who]);
}

bool users_make(void)
{
    if (geteuid() != 0) {
        return false;
    }
    folder_make();
    cr_assert_eq(chmod(folder, 0755), 0);
    for (int who = 0; who < USER_N; who++) {
        make_user((enum user)who);
    }
    return true;
}

void users_expect_untouched(void)
{
    static char now[N_TREE];
    for (int who = 0; who < USER_N; who++) {
        now[0] = '\0';
        tree_print(tree_path((enum user)who), now);
        size_t at = 0;
        while (now[at] != '\0' && now[at] == tree_made[who][at]) {
            at++;
        }
        while (at > 0 && now[at - 1] != '\n') {
            at--;
        }
        HOLDS(strcmp(now, tree_made[who]) == 0, "files of %s are not what they were: %.300s\n  were: %.300s",
              user_home((enum user)who), now + at, tree_made[who] + at);
    }
}

void user_expect_no_secret(enum user who, const char *text)
{
    for (int other = 0; other < USER_N && who != USER_ROOT; other++) {
        HOLDS(other == (int)who || strstr(text, accounts[other].secret) == NULL, "%s has read a file of %s: %.600s",
              user_home(who), user_home((enum user)other), text);
    }
}
