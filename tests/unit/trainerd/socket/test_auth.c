/* The shared secret: its file, its proofs, and strangers on a TCP port. */
#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "tests/support/daemon/client.h"
#include "tests/support/daemon/server_case.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"
#include "trainerd/daemon/server/answer.h"
#include "trainerd/socket/auth.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECRET "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define NONCE_A "0101010101010101010101010101010101010101010101010101010101010101"
#define NONCE_B "0202020202020202020202020202020202020202020202020202020202020202"
#define PRINT_C "0303030303030303030303030303030303030303030303030303030303030303"

static const struct auth_login login = {NONCE_A, NONCE_B, PRINT_C, "ada"};

static int n_request;

static void secret_write(const char *text)
{
    folder_write("secret", text);
    cr_assert_eq(chmod(folder_path("secret"), 0600), 0);
}

static void make_all(void)
{
    server_case_begin();
    secret_write(SECRET "\n");
}

TestSuite(auth, .init = make_all, .fini = server_case_end, .timeout = 900);

static void expect_refusal(enum status expected, const char *part)
{
    struct auth_secret secret;
    enum status status = auth_secret_load(folder_path("secret"), &secret);
    cr_assert_eq(status, expected, "%s", status_reason());
    cr_assert_not_null(strstr(status_reason(), part), "'%s' is not in: %s", part, status_reason());
    cr_assert_null(strstr(status_reason(), "0011"), "the secret is in: %s", status_reason());
}

Test(auth, a_secret_file_is_refused_unless_it_is_its_owners_alone_and_whole)
{
    struct auth_secret secret;
    cr_assert_eq(auth_secret_load(folder_path("secret"), &secret), STATUS_OK);
    secret_write(SECRET "00");
    expect_refusal(STATUS_CONFIG, "does not hold 64 hexadecimal digits");
    secret_write("001122");
    expect_refusal(STATUS_CONFIG, "does not hold 64 hexadecimal digits");
    secret_write("zz" SECRET);
    expect_refusal(STATUS_CONFIG, "does not hold 64 hexadecimal digits");
    secret_write(SECRET);
    cr_assert_eq(auth_secret_load(folder_path("secret"), &secret), STATUS_OK);
    cr_assert_eq(chmod(folder_path("secret"), 0640), 0);
    expect_refusal(STATUS_CONFIG, "has mode 0640, expected 0600");
    cr_assert_eq(unlink(folder_path("secret")), 0);
    expect_refusal(STATUS_NO_INPUT, "secret");
}

Test(auth, a_proof_is_the_keyed_hash_of_role_both_numbers_certificate_and_user)
{
    struct auth_secret secret;
    char proof[AUTH_TEXT_BYTES];
    cr_assert_eq(auth_secret_load(folder_path("secret"), &secret), STATUS_OK);
    cr_assert_eq(auth_proof(&secret, AUTH_ROLE_CLIENT, &login, proof), STATUS_OK);
    /* hmac.new(secret, b"trainerd-2-client" + a + b + c + b"ada", "sha512").hexdigest()[:64] in Python */
    cr_assert_str_eq(proof, "0f9cf22702dd42017674991364fee69e030db216b61af5f6907b1c974bcdd3dd");
}

Test(auth, a_proof_is_good_for_its_role_numbers_certificate_user_and_secret_alone)
{
    struct auth_secret secret, other;
    char proof[AUTH_TEXT_BYTES];
    static const struct auth_login others[] = {{NONCE_B, NONCE_A, PRINT_C, "ada"}, {NONCE_A, "", PRINT_C, "ada"},
                                               {NONCE_A, NONCE_B, NONCE_A, "ada"}, {NONCE_A, NONCE_B, "", "ada"},
                                               {NONCE_A, NONCE_B, PRINT_C, "adb"}, {NONCE_A, NONCE_B, PRINT_C, ""}};
    static const struct auth_login bad[] = {{"xy", NONCE_B, "", ""},
                                            {NONCE_A, NONCE_B, "xy", ""},
                                            {NONCE_A, NONCE_B, "", "a-name-of-three-and-thirty-bytes-x"}};
    cr_assert_eq(auth_secret_load(folder_path("secret"), &secret), STATUS_OK);
    other = secret;
    other.bytes[31] ^= 1;
    cr_assert_eq(auth_proof(&secret, AUTH_ROLE_CLIENT, &login, proof), STATUS_OK);
    cr_assert(auth_is_proof(&secret, AUTH_ROLE_CLIENT, &login, proof));
    cr_assert_not(auth_is_proof(&secret, AUTH_ROLE_SERVER, &login, proof));
    cr_assert_not(auth_is_proof(&other, AUTH_ROLE_CLIENT, &login, proof));
    cr_assert_not(auth_is_proof(&secret, AUTH_ROLE_CLIENT, &login, ""));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        cr_assert_not(auth_is_proof(&secret, AUTH_ROLE_CLIENT, &others[i], proof), "%zu", i);
    }
    proof[63] = proof[63] == '0' ? '1' : '0';
    cr_assert_not(auth_is_proof(&secret, AUTH_ROLE_CLIENT, &login, proof));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_eq(auth_proof(&secret, AUTH_ROLE_CLIENT, &bad[i], proof), STATUS_USAGE, "%zu", i);
    }
}

