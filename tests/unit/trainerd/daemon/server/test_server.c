/* The server and hostile clients: every limit refuses with a reason, and nobody is held up by anybody else. */
#include "protocol/base/clock.h"
#include "tests/support/daemon/client.h"
#include "tests/support/daemon/server_case.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "trainerd/daemon/server/answer.h"
#include "trainerd/daemon/server/server.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define FRAME_BYTES 4096u

static int n_request, n_closed, n_drained;
static uint64_t moved_ns, request_ns; /* of a clock that goes on with each request alone */
static struct connection *follower;   /* the one that "follow" came from */

/* hello: an answer · big: one of 100 kB · follow: nothing yet, held · flood: more than may wait. */
static void take_request(void *context, struct connection *connection, json_t *request)
{
    (void)context;
    n_request++;
    moved_ns += request_ns;
    const char *command = json_string_value(json_object_get(request, "cmd"));
    json_t *answer = answer_new(request);
    if (command != NULL && strcmp(command, "follow") == 0) {
        follower = connection;
        connection_hold(connection, true);
        json_decref(answer);
        return;
    }
    if (command != NULL && strcmp(command, "big") == 0) {
        char *text = malloc(100001);
        memset(text, 'x', 100000);
        text[100000] = '\0';
        json_object_set_new(answer, "text", json_string(text));
        free(text);
    }
    if (command != NULL && strcmp(command, "flood") == 0) {
        while (connection_send(connection, json_pack("{s:s}", "flood", "0123456789012345678901234567890123456789"))) {
        }
    }
    json_object_set_new(answer, "uid", json_integer(connection_uid(connection)));
    json_object_set_new(answer, "admin", json_boolean(connection_is_admin(connection)));
    connection_send(connection, answer);
}

static void see_closed(void *context, struct connection *connection)
{
    (void)context;
    n_closed++;
    follower = connection == follower ? NULL : follower;
}

static void see_drained(void *context, struct connection *connection)
{
    (void)context;
    (void)connection;
    n_drained++;
}

static const struct server_handler handler = {take_request, see_closed, see_drained, NULL, NULL};

static struct server_options usual(void)
{
    struct server_options options = server_case_options("", 40);
    options.n_most_of_uid = 30;
    options.n_most_frame = FRAME_BYTES;
    return options;
}

static void open_with(struct server_options options)
{
    char text[128];
    snprintf(text, sizeof text, "unix:%s/socket", folder);
    options.address = text;
    server_case_open(&options, handler);
}

TestSuite(server, .init = server_case_begin, .fini = server_case_end, .timeout = 900);

#define EXPECT_IN(text, part)                                                                                        \
    do {                                                                                                             \
        const char *said = (text);                                                                                   \
        cr_assert(said != NULL && strstr(said, part) != NULL, "'%s' is not in: %s", part, said ? said : "-");        \
    } while (0)
#define ASK(client, text, part)                                                                                      \
    do {                                                                                                             \
        client_send(client, text "\n");                                                                              \
        EXPECT_IN(client_line(client), part);                                                                        \
    } while (0)

/* One that behaves is served. */
static void expect_service(void)
{
    struct client good;
    client_open(&good, server_address(server));
    ASK(&good, "{\"v\":1,\"id\":7,\"cmd\":\"hello\"}", "{\"id\":7,\"ok\":true");
    client_close(&good);
}

Test(server, a_request_is_answered_under_its_id_to_the_user_whose_socket_it_is)
{
    open_with(usual());
    struct client client;
    char uid[32];
    snprintf(uid, sizeof uid, "\"uid\":%u", (unsigned)geteuid());
    client_open(&client, server_address(server));
    ASK(&client, "{\"v\":1,\"id\":\"a b\",\"cmd\":\"hello\"}", "{\"id\":\"a b\",\"ok\":true");
    ASK(&client, "{\"v\":1,\"cmd\":\"hello\"}\r", "{\"id\":null,\"ok\":true");
    ASK(&client, "{\"v\":1,\"cmd\":\"hello\"}", uid);
    client_close(&client);
}

