/* Daemons on TCP ports: which one is meant, who logs in there, and how both are remembered. */
#include "trainerd/ctl/base/known_hosts.h"
#include "trainerd/ctl/base/run.h"
#include "trainerd/ctl/base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#define LINE_BYTES 256
#define DAEMON_SIDE "`trainctl fingerprint` prints it on the daemon's machine"

/* --- the login of every command --- */

/* An option's value, else that of the environment; NULL: neither is given. */
static const char *given(const struct ctl_arguments *arguments, enum ctl_option option, const char *variable)
{
    const char *text = arguments->value[option], *otherwise = getenv(variable);
    return text != NULL ? text : otherwise != NULL && otherwise[0] != '\0' ? otherwise : NULL;
}

enum status ctl_login(const struct ctl_arguments *arguments, const char *address, struct known_host *known,
                      struct client_login *out)
{
    struct endpoint endpoint;
    char text[ENDPOINT_TEXT_BYTES];
    bool is_known = false;
    *known = (struct known_host){0};
    *out = (struct client_login){.user = ""};
    enum status status = endpoint_parse(address, "--to", &endpoint);
    if (status != STATUS_OK || endpoint.is_unix) {
        return status;
    }
    endpoint_print(&endpoint, text);
    const char *fingerprint = given(arguments, CTL_OPTION_FINGERPRINT, "TRAINERD_FINGERPRINT");
    const char *user = given(arguments, CTL_OPTION_USER, "TRAINERD_USER");
    const char *secret_file = given(arguments, CTL_OPTION_SECRET_FILE, "TRAINERD_SECRET_FILE");
    status = known_hosts_find(text, known, &is_known);
    snprintf(known->address, sizeof known->address, "%s", text);
    if (status == STATUS_OK && fingerprint != NULL) {
        status = known_hosts_fingerprint("--fingerprint", fingerprint, known->fingerprint);
    }
    if (status == STATUS_OK && user != NULL && user[0] != '\0' && !auth_is_user(user)) {
        status = status_fail(
            STATUS_USAGE,
            "--user: '%.64s' is not a user's name: expected 1 to %d letters, digits, points, hyphens and underscores",
            user, AUTH_USER_BYTES - 1);
    }
    if (status != STATUS_OK) {
        return status;
    }
    bool is_other = user != NULL && strcmp(user, known->user) != 0; /* whose secret is another one */
    if (is_other) {
        snprintf(known->user, sizeof known->user, "%s", user);
        known->secret_file[0] = '\0';
    }
    out->fingerprint = known->fingerprint[0] != '\0' ? known->fingerprint : NULL;
    out->user = known->user;
    out->secret_file = secret_file != NULL ? secret_file : known->secret_file[0] != '\0' ? known->secret_file : NULL;
    return STATUS_OK;
}

/* --- login --- */

/* A line of standard input, without its end. hidden: a terminal does not show it */
static enum status read_line(const char *question, bool hidden, char out[LINE_BYTES])
{
    struct termios before, silent;
    bool is_terminal = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &before) == 0;
    if (is_terminal) {
        silent = before;
        silent.c_lflag &= (tcflag_t) ~(ECHO | ISIG); /* an interrupt would leave the terminal so */
        tcsetattr(STDIN_FILENO, TCSAFLUSH, hidden ? &silent : &before);
        fputs(question, stderr); /* last: what is typed before it is dropped, what is typed after it is the answer */
    }
    char *line = fgets(out, LINE_BYTES, stdin);
    if (is_terminal && hidden) {
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
        fputc('\n', stderr);
    }
    if (line == NULL) {
        return status_fail(STATUS_USAGE, "standard input has ended, expected a line: %s", question);
    }
    out[strcspn(out, "\r\n")] = '\0';
    return STATUS_OK;
}

/* No certificate is trusted because it was seen: it is compared by the user, or given. */
static enum status ask_fingerprint(struct known_host *host)
{
    char seen[TLS_FINGERPRINT_BYTES], line[LINE_BYTES];
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
        return status_fail(STATUS_USAGE, "login needs --fingerprint: " DAEMON_SIDE);
    }
    enum status status = client_seen(host->address, seen);
    if (status != STATUS_OK) {
        return status;
    }
    fprintf(stderr, "The daemon on %s shows a certificate with the fingerprint\n  %s\n" DAEMON_SIDE ".\n",
            host->address, seen);
    status = read_line("Are both the same? (yes/no) ", false, line);
    if (status == STATUS_OK && strcmp(line, "yes") != 0) {
        status = status_fail(STATUS_PEER, "not logged in: the certificate is not the daemon's");
    }
    snprintf(host->fingerprint, sizeof host->fingerprint, "%s", seen);
    return status;
}

static enum status read_secret(struct auth_secret *out)
{
    char line[LINE_BYTES];
    enum status status = read_line("Secret: ", true, line);
    if (status == STATUS_OK && !auth_secret_read(line, out)) {
        status = status_fail(STATUS_USAGE, "the secret on standard input is not 64 hexadecimal digits");
    }
    memset(line, 0, sizeof line);
    return status;
}

/* The secret's file by a path that holds wherever a later command runs. */
static enum status keep_file(struct known_host *host, const char *secret_file)
{
    char path[PATH_MAX];
    if (realpath(secret_file, path) == NULL) {
        return status_fail(STATUS_NO_INPUT, "cannot find '%s': %s", secret_file, strerror(errno));
    }
    memcpy(host->secret_file, path, sizeof path);
    return STATUS_OK;
}

