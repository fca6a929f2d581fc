/* TLS over memory, the daemon's certificate, and a listener that gets bytes that are not TLS. */
#include "protocol/base/clock.h"
#include "tests/support/daemon/client.h"
#include "tests/support/daemon/server_case.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "trainerd/daemon/server/answer.h"
#include "trainerd/socket/tls.h"

#include <criterion/criterion.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECRET "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define MINE "0202020202020202020202020202020202020202020202020202020202020202"

static struct tls_identity *identity;

static void remove_all(void)
{
    tls_identity_close(identity);
    server_case_end();
}

TestSuite(tls, .init = server_case_begin, .fini = remove_all, .timeout = 900);

static void identity_make(void)
{
    enum status status = tls_identity_open(folder, true, &identity);
    expect_done(status);
}

/* --- two ends in memory --- */

/* Carry what one end has to the other, in pieces of n bytes (0: whole), with one byte changed (at the end; -1: none).
 */
static bool carry(struct tls *from, struct tls *to, size_t n_piece, long changed)
{
    size_t n;
    char *bytes = tls_take(from, &n);
    if (bytes != NULL && changed >= 0 && (size_t)changed < n) {
        bytes[n - 1 - (size_t)changed] ^= 1;
    }
    for (size_t at = 0, piece; bytes != NULL && at < n; at += piece) {
        bool done;
        piece = n_piece > 0 && n_piece < n - at ? n_piece : n - at;
        tls_feed(to, bytes + at, piece);
        if (tls_shake(to, &done) != STATUS_OK) {
            break;
        }
    }
    free(bytes);
    return bytes != NULL;
}

static void pair_open(struct tls **client, struct tls **daemon, size_t n_piece)
{
    bool here = false, there = false;
    *client = tls_open(NULL);
    *daemon = tls_open(identity);
    for (int i = 0; i < 10 && !(here && there); i++) {
        expect_done(tls_shake(*client, &here));
        carry(*client, *daemon, n_piece, -1);
        expect_done(tls_shake(*daemon, &there));
        carry(*daemon, *client, n_piece, -1);
    }
    cr_assert(here && there);
}

static void expect_text(struct tls *tls, const char *expected)
{
    size_t n_all = strlen(expected), at = 0, n;
    char *got = malloc(n_all + 1);
    do {
        expect_done(tls_read(tls, got + at, n_all + 1 - at, &n));
        at += n;
    } while (n > 0);
    cr_assert_eq(at, n_all);
    cr_assert_eq(memcmp(got, expected, n_all), 0);
    free(got);
}

Test(tls, what_one_end_writes_the_other_reads_in_pieces_of_any_size)
{
    static const size_t pieces[] = {0, 1, 7, 1000};
    char *large = malloc(100001);
    memset(large, 'x', 100000);
    large[100000] = '\0';
    identity_make();
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        struct tls *client, *daemon;
        pair_open(&client, &daemon, pieces[i]);
        cr_assert_str_eq(tls_fingerprint(client), tls_identity_fingerprint(identity),
                         "the client sees whose certificate it is");
        cr_assert_eq(tls_write(client, "question", 8), STATUS_OK);
        carry(client, daemon, pieces[i], -1);
        expect_text(daemon, "question");
        cr_assert_eq(tls_write(daemon, large, 100000), STATUS_OK);
        carry(daemon, client, pieces[i], -1);
        expect_text(client, large);
        cr_assert_not(tls_has_ended(client));
        tls_end(daemon);
        carry(daemon, client, pieces[i], -1);
        expect_text(client, "");
        cr_assert(tls_has_ended(client));
        tls_close(client);
        tls_close(daemon);
    }
    free(large);
}

Test(tls, a_byte_that_is_changed_on_the_way_ends_the_connection)
{
    struct tls *client, *daemon;
    char got[64];
    size_t n;
    identity_make();
    pair_open(&client, &daemon, 0);
    cr_assert_eq(tls_write(client, "question", 8), STATUS_OK);
    carry(client, daemon, 0, 3);
    cr_assert_eq(tls_read(daemon, got, sizeof got, &n), STATUS_PEER);
    cr_assert_eq(n, 0);
    tls_close(client);
    tls_close(daemon);
}