Test(server, requests_in_one_piece_are_answered_in_their_order)
{
    open_with(usual());
    struct client client;
    client_open(&client, server_address(server));
    char text[200 * 40] = "";
    for (int i = 0; i < 200; i++) {
        sprintf(text + strlen(text), "{\"v\":1,\"id\":%d}\n", i);
    }
    client_send(&client, text);
    for (int i = 0; i < 200; i++) {
        char id[32];
        snprintf(id, sizeof id, "{\"id\":%d,", i);
        EXPECT_IN(client_line(&client), id);
    }
    client_close(&client);
}

Test(server, a_request_that_comes_byte_by_byte_is_answered_and_holds_up_nobody)
{
    open_with(usual());
    struct client slow;
    client_open(&slow, server_address(server));
    const char *text = "{\"v\":1,\"id\":1,\"cmd\":\"hello\"}\n";
    for (; *text != '\0'; text++) {
        client_send_bytes(&slow, text, 1);
        turn(clock_s());
        if (text[1] == '\n') {
            cr_assert_eq(n_request, 0);
            expect_service();
        }
    }
    EXPECT_IN(client_line(&slow), "\"ok\":true");
    client_close(&slow);
}

Test(server, what_is_no_request_is_refused_with_the_reason_and_the_next_is_taken)
{
    open_with(usual());
    struct client client;
    client_open(&client, server_address(server));
    ASK(&client, "", "not JSON");
    ASK(&client, "nonsense", "not JSON at byte");
    ASK(&client, "{\"v\":1,\"id\":5", "not JSON at byte 13");
    ASK(&client, "{\"v\":1}}", "not JSON at byte 8");
    ASK(&client, "[1]", "not an object, expected {");
    ASK(&client, "{\"v\":1,\"id\":3,\"id\":4}", "duplicate object key");
    ASK(&client, "{\"v\":1,\"cmd\":\"\xff\xfe\"}", "unable to decode byte 0xff");
    ASK(&client, "{\"v\":1,\"cmd\":\"\\u0000\"}", "\\\\u0000");
    ASK(&client, "{\"v\":2,\"id\":8}",
        "{\"id\":8,\"ok\":false,\"exit_code\":2,\"error\":\"the client speaks version 2 of the protocol, this "
        "daemon version 1: use the trainctl or the Python package of trainerd 0.");
    ASK(&client, "{\"v\":1,\"id\":[8]}", "{\"id\":null,\"ok\":false,\"exit_code\":2,\"error\":\"id is neither");
    ASK(&client, "{\"v\":1,\"id\":1e999}", "real number overflow");
    cr_assert_eq(n_request, 0);
    ASK(&client, "{\"v\":1,\"id\":9}", "{\"id\":9,\"ok\":true");
    client_close(&client);
}

Test(server, what_is_nested_deep_or_has_many_values_is_refused_before_it_is_parsed)
{
    struct server_options options = usual();
    options.n_most_frame = 1u << 20;
    open_with(options);
    struct client client;
    static char text[200002];
    memset(text, '[', 100000);
    strcpy(text + 100000, "\n");
    client_open(&client, server_address(server));
    client_send(&client, text);
    EXPECT_IN(client_line(&client), "nested more than 16 deep at byte 17");
    strcpy(text, "{\"v\":1,\"a\":[0");
    for (size_t n = strlen(text), i = 0; i < 20000; i++, n += 2) {
        strcpy(text + n, ",0");
    }
    strcat(text, "]}\n");
    client_send(&client, text);
    EXPECT_IN(client_line(&client), "more than 10000 values at byte");
    ASK(&client, "{\"v\":1,\"id\":\"[[[[[[[[[[[[[[[[[[[\\\"\"}", "\"ok\":true");
    client_close(&client);
}

