/* The user's file of daemons on TCP ports: what it may say, and that it is kept whole and its owner's alone. */
#include "tests/support/process/folder.h"
#include "trainerd/ctl/base/known_hosts.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PRINT "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static void make_all(void)
{
    folder_make();
    setenv("XDG_CONFIG_HOME", folder_path("config"), 1);
}

TestSuite(known_hosts, .init = make_all, .fini = folder_remove, .timeout = 900);

static void save(const char *address, const char *user)
{
    struct known_host host = {.fingerprint = PRINT, .secret_file = "/a/file \"of mine\""};
    snprintf(host.address, sizeof host.address, "%s", address);
    snprintf(host.user, sizeof host.user, "%s", user);
    cr_assert_eq(known_hosts_save(&host), STATUS_OK, "%s", status_reason());
}

static void expect_user(const char *address, const char *user)
{
    struct known_host host;
    bool found;
    cr_assert_eq(known_hosts_find(address, &host, &found), STATUS_OK, "%s", status_reason());
    cr_assert_eq(found, user != NULL);
    if (found) {
        cr_assert_str_eq(host.user, user);
        cr_assert_str_eq(host.address, address);
        cr_assert_str_eq(host.fingerprint, PRINT);
        cr_assert_str_eq(host.secret_file, "/a/file \"of mine\"");
    }
}

Test(known_hosts, a_host_that_was_saved_is_found_and_another_of_its_address_takes_its_place)
{
    struct stat about;
    expect_user("tcp:one:1", NULL);
    save("tcp:one:1", "ada");
    save("tcp:[::1]:2", "");
    expect_user("tcp:one:1", "ada");
    expect_user("tcp:[::1]:2", "");
    save("tcp:one:1", "eve");
    expect_user("tcp:one:1", "eve");
    expect_user("tcp:[::1]:2", "");
    expect_user("tcp:one:2", NULL);
    cr_assert_eq(stat(folder_path("config/trainerd/hosts.toml"), &about), 0);
    cr_assert_eq(about.st_mode & 07777, 0600);
    cr_assert_eq(stat(folder_path("config/trainerd"), &about), 0);
    cr_assert_eq(about.st_mode & 07777, 0700);
}

Test(known_hosts, a_file_that_others_can_change_is_refused_and_not_replaced)
{
    struct known_host host = {.address = "tcp:one:1", .fingerprint = PRINT};
    bool found;
    save("tcp:one:1", "ada");
    cr_assert_eq(chmod(folder_path("config/trainerd/hosts.toml"), 0620), 0);
    cr_assert_eq(known_hosts_find("tcp:one:1", &host, &found), STATUS_CONFIG);
    cr_assert_not_null(strstr(status_reason(), "has mode 0620, expected 0600"), "%s", status_reason());
    cr_assert_eq(known_hosts_save(&host), STATUS_CONFIG);
    cr_assert_eq(chmod(folder_path("config/trainerd/hosts.toml"), 0600), 0);
    expect_user("tcp:one:1", "ada");
}

Test(known_hosts, the_names_of_the_loopback_are_one_host)
{
    struct known_host host;
    bool found;
    save("tcp:127.0.0.1:9750", "ada");
    static const char *const same[] = {"tcp:localhost:9750", "tcp:[::1]:9750"};
    for (size_t i = 0; i < 2; i++) {
        cr_assert_eq(known_hosts_find(same[i], &host, &found), STATUS_OK);
        cr_assert(found && strcmp(host.user, "ada") == 0, "%s", same[i]);
    }
    expect_user("tcp:localhost:9751", NULL);
    expect_user("tcp:127.0.0.2:9750", NULL);
    save("tcp:localhost:9750", "eve"); /* in the place of the other */
    cr_assert_eq(known_hosts_find("tcp:127.0.0.1:9750", &host, &found), STATUS_OK);
    cr_assert_str_eq(host.user, "eve");
    cr_assert_eq(known_hosts_remove("tcp:[::1]:9750"), STATUS_OK);
    expect_user("tcp:localhost:9750", NULL);
}