Test(tls, a_recorded_session_means_nothing_to_another_connection)
{
    struct tls *client, *daemon, *again;
    bool done = false;
    size_t n_hello, n_rest, n;
    char *answer;
    identity_make();
    client = tls_open(NULL);
    daemon = tls_open(identity);
    cr_assert_eq(tls_shake(client, &done), STATUS_OK);
    char *hello = tls_take(client, &n_hello);
    tls_feed(daemon, hello, n_hello);
    cr_assert_eq(tls_shake(daemon, &done), STATUS_OK);
    answer = tls_take(daemon, &n);
    tls_feed(client, answer, n);
    free(answer);
    cr_assert(tls_shake(client, &done) == STATUS_OK && done);
    cr_assert_eq(tls_write(client, "{\"cmd\":\"auth\"}\n", 15), STATUS_OK);
    char *rest = tls_take(client, &n_rest);
    tls_feed(daemon, rest, n_rest);
    cr_assert(tls_shake(daemon, &done) == STATUS_OK && done, "it was good once");
    again = tls_open(identity);
    tls_feed(again, hello, n_hello);
    cr_assert_eq(tls_shake(again, &done), STATUS_OK);
    tls_feed(again, rest, n_rest);
    cr_assert_eq(tls_shake(again, &done), STATUS_PEER);
    cr_assert_not(done);
    free(hello);
    free(rest);
    tls_close(again);
    tls_close(client);
    tls_close(daemon);
}

Test(tls, a_message_that_says_it_is_longer_than_any_is_not_waited_for)
{
    char record[5 + 512] = {
        TLS_RECORD_HANDSHAKE, 3, 1, 2, 0, 1, 0x20, 0, 0}; /* the first of 4096, of a message of 2 MiB */
    bool done = false;
    size_t n = 0;
    enum status status = STATUS_OK;
    identity_make();
    struct tls *daemon = tls_open(identity);
    for (; status == STATUS_OK && n < (1 << 20); n += sizeof record) {
        tls_feed(daemon, record, sizeof record);
        status = tls_shake(daemon, &done);
        memset(record + 5, 0, sizeof record - 5);
    }
    cr_assert_eq(status, STATUS_PEER, "%zu bytes are kept", n);
    cr_assert_leq(n, 140000);
    tls_close(daemon);
}

/* --- the certificate --- */

Test(tls, a_certificate_is_made_once_is_its_owners_alone_and_is_kept)
{
    struct stat about;
    struct tls_identity *second;
    char path[256];
    snprintf(path, sizeof path, "%s", folder_path(TLS_FILE));
    cr_assert_eq(tls_identity_open(folder, false, &second), STATUS_NO_INPUT);
    identity_make();
    cr_assert_eq(stat(path, &about), 0);
    cr_assert_eq(about.st_mode & 07777, 0600);
    cr_assert_eq(tls_identity_open(folder, true, &second), STATUS_OK);
    cr_assert_str_eq(tls_identity_fingerprint(identity), tls_identity_fingerprint(second));
    tls_identity_close(second);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(tls_identity_open(folder, true, &second), STATUS_OK);
    cr_assert_str_neq(tls_identity_fingerprint(identity), tls_identity_fingerprint(second), "another key");
    tls_identity_close(second);
}

Test(tls, a_certificate_that_others_can_read_or_that_is_broken_is_refused_and_kept)
{
    static char good[65536], other[65536];
    struct tls_identity *none;
    identity_make();
    cr_assert_eq(chmod(folder_path(TLS_FILE), 0640), 0);
    expect_fails(tls_identity_open(folder, true, &none), STATUS_CONFIG, "has mode 0640, expected 0600");
    folder_read(TLS_FILE, good, sizeof good);
    for (int i = 0; i < 3; i++) {
        const char *middle = strstr(good, "-----BEGIN CERTIFICATE");
        cr_assert_not_null(middle);
        snprintf(other, sizeof other, "%.*s",
                 i == 0   ? 0
                 : i == 1 ? (int)(middle - good)
                          : (int)strlen(good) - 60,
                 good);
        folder_write(TLS_FILE, other);
        cr_assert_eq(chmod(folder_path(TLS_FILE), 0600), 0);
        cr_assert_eq(tls_identity_open(folder, true, &none), STATUS_CONFIG, "%d", i);
        expect_reason("does not hold a private key with its certificate");
    }
    folder_write(TLS_FILE, good);
    cr_assert_eq(tls_identity_open(folder, true, &none), STATUS_OK);
    tls_identity_close(none);
}

