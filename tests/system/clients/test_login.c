/* Daemons on TCP ports: certificates, logins that are remembered, users and their roles, with real programs. */
#include "tests/support/process/command.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/served.h"
#include "tests/support/process/terminal.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define SECRET_ADA "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define SECRET_EVE "10112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define SECRET_BOB "20112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static char address[64], fingerprint[65], other[65];

static void own_write(const char *name, const char *text)
{
    folder_write(name, text);
    cr_assert_eq(chmod(folder_path(name), 0600), 0);
}

/* Serve a TCP port; listen: with its port, to be the same after a restart. */
static void serve(const char *listen, const char *setting)
{
    char program[PATH_MAX];
    program_find("trainerd", program, sizeof program);
    const char *arguments[] = {program, "--listen", listen,  "--state", "state", "--set", "users_file=users.toml",
                               "--set", "slots=4",  "--set", setting,   NULL};
    process_start(&served_process, NULL, folder, NULL, arguments);
    process_await_listening(&served_process);
    const char *at = strstr(served_process.words, "tcp:127.0.0.1:"),
               *print = strstr(served_process.words, ", fingerprint ");
    cr_assert_not_null(at, "%s", served_process.words);
    snprintf(address, sizeof address, "%.*s", (int)strcspn(at, ", "), at);
    snprintf(fingerprint, sizeof fingerprint, "%.64s", print != NULL ? print + strlen(", fingerprint ") : "none");
    snprintf(other, sizeof other, "%c%s", fingerprint[0] == '0' ? '1' : '0', fingerprint + 1);
    setenv("TRAINERD_TO", address, 1);
}

static void make_all(void)
{
    char users[2048];
    const struct passwd *self = getpwuid(geteuid());
    folder_make();
    cr_assert_not_null(self);
    snprintf(users, sizeof users,
             "[ada]\nsecret = \"" SECRET_ADA "\"\nuser = \"%s\"\n[eve]\nsecret = \"" SECRET_EVE
             "\"\nuser = \"%s\"\nrole = \"watch\"\n[bob]\nsecret = \"" SECRET_BOB
             "\"\nuser = \"%s\"\nrole = \"admin\"\n",
             self->pw_name, self->pw_name, self->pw_name);
    if (geteuid() == 0) {
        strcat(users, "[dan]\nsecret = \"" SECRET_ADA "\"\nuser = \"nobody\"\n[amy]\nsecret = \"" SECRET_BOB
                      "\"\nuser = \"nobody\"\nrole = \"admin\"\n");
    }
    own_write("users.toml", users);
    own_write("ada", SECRET_ADA "\n");
    own_write("eve", SECRET_EVE "\n");
    own_write("bob", SECRET_BOB "\n");
    own_write("dan", SECRET_ADA "\n");
    own_write("amy", SECRET_BOB "\n");
    folder_write(
        "job.toml",
        "name = \"k\"\n[dataset]\ngenerator = \"karate\"\n[partition]\ncache = \"off\"\n[workers]\nthreads = "
        "1\n[train]\nepochs = 3\n");
    setenv("XDG_CONFIG_HOME", folder_path("config"), 1);
    serve("tcp:127.0.0.1:0", "tls=on");
}

TestSuite(login, .init = make_all, .fini = folder_remove, .timeout = 900);

#define start(...) command_start("trainctl", __VA_ARGS__)

#define LOGIN(user) "login", address, "--fingerprint", fingerprint, "--user", user, "--secret-file", user

Test(login, a_daemon_that_is_not_known_is_asked_nothing_until_a_login_with_its_fingerprint)
{
    EXPECT(78, "is not known: run trainctl login tcp:127.0.0.1:", "status");
    EXPECT(2, "login needs --fingerprint", "login", address, "--user", "ada", "--secret-file", "ada");
    EXPECT(69, "is not the one that is known", "login", address, "--fingerprint", other, "--user", "ada",
           "--secret-file", "ada");
    EXPECT(78, "is not known", "status");
    EXPECT(0, "logged in at tcp:127.0.0.1:", LOGIN("ada"));
    EXPECT(0, "", "status");
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait");
    EXPECT(0, "\"user\":\"ada\"", LOGIN("ada"), "--json");
    struct stat about;
    cr_assert_eq(stat(folder_path("config/trainerd/hosts.toml"), &about), 0);
    cr_assert_eq(about.st_mode & 07777, 0600);
}