Test(known_hosts, a_host_that_is_removed_leaves_the_others)
{
    cr_assert_eq(known_hosts_remove("tcp:one:1"), STATUS_OK, "%s", status_reason());
    cr_assert_not(folder_has("config/trainerd/hosts.toml"), "nothing was there, and a file is made");
    save("tcp:one:1", "ada");
    save("tcp:two:1", "eve");
    cr_assert_eq(known_hosts_remove("tcp:one:1"), STATUS_OK, "%s", status_reason());
    expect_user("tcp:one:1", NULL);
    expect_user("tcp:two:1", "eve");
    cr_assert_eq(known_hosts_remove("tcp:two:1"), STATUS_OK, "%s", status_reason());
    expect_user("tcp:two:1", NULL);
}

/* Is the file, of this path, removed? */
static bool forgotten(const char *path)
{
    bool is_removed;
    cr_assert_eq(known_hosts_forget_secret(path, &is_removed), STATUS_OK, "%s", status_reason());
    return is_removed;
}

Test(known_hosts, a_secret_is_forgotten_where_it_was_kept_here_and_no_host_has_it)
{
    const struct auth_secret secret = {.bytes = {1}};
    struct known_host host = {.address = "tcp:[::1]:2", .fingerprint = PRINT, .user = "a"}, second;
    char mine[PATH_MAX];
    cr_assert_eq(known_hosts_keep_secret(&secret, &host), STATUS_OK, "%s", status_reason());
    cr_assert_eq(known_hosts_save(&host), STATUS_OK, "%s", status_reason());
    second = host;
    strcpy(second.address, "tcp:one:1");
    cr_assert_eq(known_hosts_save(&second), STATUS_OK, "%s", status_reason());
    cr_assert_eq(known_hosts_remove(host.address), STATUS_OK);
    cr_assert_not(forgotten(host.secret_file), "another host has it");
    cr_assert_eq(known_hosts_remove(second.address), STATUS_OK);
    cr_assert(forgotten(host.secret_file));
    cr_assert_not(forgotten(host.secret_file), "it is gone");
    snprintf(mine, sizeof mine, "%s", folder_path("secret-mine"));
    folder_write("secret-mine", "x");
    cr_assert_not(forgotten(mine));
    snprintf(mine, sizeof mine, "%s", folder_path("config/trainerd/mine"));
    folder_write("config/trainerd/mine", "x");
    cr_assert_not(forgotten(mine));
    snprintf(mine, sizeof mine, "%s", folder_path("config/trainerd/secret-link"));
    cr_assert_eq(symlink(folder_path("secret-mine"), mine), 0);
    cr_assert_not(forgotten(mine), "a link to another's file");
    cr_assert(folder_has("secret-mine") && folder_has("config/trainerd/mine"));
}

Test(known_hosts, what_is_no_host_is_refused_with_its_place)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"fingerprint = \"none\"\n", "hosts:1:1: 'fingerprint' is of no host"},
        {"[one]\n", "hosts:1:2: 'one' is not an address"},
        {"[\"tcp:one\"]\n", "is not an address"},
        {"[\"unix:/run/x\"]\n", "is a Unix socket"},
        {"[\"tcp:one:1\"]\nfingerprint = \"0011\"\n", "hosts:2:1: '0011' is no fingerprint"},
        {"[\"tcp:one:1\"]\nfingerprint = 7\n", "fingerprint is a whole number, expected a text"},
        {"[\"tcp:one:1\"]\nuser = \"a b\"\n", "'a b' is not a user's name"},
        {"[\"tcp:one:1\"]\nsecret_file = \"here\"\n", "'here' is not an absolute path"},
        {"[\"tcp:one:1\"]\nsecret = \"x\"\n", "unknown key 'secret' of a host"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct known_hosts hosts;
        cr_assert_eq(known_hosts_read(cases[i].text, strlen(cases[i].text), "hosts", &hosts), STATUS_CONFIG, "%zu",
                     i);
        cr_assert_not_null(strstr(status_reason(), cases[i].expected), "%zu: %s", i, status_reason());
    }
}