Test(tls, a_fingerprint_is_64_digits_with_colons_or_without)
{
    char out[TLS_FINGERPRINT_BYTES], colons[100] = "";
    cr_assert(tls_fingerprint_read("00112233445566778899AABBCCDDEEFF00112233445566778899aabbccddeeff", out));
    cr_assert_str_eq(out, SECRET);
    for (int i = 0; i < 32; i++) {
        sprintf(colons + strlen(colons), "%s%.2s", i > 0 ? ":" : "", &SECRET[2 * i]);
    }
    cr_assert(tls_fingerprint_read(colons, out));
    cr_assert_str_eq(out, SECRET);
    cr_assert_not(tls_fingerprint_read("", out));
    cr_assert_not(tls_fingerprint_read("0011", out));
    cr_assert_not(tls_fingerprint_read(SECRET "0", out));
    cr_assert_not(tls_fingerprint_read(SECRET ":", out));
    cr_assert_not(tls_fingerprint_read("x" SECRET, out));
}

/* --- the listener --- */

static int n_request;

static void take_request(void *context, struct connection *connection, json_t *request)
{
    (void)context;
    n_request++;
    json_t *answer = answer_new(request);
    json_object_set_new(answer, "role", json_string(user_role_name(connection_role(connection))));
    json_object_set_new(answer, "user", json_string(connection_user(connection)));
    connection_send(connection, answer);
}

static char failed_reason[256];

static void see_failed(void *context, const struct connection *connection, const char *reason)
{
    (void)context;
    (void)connection;
    snprintf(failed_reason, sizeof failed_reason, "%s", reason);
}

/* The default user, and ada, bob and eve with roles of their own; they are of this process's user. */
static void users_write(const char *const roles[3])
{
    static const char *const names[] = {"ada", "bob", "eve"};
    char text[1024] = "";
    const struct passwd *self = getpwuid(geteuid());
    cr_assert_not_null(self);
    for (int i = 0; i < 3; i++) {
        if (roles[i] != NULL) {
            sprintf(text + strlen(text), "[%s]\nsecret = \"" SECRET "\"\nuser = \"%s\"\nrole = \"%s\"\n", names[i],
                    self->pw_name, roles[i]);
        }
    }
    folder_write("users.toml", text);
    cr_assert_eq(chmod(folder_path("users.toml"), 0600), 0);
}

static void open_port_for(double hello_s, int32_t n_most, int32_t n_most_of_uid)
{
    char users[256];
    users_write((const char *const[3]){"submit", "admin", "watch"});
    snprintf(users, sizeof users, "%s", folder_path("users.toml"));
    struct server_options options = server_case_options("tcp:127.0.0.1:0", n_most);
    options.n_most_of_uid = n_most_of_uid;
    options.users_file = users;
    options.tls_folder = folder;
    options.hello_s = hello_s;
    server_case_open(&options, (struct server_handler){take_request, NULL, NULL, NULL, see_failed});
}

static void open_port(double hello_s, int32_t n_most)
{
    open_port_for(hello_s, n_most, n_most);
}

/* A client's socket with TLS over it. */
struct far {
    struct client client;
    struct tls *tls;
    char line[4096];
};

static void far_flush(struct far *far)
{
    size_t n;
    char *bytes = tls_take(far->tls, &n);
    if (bytes != NULL) {
        client_send_bytes(&far->client, bytes, n);
        free(bytes);
    }
}