Test(server, a_request_beyond_the_limit_is_refused_when_its_first_bytes_show_it)
{
    open_with(usual());
    struct client client;
    static char text[8 * FRAME_BYTES];
    memset(text, 'x', sizeof text);
    client_open(&client, server_address(server));
    client_send_bytes(&client, text, sizeof text); /* no end of a line anywhere */
    EXPECT_IN(client_line(&client), "longer than 4096 bytes");
    cr_assert_null(client_line(&client));
    client_close(&client);
    expect_service();
}

Test(server, who_asks_nothing_in_time_is_told_and_dropped)
{
    struct server_options options = usual();
    options.hello_s = 0.2;
    open_with(options);
    struct client silent, slow;
    client_open(&silent, server_address(server));
    client_open(&slow, server_address(server));
    for (int i = 0; !slow.is_closed && i < 10; i++) {
        client_send(&slow, "{");
    }
    EXPECT_IN(client_line(&silent), "\"exit_code\":69,\"error\":\"no valid request within 0.2 s");
    EXPECT_IN(client_line(&slow), "no valid request within 0.2 s");
    cr_assert_null(client_line(&silent));
    cr_assert_null(client_line(&slow));
    client_close(&silent);
    client_close(&slow);
}

Test(server, who_asks_no_more_is_dropped_but_not_while_an_answer_is_under_way)
{
    struct server_options options = usual();
    options.idle_s = 0.2;
    open_with(options);
    struct client idle, waiting;
    client_open(&waiting, server_address(server));
    client_send(&waiting, "{\"v\":1,\"id\":1,\"cmd\":\"follow\"}\n");
    client_open(&idle, server_address(server));
    ASK(&idle, "{\"v\":1}", "true");
    EXPECT_IN(client_line(&idle), "no request for 0.2 s");
    cr_assert_null(client_line(&idle));
    client_close(&idle);
    double since_s = clock_s();
    await(clock_s() - since_s >= 0.5);
    cr_assert_not_null(follower);
    connection_hold(follower, false);
    EXPECT_IN(client_line(&waiting), "no request for 0.2 s");
    client_close(&waiting);
}

Test(server, silent_clients_make_room_for_those_that_ask)
{
    struct server_options options = usual();
    options.n_most_of_uid = 5;
    open_with(options);
    struct client first, silent[20];
    client_open(&first, server_address(server));
    ASK(&first, "{\"v\":1}", "true");
    for (int i = 0; i < 20; i++) {
        client_open(&silent[i], server_address(server));
        turn(clock_s());
    }
    EXPECT_IN(client_line(&silent[0]), "evicted for another client");
    expect_service();
    ASK(&first, "{\"v\":1}", "true");
    client_close(&first);
    for (int i = 0; i < 20; i++) {
        client_close(&silent[i]);
    }
}

Test(server, one_client_too_many_is_told_so)
{
    struct server_options options = usual();
    options.n_most_of_uid = 3;
    open_with(options);
    struct client busy[3], last;
    for (int i = 0; i < 3; i++) {
        client_open(&busy[i], server_address(server));
        ASK(&busy[i], "{\"v\":1}", "true");
    }
    client_open(&last, server_address(server));
    EXPECT_IN(client_line(&last), "has 3 connections, the most that are accepted");
    cr_assert_null(client_line(&last));
    client_close(&last);
    client_close(&busy[0]);
    await(n_closed != 0);
    expect_service();
    client_close(&busy[1]);
    client_close(&busy[2]);
}

/* Connect as that user. */
static void open_as(struct client *client, uid_t uid)
{
    cr_assert_eq(seteuid(uid), 0);
    client_open(client, server_address(server));
    cr_assert_eq(seteuid(0), 0);
}

