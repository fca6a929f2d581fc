/* The file of users: what it may say, and what of it is refused without a word of its secrets. */
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "trainerd/daemon/server/users.h"

#include <criterion/criterion.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECRET "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define LINE "secret = \"" SECRET "\"\n"

TestSuite(users, .init = folder_make, .fini = folder_remove, .timeout = 900);

Test(users, each_has_a_secret_a_user_of_this_machine_and_a_role)
{
    static const char text[] = "[ada]\n" LINE "[bob.by]\n";
    struct users users;
    cr_assert_eq(users_read(text, strlen(text), "users", &users), STATUS_CONFIG);
    static const char good[] = "eve.role = \"watch\"\n[ada]\n" LINE "[\"bob.by\"]\n" LINE
                               "user = \"nobody\"\nrole = \"admin\"\n[eve]\n" LINE;
    /* TOML has a table once: eve's keys stand in one place. */
    cr_assert_eq(users_read(good, strlen(good), "users", &users), STATUS_CONFIG);
    static const char whole[] = "eve.role = \"watch\"\neve." LINE "[ada]\n" LINE "[\"bob.by\"]\n" LINE
                                "user = \"nobody\"\nrole = \"admin\"\n";
    expect_done(users_read(whole, strlen(whole), "users", &users));
    cr_assert_eq(users.n_user, 3);
    const struct user *ada = users_find(&users, "ada"), *bob = users_find(&users, "bob.by"),
                      *eve = users_find(&users, "eve");
    cr_assert(ada != NULL && bob != NULL && eve != NULL && users_find(&users, "") == NULL);
    cr_assert_eq(ada->role, USER_ROLE_SUBMIT);
    cr_assert_eq(bob->role, USER_ROLE_ADMIN);
    cr_assert_eq(eve->role, USER_ROLE_WATCH);
    cr_assert_str_eq(ada->system, "ada");
    cr_assert_str_eq(bob->system, "nobody");
    cr_assert_eq(ada->secret.bytes[1], 0x11);
    users_release(&users);
}

Test(users, what_is_no_user_is_refused_with_its_place)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"secret = \"" SECRET "\"\n", "users:1:1: 'secret' is of no user"},
        {"[ada]\n", "user 'ada' has no secret"},
        {"[ada]\nsecret = \"0011\"\n", "users:2:1: secret is not 64 hexadecimal digits"},
        {"[ada]\nsecret = \"zz112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"\n",
         "secret is not 64"},
        {"[ada]\nsecret = 12\n", "secret is a whole number, expected a text"},
        {"[ada]\n" LINE "role = \"root\"\n",
         "users:3:1: role is 'root', expected \"watch\", \"submit\" or \"admin\""},
        {"[ada]\n" LINE "rule = \"admin\"\n", "unknown key 'rule'"},
        {"[ada]\n" LINE "user = \"\"\n", "expected the name of a user of this machine"},
        {"[\"a b\"]\n" LINE, "'a b' is not a user's name"},
        {"[-x]\n" LINE, "'-x' is not a user's name"},
        {"[ada]\n" LINE "[ada]\n" LINE, "users:3"},
        {"[ada.x]\n" LINE, "unknown key 'x'"},
        {"[[ada]]\n" LINE, "is of no user"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct users users;
        cr_assert_eq(users_read(cases[i].text, strlen(cases[i].text), "users", &users), STATUS_CONFIG, "%zu", i);
        cr_assert_not_null(strstr(status_reason(), cases[i].expected), "%zu: %s", i, status_reason());
        cr_assert_null(strstr(status_reason(), "2233"), "a secret is in: %s", status_reason());
    }
}

Test(users, the_file_is_its_owners_alone_and_names_users_whose_jobs_may_run)
{
    struct users users;
    char text[256];
    const struct passwd *self = getpwuid(geteuid());
    cr_assert_not_null(self);
    snprintf(text, sizeof text, "[ada]\n" LINE "user = \"%s\"\n", self->pw_name);
    folder_write("users.toml", text);
    cr_assert_eq(chmod(folder_path("users.toml"), 0644), 0);
    expect_fails(users_load(folder_path("users.toml"), &users), STATUS_CONFIG, "has mode 0644, expected 0600");
    cr_assert_eq(chmod(folder_path("users.toml"), 0600), 0);
    expect_done(users_load(folder_path("users.toml"), &users));
    cr_assert_eq(users_find(&users, "ada")->uid, geteuid());
    users_release(&users);
    folder_write("users.toml", "[ada]\n" LINE "user = \"no-such-user-here\"\n");
    expect_fails(users_load(folder_path("users.toml"), &users), STATUS_CONFIG, "expected a user of this machine");
}