Test(login, a_login_at_127_0_0_1_is_one_at_localhost)
{
    char local[64];
    EXPECT(0, "", LOGIN("ada"));
    snprintf(local, sizeof local, "tcp:localhost%s", strrchr(address, ':'));
    EXPECT(0, "", "--to", local, "status");
    EXPECT(0, "logged out at tcp:localhost:", "logout", local);
    EXPECT(78, "is not known", "status");
}

Test(login, another_certificate_is_refused_with_both_fingerprints_and_what_to_do)
{
    EXPECT(0, "", LOGIN("ada"));
    EXPECT(69, fingerprint, "--fingerprint", other, "status");
    cr_assert_not_null(strstr(output, other));
    expect_words(output, "run trainctl login tcp:127.0.0.1:");
    char same[64];
    snprintf(same, sizeof same, "%s", address);
    served_end();
    cr_assert_eq(unlink(folder_path("state/tls.pem")), 0); /* the daemon makes another */
    char before[65];
    snprintf(before, sizeof before, "%s", fingerprint);
    serve(same, "tls=on");
    cr_assert_str_neq(before, fingerprint);
    EXPECT(69, before, "status");
    expect_words(output, fingerprint);
    EXPECT(0, "logged in", "login", address, "--fingerprint",
           fingerprint); /* as the user and with the secret that are known */
    EXPECT(0, "", "status");
}

Test(login, the_certificate_is_kept_over_a_restart_and_printed_where_the_state_is)
{
    char same[64];
    EXPECT(0, "", LOGIN("ada"));
    EXPECT(0, fingerprint, "fingerprint", "--state", "state");
    EXPECT(0, fingerprint, "fingerprint", "--to", address);
    EXPECT(0, "{\"fingerprint\":\"", "fingerprint", "--state", "state", "--json");
    EXPECT(66, "the daemon makes its certificate when", "fingerprint", "--state", "nothing");
    snprintf(same, sizeof same, "%s", address);
    served_end();
    serve(same, "tls=on");
    EXPECT(0, "", "status");
    served_end();
    cr_assert_eq(chmod(folder_path("state/tls.pem"), 0644), 0);
    const char *again[] = {"--listen", same, "--state", "state", "--set", "users_file=users.toml", NULL};
    cr_assert_eq(command_finish(command_start("trainerd", again)), 78, "%s", output);
    expect_words(output, "state/tls.pem' has mode 0644, expected 0600");
}

Test(login, a_wrong_secret_and_an_unknown_user_are_refused_alike_and_audited)
{
    EXPECT(69, "the secret is not proved", "login", address, "--fingerprint", fingerprint, "--user", "ada",
           "--secret-file", "eve");
    EXPECT(69, "the secret is not proved", "login", address, "--fingerprint", fingerprint, "--user", "mallory",
           "--secret-file", "ada");
    cr_assert_not(folder_has("config/trainerd/hosts.toml"), "nothing is remembered of a login that failed");
    EXPECT(0, "", LOGIN("bob"));
    EXPECT(0, "there is no user 'mallory'", "audit");
    expect_words(output, "its proof is not that of the secret of user 'ada'");
    expect_words(output, "127.0.0.1 port ");
}

Test(login, roles_say_who_may_read_submit_and_control_all)
{
    EXPECT(0, "with the role submit", LOGIN("ada"));
    EXPECT(0, "1", "submit", "job.toml");
    EXPECT(2, "expected root, or the daemon's user", "drain");
    EXPECT(0, "with the role watch", LOGIN("eve"));
    EXPECT(0, "k", "status");
    EXPECT(0, "k", "show", "1");
    EXPECT(2, "has the role watch, which can only read: submit", "submit", "job.toml");
    EXPECT(2, "has the role watch, which can only read: cancel", "cancel", "1");
    EXPECT(2, "expected root", "audit");
    EXPECT(0, "with the role admin", LOGIN("bob"));
    EXPECT(0, "no job starts until", "drain");
    EXPECT(0, "", "undrain");
    EXPECT(0, "as eve", "audit");
    EXPECT(0, "", "--user", "ada", "--secret-file", "ada", "status");
}

Test(login, an_administrators_role_finds_jobs_of_all_users_by_name_and_another_role_of_the_same_user_its_own)
{
    need_root();
    EXPECT(0, "", LOGIN("bob"));
    EXPECT(0, "no job starts", "drain");
    EXPECT(0, "1", "submit", "job.toml");
    EXPECT(0, "", LOGIN("dan"));
    EXPECT(66, "there is no job 'k'", "cancel", "k");
    EXPECT(2, "is another user's", "cancel", "1");
    EXPECT(0, "", LOGIN("amy"));
    EXPECT(0, "QUEUED", "status", "k");
    EXPECT(0, "", "cancel", "k");
    EXPECT(0, "CANCELLED", "status", "k");
    EXPECT(0, "as amy", "audit");
}