Test(server, users_who_take_all_connections_keep_no_other_out)
{
    enum { N_MOST = 8, N_OF_UID = 4 };
    need_root();
    struct server_options options = usual();
    options.n_most_connection = N_MOST;
    options.n_most_of_uid = N_OF_UID;
    open_with(options);
    cr_assert_eq(chmod(folder, 0777), 0);
    struct client greedy[N_MOST], root, third;
    for (int i = 0; i < N_MOST; i++) {
        open_as(&greedy[i], i < N_OF_UID ? 1001 : 1002);
        ASK(&greedy[i], "{\"v\":1}", "true");
    }
    open_as(&root, 0);
    ASK(&root, "{\"v\":1}", "\"admin\":true");
    EXPECT_IN(client_line(&greedy[N_OF_UID]), "evicted for another user, who has fewer of the 8 connections");
    open_as(&third, 1003);
    ASK(&third, "{\"v\":1}", "\"uid\":1003");
    EXPECT_IN(client_line(&greedy[0]), "evicted for another user");
    for (int i = 0; i < 3; i++) { /* those who have most can take no more from each other than that leaves them */
        ASK(&greedy[i + 1], "{\"v\":1}", "true");
        ASK(&greedy[N_OF_UID + i + 1], "{\"v\":1}", "true");
    }
    struct client again;
    open_as(&again, 1001);
    EXPECT_IN(client_line(&again), "8 clients are connected, the most that are accepted");
    client_close(&again);
    client_close(&root);
    client_close(&third);
    for (int i = 0; i < N_MOST; i++) {
        client_close(&greedy[i]);
    }
}

static uint64_t now_ns(void)
{
    return moved_ns;
}

Test(server, a_user_who_pipelines_on_many_connections_delays_another_by_one_slice_of_time)
{
    enum { N_BUSY = 100, N_PIPELINED = 20 };
    need_root();
    struct server_options options = usual();
    options.n_most_connection = options.n_most_of_uid = 2 * N_BUSY;
    options.now_ns = now_ns;
    request_ns = 1000000;
    open_with(options);
    cr_assert_eq(chmod(folder, 0777), 0);
    struct client busy[N_BUSY], root;
    open_as(&root, 0);
    ASK(&root, "{\"v\":1}", "true");
    for (int i = 0; i < N_BUSY; i++) {
        open_as(&busy[i], 1001);
        ASK(&busy[i], "{\"v\":1}", "true");
    }
    for (int i = 0; i < N_BUSY * N_PIPELINED; i++) {
        client_send(&busy[i % N_BUSY], "{\"v\":1}\n");
    }
    while (n_request < N_BUSY * 4) { /* it has more to do than there is time for */
        turn(clock_s());
    }
    n_request = 0;
    ASK(&root, "{\"v\":1}", "\"admin\":true");
    cr_assert_leq(n_request, 4 * TURNS_SLICE_NS / 1000000, "root waited for %d requests", n_request);
    client_close(&root);
    for (int i = 0; i < N_BUSY; i++) {
        client_close(&busy[i]);
    }
}

Test(server, a_client_that_never_reads_is_asked_no_further_and_then_dropped)
{
    struct server_options options = usual();
    options.n_most_unread = 1u << 26; /* more than it could ever leave unread: it is not this that ends it */
    options.idle_s = 0.5;
    open_with(options);
    struct client greedy;
    client_open(&greedy, server_address(server));
    for (int i = 0; i < 50; i++) {
        client_send(&greedy, "{\"v\":1,\"cmd\":\"big\"}\n");
    }
    await(n_request != 0);
    expect_service();
    await(n_closed >= 2);
    cr_assert_lt(n_request, 20, "%d requests were answered", n_request);
    client_close(&greedy);
}

Test(server, a_slow_reader_gets_all_it_asked_for)
{
    open_with(usual());
    struct client slow;
    client_open(&slow, server_address(server));
    for (int i = 0; i < 50; i++) {
        client_send(&slow, "{\"v\":1,\"cmd\":\"big\"}\n");
    }
    for (int i = 0; i < 50; i++) {
        const char *line = client_line(&slow);
        cr_assert(line != NULL && strlen(line) > 100000);
    }
    cr_assert_eq(n_closed, 0);
    cr_assert_gt(n_drained, 0);
    client_close(&slow);
}

