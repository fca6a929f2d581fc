/* Who may submit: submit_users and submit_groups. */
#include "tests/support/process/expect.h"
#include "tests/unit/trainerd/daemon/commands/talk.h"
#include "trainerd/daemon/commands/submitters.h"

#include <criterion/criterion.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

static void begin(void)
{
    talk_options.submit_users = "daemon";
    talk_begin();
}

TestSuite(submitters, .init = begin, .fini = talk_end, .timeout = 900);

Test(submitters, others_than_the_listed_are_refused_with_the_key_and_still_read)
{
    struct client other_user;
    other_user_open(&other_user);
    expect_failure(ask_by(&other_user, SUBMIT("")), 2,
                   "may not submit jobs here, and is not among the users of submit_users");
    expect_failure(ask_by(&other_user, CMD_OF("resume", "'job':1")), 2, "may not submit jobs here");
    expect_answer(ask_by(&other_user, CMD("status")), OK);
    client_close(&other_user);
}

Test(submitters, the_daemons_own_user_always_may)
{
    cr_assert_gt(submit(SUBMIT("")), 0);
}

static enum status check(const char *users, const char *groups, uid_t uid, gid_t gid)
{
    struct submitters submitters;
    submitters_init(&submitters, users, groups);
    enum status status = submitters_check(&submitters, uid, gid);
    submitters_release(&submitters);
    return status;
}

Test(submitters, a_user_is_let_in_by_its_name_or_a_group_and_without_lists_all_are)
{
    const struct passwd *nobody = getpwnam("nobody");
    const struct group *mail = getgrnam("mail");
    cr_assert(nobody != NULL && mail != NULL);
    uid_t uid = nobody->pw_uid;
    gid_t gid = nobody->pw_gid;
    cr_assert_eq(check(NULL, NULL, uid, gid), STATUS_OK);
    cr_assert_eq(check(" ", "\t", uid, gid), STATUS_OK);
    cr_assert_eq(check("daemon  nobody", "", uid, gid), STATUS_OK);
    cr_assert_eq(check("daemon", "", uid, gid), STATUS_USAGE);
    cr_assert_eq(check("nobod nobodyy", NULL, uid, gid), STATUS_USAGE);
    expect_fails(check("", "mail", uid, gid), STATUS_USAGE, "user 'nobody'");
    cr_assert_eq(check("daemon", "daemon mail", uid, mail->gr_gid), STATUS_OK);
    cr_assert_eq(check("no-such-user", "no-such-group", uid, gid), STATUS_USAGE);
    cr_assert_eq(check("nobody", "", uid + 1000, gid), STATUS_USAGE);
}