static void report(const struct ctl_arguments *arguments, const struct known_host *host, const json_t *hello)
{
    if (ctl_given(arguments, CTL_OPTION_JSON)) {
        json_t *value = json_pack("{s:s, s:s, s:s, s:s, s:O}", "address", host->address, "fingerprint",
                                  host->fingerprint, "user", host->user, "secret_file", host->secret_file, "role",
                                  json_object_get(hello, "role"));
        text_print_json(value);
        json_decref(value);
    } else {
        fprintf(stderr, "logged in at %s%s%s, with the role %s, as user %lld there\n", host->address,
                host->user[0] != '\0' ? " as " : "", host->user, field_text(hello, "role"),
                (long long)field_integer(hello, "uid"));
    }
}

/* Remember a login; the secret that an earlier one has kept, and that nothing needs any more, is removed. */
static enum status remember(const struct known_host *host)
{
    struct known_host before;
    bool is_known, is_removed;
    enum status status = known_hosts_find(host->address, &before, &is_known);
    if (status == STATUS_OK) {
        status = known_hosts_save(host);
    }
    return status == STATUS_OK && is_known ? known_hosts_forget_secret(before.secret_file, &is_removed) : status;
}

static enum status log_in(const struct ctl_arguments *arguments, struct known_host *host, struct client_login *login)
{
    struct client client;
    struct auth_secret secret;
    json_t *hello = NULL;
    bool reads = login->secret_file == NULL || strcmp(login->secret_file, "-") == 0;
    enum status status = reads ? read_secret(&secret) : keep_file(host, login->secret_file);
    if (status != STATUS_OK) {
        return status;
    }
    login->secret = reads ? &secret : NULL;
    login->fingerprint = host->fingerprint;
    status = client_open(host->address, login, &client);
    if (status == STATUS_OK) {
        status = client_ask(&client, json_pack("{s:s}", "cmd", "hello"), &hello);
        client_close(&client);
    }
    status = status == STATUS_OK && reads ? known_hosts_keep_secret(&secret, host) : status;
    if (status == STATUS_OK && (status = remember(host)) == STATUS_OK) {
        report(arguments, host, hello);
    }
    json_decref(hello);
    auth_secret_release(&secret);
    return status;
}

enum status run_login(const struct ctl_arguments *arguments)
{
    struct known_host host;
    struct client_login login;
    char line[LINE_BYTES];
    enum status status = ctl_login(arguments, arguments->operand[0], &host, &login);
    if (status == STATUS_OK && host.address[0] == '\0') {
        status = status_fail(STATUS_USAGE, "'%.200s' is a Unix socket, which needs no login: expected tcp:HOST:PORT",
                             arguments->operand[0]);
    }
    if (status == STATUS_OK && given(arguments, CTL_OPTION_FINGERPRINT, "TRAINERD_FINGERPRINT") == NULL) {
        status = ask_fingerprint(&host);
    }
    if (status == STATUS_OK && host.user[0] == '\0' && isatty(STDIN_FILENO) &&
        given(arguments, CTL_OPTION_USER, "TRAINERD_USER") == NULL) {
        status = read_line("User (empty: none): ", false, line);
        if (status == STATUS_OK && line[0] != '\0' && !auth_is_user(line)) {
            status = status_fail(STATUS_USAGE, "'%.64s' is not a user's name", line);
        }
        if (status == STATUS_OK) {
            snprintf(host.user, sizeof host.user, "%.*s", (int)sizeof host.user - 1, line);
        }
    }
    if (status != STATUS_OK) {
        return status;
    }
    return log_in(arguments, &host, &login);
}

/* --- logout --- */

enum status run_logout(const struct ctl_arguments *arguments)
{
    struct endpoint endpoint;
    struct known_host host;
    char address[ENDPOINT_TEXT_BYTES];
    bool is_known = false, is_removed = false;
    enum status status = endpoint_parse(arguments->operand[0], "logout", &endpoint);
    if (status == STATUS_OK) {
        endpoint_print(&endpoint, address);
        status = known_hosts_find(address, &host, &is_known);
    }
    if (status == STATUS_OK && !is_known) {
        status = status_fail(STATUS_NO_INPUT, "there is no login at %s", address);
    }
    if (status != STATUS_OK || (status = known_hosts_remove(address)) != STATUS_OK ||
        (status = known_hosts_forget_secret(host.secret_file, &is_removed)) != STATUS_OK) {
        return status;
    }
    if (ctl_given(arguments, CTL_OPTION_JSON)) {
        json_t *value = json_pack("{s:s, s:s, s:s, s:b}", "address", address, "user", host.user, "secret_file",
                                  host.secret_file, "secret_removed", is_removed);
        text_print_json(value);
        json_decref(value);
    } else {
        fprintf(stderr, "logged out at %s: %s '%s'\n", address,
                is_removed ? "removed the secret that login had kept in" : "the secret stays in its file,",
                host.secret_file);
    }
    return STATUS_OK;
}

/* --- fingerprint --- */

enum status run_fingerprint(const struct ctl_arguments *arguments)
{
    char seen[TLS_FINGERPRINT_BYTES];
    const char *to = arguments->value[CTL_OPTION_TO];
    if (to == NULL) {
        return ctl_become_trainerd(arguments, "--fingerprint", NULL);
    }
    if (ctl_given(arguments, CTL_OPTION_STATE)) {
        return status_fail(STATUS_USAGE, "fingerprint takes either --to or --state; see trainctl fingerprint --help");
    }
    enum status status = client_seen(to, seen);
    if (status == STATUS_OK && ctl_given(arguments, CTL_OPTION_JSON)) {
        json_t *value = json_pack("{s:s}", "fingerprint", seen);
        text_print_json(value);
        json_decref(value);
    } else if (status == STATUS_OK) {
        printf("%s\n", seen);
        fprintf(stderr, "trainctl: as it was seen from here: compare it; " DAEMON_SIDE "\n");
    }
    return status;
}