static void take_request(void *context, struct connection *connection, json_t *request)
{
    (void)context;
    n_request++;
    json_t *answer = answer_new(request);
    json_object_set_new(answer, "uid", json_integer(connection_uid(connection)));
    json_object_set_new(answer, "admin", json_boolean(connection_is_admin(connection)));
    connection_send(connection, answer);
}

static int n_failed;
static char failed_from[CONNECTION_FROM_BYTES], failed_reason[128];

static void see_failed(void *context, const struct connection *connection, const char *reason)
{
    (void)context;
    n_failed++;
    connection_from(connection, failed_from);
    snprintf(failed_reason, sizeof failed_reason, "%s", reason);
}

static void open_port(double hello_s)
{
    char path[128];
    snprintf(path, sizeof path, "%s", folder_path("secret"));
    struct server_options options = server_case_options("tcp:127.0.0.1:0", 10);
    options.secret_file = path;
    options.tcp_uid = 4711;
    options.hello_s = hello_s;
    server_case_open(&options, (struct server_handler){take_request, NULL, NULL, NULL, see_failed});
}

/* Send a request, made by a format; its answer. The caller owns it. */
#define ASK(client, ...)                                                                                             \
    (snprintf(sent, sizeof sent, __VA_ARGS__), strcat(sent, "\n"), client_send(client, sent),                        \
     answer_read(client_line(client)))
static char sent[512];

static json_t *answer_read(const char *line)
{
    json_t *answer = line == NULL ? NULL : json_loads(line, 0, NULL);
    cr_assert_not_null(answer, "%s", line != NULL ? line : "no answer");
    return answer;
}

static bool is_ok(json_t *answer)
{
    bool ok = json_is_true(json_object_get(answer, "ok"));
    json_decref(answer);
    return ok;
}

/* The number the server sends; the proof of it for another number. */
static void greet(struct client *client, const char *mine, char nonce[AUTH_TEXT_BYTES], char proof[AUTH_TEXT_BYTES])
{
    struct auth_secret secret;
    json_t *hello = ASK(client, "{\"v\":1,\"cmd\":\"hello\"}");
    snprintf(nonce, AUTH_TEXT_BYTES, "%s", json_string_value(json_object_get(hello, "nonce")));
    json_decref(hello);
    cr_assert_eq(auth_secret_load(folder_path("secret"), &secret), STATUS_OK);
    cr_assert_eq(auth_proof(&secret, AUTH_ROLE_CLIENT, &(struct auth_login){nonce, mine, "", ""}, proof), STATUS_OK);
}

Test(auth, who_proves_the_secret_is_served_as_the_user_for_tcp_and_sees_the_daemons_proof)
{
    struct client client;
    struct auth_secret secret;
    char nonce[AUTH_TEXT_BYTES], proof[AUTH_TEXT_BYTES];
    open_port(100);
    client_open(&client, server_address(server));
    greet(&client, NONCE_B, nonce, proof);
    json_t *answer = ASK(&client, "{\"v\":1,\"cmd\":\"auth\",\"nonce\":\"%s\",\"proof\":\"%s\"}", NONCE_B, proof);
    cr_assert_eq(auth_secret_load(folder_path("secret"), &secret), STATUS_OK);
    cr_assert(auth_is_proof(&secret, AUTH_ROLE_SERVER, &(struct auth_login){nonce, NONCE_B, "", ""},
                            json_string_value(json_object_get(answer, "proof"))));
    json_decref(answer);
    answer = ASK(&client, "{\"v\":1,\"cmd\":\"status\"}");
    cr_assert_eq(json_integer_value(json_object_get(answer, "uid")), 4711);
    cr_assert(json_is_false(json_object_get(answer, "admin")));
    json_decref(answer);
    client_close(&client);
}