static json_int_t priority_of(const char *job)
{
    cr_assert_eq(RUN("status", job, "--json"), 0, "%s", output);
    json_t *answer = command_json();
    json_int_t priority = json_integer_value(
        json_object_get(json_array_get(json_object_get(answer, "jobs"), 0), "priority"));
    json_decref(answer);
    return priority;
}

Test(login, a_priority_that_an_administrators_role_gave_stays_when_that_role_resumes_and_falls_when_another_does)
{
    need_root();
    EXPECT(0, "", LOGIN("bob"));
    EXPECT(0, "no job starts", "drain");
    EXPECT(0, "as user 65534 there", LOGIN("amy")); /* the uid is not the daemon's */
    EXPECT(0, "1", "submit", "job.toml", "--priority", "7");
    EXPECT(0, "", "cancel", "1");
    EXPECT(0, "", "resume", "1");
    cr_assert_eq(priority_of("1"), 7);
    EXPECT(0, "", "cancel", "1");
    EXPECT(0, "as user 65534 there", LOGIN("dan"));
    EXPECT(2, "priority is 7, and those above 0 are for administrators", "submit", "job.toml", "--priority", "7");
    EXPECT(0, "", "resume", "1");
    cr_assert_eq(priority_of("1"), 0);
}

/* Standard input of programs that are started from now on. */
static void stdin_from(const char *name)
{
    fflush(NULL);
    int file = open(folder_path(name), O_RDONLY);
    cr_assert_geq(dup2(file, STDIN_FILENO), 0);
    close(file);
}

static const char *kept(const char *user)
{
    static char name[128];
    snprintf(name, sizeof name, "config/trainerd/secret-127.0.0.1_%s-%s", strrchr(address, ':') + 1, user);
    return name;
}

Test(login, the_secret_of_standard_input_is_kept_in_a_file_of_the_users_own)
{
    struct stat about;
    stdin_from("eve");
    EXPECT(0, "as eve", "login", address, "--fingerprint", fingerprint, "--user", "eve");
    cr_assert_eq(stat(folder_path(kept("eve")), &about), 0);
    cr_assert_eq(about.st_mode & 07777, 0600);
    EXPECT(0, "", "status");
}