/* Feed what has come; false: the server has closed the connection. */
static bool far_turn(struct far *far, double since_s)
{
    char bytes[4096];
    ssize_t n = recv(far->client.file, bytes, sizeof bytes, 0);
    if (n > 0) {
        tls_feed(far->tls, bytes, (size_t)n);
    } else if (n == 0) {
        return false;
    } else {
        turn(since_s);
    }
    return true;
}

static void far_open(struct far *far)
{
    bool done = false;
    double since_s = clock_s();
    *far = (struct far){.tls = tls_open(NULL)};
    client_open(&far->client, server_address(server));
    for (;;) {
        expect_done(tls_shake(far->tls, &done));
        far_flush(far);
        if (done) {
            break;
        }
        cr_assert(far_turn(far, since_s));
    }
    cr_assert_str_eq(tls_fingerprint(far->tls), server_fingerprint(server));
}

static void far_close(struct far *far)
{
    client_close(&far->client);
    tls_close(far->tls);
}

/* Send a line, and read one; NULL: the connection has ended. */
static json_t *far_ask(struct far *far, const char *text)
{
    size_t at = 0, n;
    double since_s = clock_s();
    if (text != NULL) {
        cr_assert_eq(tls_write(far->tls, text, strlen(text)), STATUS_OK);
        cr_assert_eq(tls_write(far->tls, "\n", 1), STATUS_OK);
        far_flush(far);
    }
    for (;;) {
        expect_done(tls_read(far->tls, far->line + at, sizeof far->line - 1 - at, &n));
        at += n;
        if (at > 0 && far->line[at - 1] == '\n') {
            far->line[at] = '\0';
            return json_loads(far->line, 0, NULL);
        }
        if (tls_has_ended(far->tls) || (n == 0 && !far_turn(far, since_s))) {
            return NULL;
        }
    }
}

/* Log in with a proof for this certificate; the answer. */
static json_t *far_login(struct far *far, const char *user, const char *fingerprint)
{
    struct auth_secret secret;
    char text[512], proof[AUTH_TEXT_BYTES];
    json_t *hello = far_ask(far, "{\"v\":1,\"id\":1,\"cmd\":\"hello\"}");
    cr_assert(auth_secret_read(SECRET, &secret));
    const struct auth_login login = {json_string_value(json_object_get(hello, "nonce")), MINE, fingerprint, user};
    expect_done(auth_proof(&secret, AUTH_ROLE_CLIENT, &login, proof));
    snprintf(text, sizeof text,
             "{\"v\":1,\"id\":2,\"cmd\":\"auth\",\"user\":\"%s\",\"nonce\":\"%s\",\"proof\":\"%s\"}", user, MINE,
             proof);
    json_t *answer = far_ask(far, text);
    json_decref(hello);
    return answer;
}

static void expect_ok(json_t *answer, bool ok)
{
    cr_assert_not_null(answer);
    cr_assert_eq(json_is_true(json_object_get(answer, "ok")), ok, "%s",
                 json_string_value(json_object_get(answer, "error")));
    json_decref(answer);
}

Test(tls, a_login_that_is_passed_on_from_another_certificate_is_refused)
{
    struct far far;
    open_port(100, 10);
    far_open(&far);
    expect_ok(far_login(&far, "ada", MINE), false);
    cr_assert_str_eq(failed_reason, "its proof is not that of the secret of user 'ada'");
    far_close(&far);
    far_open(&far);
    expect_ok(far_login(&far, "ada", ""), false);
    far_close(&far);
    cr_assert_eq(n_request, 0);
}

Test(tls, a_name_that_there_is_not_is_refused_as_a_wrong_secret_is_and_named_in_the_log)
{
    struct far far;
    open_port(100, 10);
    far_open(&far);
    json_t *answer = far_login(&far, "mallory", server_fingerprint(server));
    cr_assert_not_null(strstr(json_string_value(json_object_get(answer, "error")), "the secret is not proved"));
    json_decref(answer);
    cr_assert_str_eq(failed_reason, "there is no user 'mallory'");
    far_close(&far);
    far_open(&far);
    expect_ok(far_login(&far, "a\\nb\\u001b", server_fingerprint(server)), false);
    cr_assert_str_eq(failed_reason, "there is no user 'a\\x0ab\\x1b'");
    far_close(&far);
}