Test(auth, nothing_is_served_before_the_secret_is_proved)
{
    struct client client;
    open_port(100);
    client_open(&client, server_address(server));
    cr_assert_not(is_ok(ASK(&client, "{\"v\":1,\"cmd\":\"status\"}")));
    cr_assert_not(
        is_ok(ASK(&client, "{\"v\":1,\"cmd\":\"auth\",\"nonce\":\"%s\",\"proof\":\"%s\"}", NONCE_A, NONCE_B)));
    cr_assert_null(client_line(&client));
    client_close(&client);
    char line[2002];
    memset(line, ' ', 2000);
    strcpy(line + 2000, "\n");
    client_open(&client, server_address(server));
    client_send(&client, line);
    cr_assert_not_null(strstr(client_line(&client), "longer than 1024 bytes"));
    client_close(&client);
    cr_assert_eq(n_request, 0);
}

Test(auth, failed_logins_are_logged_with_their_address_ten_a_minute)
{
    static char text[1 << 16];
    int n_line = 0;
    open_port(100);
    expect_done(log_to(folder_path("log")));
    for (int i = 0; i < 13; i++) {
        struct client client;
        char nonce[AUTH_TEXT_BYTES], proof[AUTH_TEXT_BYTES];
        client_open(&client, server_address(server));
        greet(&client, NONCE_B, nonce, proof);
        cr_assert_not(
            is_ok(ASK(&client, "{\"v\":1,\"cmd\":\"auth\",\"nonce\":\"%s\",\"proof\":\"%s\"}", NONCE_B, NONCE_A)));
        client_close(&client);
    }
    folder_read("log", text, sizeof text);
    for (const char *at = text; (at = strstr(at, "a login from 127.0.0.1 port ")) != NULL; at++) {
        n_line++;
    }
    cr_assert_eq(n_line, 10, "%s", text);
    cr_assert_eq(n_failed, 10, "as often as it is in the log");
    cr_assert_eq(strncmp(failed_from, "127.0.0.1 port ", 15), 0, "%s", failed_from);
    cr_assert_str_eq(failed_reason, "its proof is not the secret's");
    cr_assert_null(strstr(text, NONCE_A), "no proof is in the log");
}

Test(auth, a_proof_that_was_heard_is_refused_the_second_time)
{
    struct client first, second;
    char nonce[AUTH_TEXT_BYTES], proof[AUTH_TEXT_BYTES], fresh[AUTH_TEXT_BYTES], unused[AUTH_TEXT_BYTES];
    open_port(100);
    client_open(&first, server_address(server));
    greet(&first, NONCE_B, nonce, proof);
    cr_assert(is_ok(ASK(&first, "{\"v\":1,\"cmd\":\"auth\",\"nonce\":\"%s\",\"proof\":\"%s\"}", NONCE_B, proof)));
    client_open(&second, server_address(server));
    greet(&second, NONCE_B, fresh, unused);
    cr_assert_str_neq(fresh, nonce);
    cr_assert_not(
        is_ok(ASK(&second, "{\"v\":1,\"cmd\":\"auth\",\"nonce\":\"%s\",\"proof\":\"%s\"}", NONCE_B, proof)));
    cr_assert_null(client_line(&second));
    client_close(&first);
    client_close(&second);
}

Test(auth, a_stranger_who_asks_again_and_again_is_dropped_when_its_time_is_over)
{
    struct client client;
    open_port(0.2);
    client_open(&client, server_address(server));
    double since_s = clock_s();
    while (!client.is_closed && clock_s() - since_s < PATIENCE_S) {
        client_send(&client, "{\"v\":1,\"cmd\":\"hello\"}\n");
        client_line(&client);
    }
    cr_assert(client.is_closed);
    client_close(&client);
}