/* What a terminal has shown to its end; the program's exit code. */
static int await_terminal_end(int master, pid_t child)
{
    size_t n = 0;
    int status;
    for (ssize_t got;
         (got = read(master, output + n, sizeof output - 1 - n)) > 0;) { /* EIO: its other end is closed */
        n += (size_t)got;
    }
    output[n] = '\0';
    close(master);
    cr_assert_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

Test(login, on_a_terminal_certificate_user_and_secret_are_asked_for_and_the_secret_is_not_shown)
{
    int master;
    struct termios before, asked;
    pid_t child = terminal_start("trainctl", (const char *const[]){"login", address, NULL}, &master);
    terminal_await(master, "Are both the same? (yes/no) ");
    expect_words(output, fingerprint);
    cr_assert_eq(tcgetattr(master, &before), 0);
    cr_assert((before.c_lflag & ECHO) != 0);
    terminal_type(master, "yes\n");
    terminal_await(master, "User (empty: none): ");
    terminal_type(master, "eve\n");
    terminal_await(master, "Secret: ");
    cr_assert_eq(tcgetattr(master, &asked), 0);
    cr_assert_eq(asked.c_lflag & ECHO, 0);
    terminal_type(master, SECRET_EVE "\n");
    terminal_await(master, "as eve, with the role watch");
    cr_assert_null(strstr(output, "1022"), "the secret was shown: %s", output);
    cr_assert_eq(tcgetattr(master, &asked), 0);
    cr_assert_eq(asked.c_lflag, before.c_lflag, "the terminal is not as it was");
    cr_assert_eq(await_terminal_end(master, child), 0);
    EXPECT(0, "", "status");
}

Test(login, on_a_terminal_a_certificate_that_is_not_the_daemons_and_a_secret_that_is_none_leave_no_login)
{
    int master;
    pid_t child = terminal_start("trainctl", (const char *const[]){"login", address, "--user", "eve", NULL}, &master);
    terminal_await(master, "(yes/no) ");
    terminal_type(master, "no\n");
    cr_assert_eq(await_terminal_end(master, child), 69, "%s", output);
    expect_words(output, "not logged in: the certificate is not the daemon's");
    child = terminal_start(
        "trainctl", (const char *const[]){"login", address, "--fingerprint", fingerprint, "--user", "eve", NULL},
        &master);
    terminal_await(master, "Secret: ");
    terminal_type(master, "password\n");
    cr_assert_eq(await_terminal_end(master, child), 2, "%s", output);
    expect_words(output, "is not 64 hexadecimal digits");
    cr_assert_not(folder_has("config/trainerd/hosts.toml"));
}

Test(login, logout_forgets_the_host_and_the_secret_that_login_kept_and_says_so)
{
    EXPECT(66, "there is no login at tcp:127.0.0.1:", "logout", address);
    stdin_from("eve");
    EXPECT(0, "as eve", "login", address, "--fingerprint", fingerprint, "--user", "eve");
    EXPECT(0, "", "status");
    cr_assert(folder_has(kept("eve")));
    EXPECT(0, "removed the secret that login had kept in '", "logout", address);
    cr_assert_not(folder_has(kept("eve")));
    EXPECT(78, "is not known: run trainctl login", "status");
    EXPECT(66, "there is no login", "logout", address);
    EXPECT(0, "", LOGIN("ada"));
    EXPECT(0, "the secret stays in its file, '", "logout", address);
    cr_assert(folder_has("ada"), "a file that --secret-file named was removed");
    EXPECT(78, "is not known", "status");
    EXPECT(0, "", LOGIN("ada"));
    EXPECT(0, "\"secret_removed\":false", "logout", address, "--json");
    EXPECT(78, "'nowhere' is not an address", "logout", "nowhere");
}

Test(login, a_login_as_another_user_removes_the_secret_that_the_one_before_kept)
{
    stdin_from("eve");
    EXPECT(0, "as eve", "login", address, "--fingerprint", fingerprint, "--user", "eve");
    EXPECT(0, "as eve", "login", address, "--fingerprint", fingerprint); /* again, with the secret that is known */
    cr_assert(folder_has(kept("eve")));
    stdin_from("bob");
    EXPECT(0, "as bob", "login", address, "--fingerprint", fingerprint, "--user", "bob");
    cr_assert(folder_has(kept("bob")));
    cr_assert_not(folder_has(kept("eve")));
    EXPECT(0, "", "status");
}

Test(login, both_sides_say_where_one_speaks_tls_and_the_other_does_not)
{
    EXPECT(69, "this port speaks TLS", "--fingerprint", "none", "--user", "ada", "--secret-file", "ada", "status");
    char same[64], known[65];
    snprintf(same, sizeof same, "%s", address);
    snprintf(known, sizeof known, "%s", fingerprint);
    EXPECT(0, "", LOGIN("ada"));
    served_end();
    serve(same, "tls=off");
    cr_assert_str_eq(fingerprint, "none");
    EXPECT(69, "answers without TLS: this port is without TLS", "status");
    EXPECT(0, "", "--fingerprint", "none", "status");
    EXPECT(0, "logged in", LOGIN("ada"));
    EXPECT(0, "", "status");
}

Test(login, users_who_are_not_in_submit_users_are_refused_and_those_in_it_are_not)
{
    char same[64];
    need_root();
    snprintf(same, sizeof same, "%s", address);
    served_end();
    serve(same, "submit_users=daemon");
    EXPECT(0, "", LOGIN("dan"));
    EXPECT(2, "is not among the users of submit_users", "submit", "job.toml");
    EXPECT(0, "", "status");
    EXPECT(0, "", LOGIN("bob"));
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait");
}

Test(login, a_user_who_is_taken_from_the_file_is_refused_after_hup)
{
    EXPECT(0, "", LOGIN("ada"));
    own_write("users.toml", "nonsense");
    cr_assert_eq(kill(served_process.pid, SIGHUP), 0);
    process_await(&served_process, "ts=");
    process_await(&served_process, "ts=");
    expect_words(served_process.words, "the users are as they were");
    EXPECT(0, "", "status");
    own_write("users.toml", "[eve]\nsecret = \"" SECRET_EVE "\"\nuser = \"root\"\n");
    if (geteuid() == 0) {
        cr_assert_eq(kill(served_process.pid, SIGHUP), 0);
        process_await(&served_process, "ts=");
        EXPECT(69, "the secret is not proved", "status");
    }
}