Test(server, a_sender_is_told_when_more_than_may_wait_would_wait)
{
    open_with(usual());
    struct client client;
    client_open(&client, server_address(server));
    client_send(&client, "{\"v\":1,\"cmd\":\"flood\"}\n");
    await(n_closed != 0);
    client_expect_end(&client);
    client_close(&client);
    expect_service();
}

Test(server, answers_reach_a_client_that_has_said_it_will_ask_no_more)
{
    open_with(usual());
    struct client client;
    client_open(&client, server_address(server));
    client_send(&client, "{\"v\":1,\"id\":1,\"cmd\":\"follow\"}\n{\"v\":1,\"id\":2}\n");
    shutdown(client.file, SHUT_WR);
    EXPECT_IN(client_line(&client), "{\"id\":2");
    await(follower != NULL && connection_ended(follower));
    connection_send(follower, json_pack("{s:i}", "late", 1));
    connection_hold(follower, false);
    EXPECT_IN(client_line(&client), "{\"late\":1}");
    cr_assert_null(client_line(&client));
    client_close(&client);
}

Test(server, its_end_lets_answers_leave_and_takes_the_socket_away)
{
    open_with(usual());
    struct client client;
    client_open(&client, server_address(server));
    client_send(&client, "{\"v\":1,\"id\":1,\"cmd\":\"big\"}\n");
    await(n_request != 0);
    server_close(server);
    server = NULL;
    const char *line = client_line(&client);
    cr_assert(line != NULL && strlen(line) > 100000);
    cr_assert_null(client_line(&client));
    cr_assert_not(folder_has("socket"));
    cr_assert_eq(n_closed, 0);
    client_close(&client);
}

static void expect_refusal(const char *address, enum status expected, const char *part)
{
    struct server_options options = usual();
    struct server *none = NULL;
    options.address = address;
    enum status status = server_open(&loop, &options, &handler, &none);
    cr_assert_eq(status, expected, "%s: %s", address, status_reason());
    EXPECT_IN(status_reason(), part);
}

Test(server, a_place_it_cannot_listen_on_is_named)
{
    char address[256];
    expect_refusal("here", STATUS_CONFIG, "expected unix:PATH or tcp:HOST:PORT");
    expect_refusal("tcp:127.0.0.1:0", STATUS_CONFIG, "needs secret_file");
    folder_write("file", "");
    snprintf(address, sizeof address, "unix:%s/file", folder);
    expect_refusal(address, STATUS_CREATE, "exists and is not a socket");
    snprintf(address, sizeof address, "unix:%s/file/socket", folder);
    expect_refusal(address, STATUS_CREATE, "is not a folder");
    cr_assert_eq(mkdir(folder_path("open"), 0700), 0);
    cr_assert_eq(chmod(folder_path("open"), 0777), 0);
    snprintf(address, sizeof address, "unix:%s/open/socket", folder);
    expect_refusal(address, STATUS_CREATE, "can be written by others (mode 0777)");
    snprintf(address, sizeof address, "unix:%s/%0100d", folder, 1);
    expect_refusal(address, STATUS_CONFIG, "a socket's name has at most 107");
    open_with(usual());
    expect_refusal(server_address(server), STATUS_PEER, "another daemon listens on");
    expect_service();
}

Test(server, a_socket_left_by_a_dead_daemon_is_replaced)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s/socket", folder);
    int file = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(bind(file, (struct sockaddr *)&name, sizeof name), 0);
    cr_assert_eq(listen(file, 1), 0);
    close(file);
    cr_assert(folder_has("socket"));
    open_with(usual());
    expect_service();
    struct stat info;
    cr_assert_eq(stat(folder_path("socket"), &info), 0);
    cr_assert_eq(info.st_mode & 0777, geteuid() == 0 ? 0666u : 0600u);
}