Test(tls, bytes_that_are_no_handshake_end_their_connection_alone)
{
    struct far good;
    static char bytes[200000];
    open_port(100, 10);
    for (unsigned i = 0; i < 40; i++) {
        struct client client;
        unsigned state = i + 1;
        for (size_t at = 0; at < sizeof bytes; at++) {
            state = state * 1103515245u + 12345u;
            bytes[at] = (char)(state >> 16);
        }
        bytes[0] = TLS_RECORD_HANDSHAKE;
        memcpy(bytes + 3, (const char[]){2, 0},
               2); /* a length that is there; some messages in it have one that is not */
        if (i % 2 == 0) {
            memcpy(bytes + 1, (const char[]){3, 1}, 2); /* and a version */
        }
        client_open(&client, server_address(server));
        client_send_bytes(&client, bytes, sizeof bytes);
        client_expect_end(&client);
        client_close(&client);
    }
    far_open(&good);
    expect_ok(far_login(&good, "ada", server_fingerprint(server)), true);
    far_close(&good);
}

Test(tls, a_client_that_never_finishes_the_handshake_is_dropped_in_time)
{
    struct client client;
    bool done;
    size_t n;
    open_port(0.3, 10);
    struct tls *tls = tls_open(NULL);
    cr_assert_eq(tls_shake(tls, &done), STATUS_OK);
    char *bytes = tls_take(tls, &n);
    client_open(&client, server_address(server));
    client_send_bytes(&client, bytes, n / 2); /* half of its first message */
    client_expect_end(&client);
    client_close(&client);
    client_open(&client, server_address(server));
    client_send_bytes(&client, bytes, n); /* all of it, and never its last */
    client_expect_end(&client);
    client_close(&client);
    free(bytes);
    tls_close(tls);
}

Test(tls, clients_in_a_handshake_keep_no_other_out)
{
    struct client half[6];
    struct far good;
    bool done;
    size_t n;
    open_port(100, 3);
    struct tls *tls = tls_open(NULL);
    cr_assert_eq(tls_shake(tls, &done), STATUS_OK);
    char *bytes = tls_take(tls, &n);
    for (int i = 0; i < 6; i++) {
        client_open(&half[i], server_address(server));
        client_send_bytes(&half[i], bytes, n / 2);
    }
    far_open(&good);
    expect_ok(far_login(&good, "ada", server_fingerprint(server)), true);
    far_close(&good);
    for (int i = 0; i < 6; i++) {
        client_close(&half[i]);
    }
    free(bytes);
    tls_close(tls);
}

Test(tls, one_user_has_no_more_connections_than_that_after_logging_in_too)
{
    struct far far[4];
    open_port_for(100, 20, 3);
    for (int i = 0; i < 4; i++) {
        far_open(&far[i]);
        expect_ok(far_login(&far[i], "ada", server_fingerprint(server)), i < 3);
    }
    for (int i = 0; i < 4; i++) {
        far_close(&far[i]);
    }
}

Test(tls, users_that_are_gone_after_a_reload_are_disconnected_and_others_stay)
{
    struct far ada, bob;
    static const char *const later[3] = {NULL, "admin", "watch"};
    open_port(100, 10);
    far_open(&ada);
    far_open(&bob);
    expect_ok(far_login(&ada, "ada", server_fingerprint(server)), true);
    expect_ok(far_login(&bob, "bob", server_fingerprint(server)), true);
    folder_write("users.toml", "nonsense");
    cr_assert_eq(server_reload(server), STATUS_CONFIG);
    expect_ok(far_ask(&ada, "{\"v\":1,\"cmd\":\"anything\"}"), true);
    users_write(later);
    expect_done(server_reload(server));
    json_t *answer = far_ask(&ada, NULL);
    cr_assert_not_null(strstr(json_string_value(json_object_get(answer, "error")), "user 'ada' is not as it was"));
    json_decref(answer);
    cr_assert_null(far_ask(&ada, NULL));
    expect_ok(far_ask(&bob, "{\"v\":1,\"cmd\":\"anything\"}"), true);
    far_close(&ada);
    far_close(&bob);
}
