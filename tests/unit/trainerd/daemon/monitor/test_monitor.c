/* Pages over HTTP from the daemon's loop, and the two that monitoring asks for. */
#include "protocol/base/clock.h"
#include "tests/support/daemon/client.h"
#include "tests/support/daemon/exposition.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"
#include "trainerd/daemon/monitor/http.h"
#include "trainerd/daemon/monitor/monitor.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

static struct jobs *jobs;
static struct monitor *monitor;
static const struct queue_capacity whole = {.n_slot = 4, .memory = 1000};

static void begin(void)
{
    folder_make();
    uv_loop_init(&loop);
    expect_done(jobs_open(folder, NULL, &jobs));
    expect_done(monitor_open(&loop, "127.0.0.1:0", jobs, &whole, &monitor));
}

static void end(void)
{
    monitor_close(monitor);
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&loop), 0);
    jobs_close(jobs);
    folder_remove();
}

TestSuite(monitor, .init = begin, .fini = end, .timeout = 900);

static void connect_to(struct client *client)
{
    char address[HTTP_ADDRESS_BYTES + 8];
    snprintf(address, sizeof address, "tcp:%s", monitor_address(monitor));
    client_open(client, address);
}

/* The answer up to where the server closes, which it does after each; valid until the next call. */
static const char *ask(const char *request)
{
    static struct client client;
    if (client.got != NULL) {
        client_close(&client);
    }
    connect_to(&client);
    client_send(&client, request);
    client_expect_end(&client);
    return client.got == NULL ? "" : client.got;
}

static void expect(const char *answer, const char *part)
{
    cr_assert_not_null(strstr(answer, part), "expected '%s' in '%s'", part, answer);
}

Test(monitor, metrics_are_served_as_prometheus_wants_them)
{
    const char *answer = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(answer, "HTTP/1.1 200 ");
    expect(answer, "Content-Type: text/plain; version=0.0.4");
    const char *body = strstr(answer, "\r\n\r\n") + 4;
    const char *wrong = exposition_fault(body);
    cr_assert_null(wrong, "%s", wrong);
    cr_assert_eq(exposition_value(body, "trainerd_slots{state=\"free\"}"), 4);
}

Test(monitor, a_head_has_the_length_and_no_body)
{
    const char *answer = ask("HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(answer, "200 ");
    expect(answer, "Content-Length: 3\r\n");
    cr_assert_str_eq(strstr(answer, "\r\n\r\n"), "\r\n\r\n");
}

Test(monitor, health_is_whether_the_store_can_be_written)
{
    signal(SIGXFSZ, SIG_IGN);
    struct stat about;
    struct rlimit was, limit;
    cr_assert_eq(stat(folder_path("jobs.sqlite-wal"), &about), 0);
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &was), 0);
    limit = (struct rlimit){.rlim_cur = (rlim_t)about.st_size, .rlim_max = was.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const char *answer = ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(answer, "503 ");
    expect(answer, "jobs.sqlite");
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &was), 0);
    double since_s = clock_s();
    do { /* the last answer stands for a second */
        answer = ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
        cr_assert(patience_left(since_s));
    } while (strstr(answer, "503 ") != NULL);
    expect(answer, "200 ");
    expect(answer, "\r\n\r\nok\n");
}

Test(monitor, other_paths_and_methods_are_refused_with_what_there_is)
{
    expect(ask("GET /../jobs.sqlite HTTP/1.1\r\nHost: x\r\n\r\n"), "404 ");
    const char *answer = ask("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\nx");
    expect(answer, "405 ");
    expect(answer, "Allow: GET, HEAD");
    expect(answer, "/metrics /healthz");
}

Test(monitor, what_is_no_request_is_dropped)
{
    const char *answer = ask("\x16\x03\x01\x02\r\n\r\n\r\n");
    cr_assert(answer[0] == '\0' || strstr(answer, "HTTP/1.1 4") == answer, "%s", answer);
    char *endless = malloc(1 << 20);
    memset(endless, 'x', 1 << 20);
    memcpy(endless, "GET /", 5);
    endless[(1 << 20) - 1] = '\0';
    answer = ask(endless);
    cr_assert(answer[0] == '\0' || strstr(answer, "HTTP/1.1 4") == answer, "%s", answer);
    free(endless);
    expect(ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"), "200 ");
}

Test(monitor, silent_and_slow_ones_make_room_after_their_time)
{
    struct client silent[HTTP_N_CONNECTION];
    for (int i = 0; i < HTTP_N_CONNECTION; i++) {
        connect_to(&silent[i]);
        client_send(&silent[i], i % 2 == 0 ? "" : "GET /metr");
        turn(clock_s());
    }
    double since_s = clock_s();
    expect(ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"), "200 ");
    cr_assert_lt(clock_s() - since_s, 3 * HTTP_LIFE_MS / 1000.0);
    for (int i = 0; i < HTTP_N_CONNECTION; i++) {
        client_expect_end(&silent[i]);
        client_close(&silent[i]);
    }
}

/* Half of them are closed behind half a request, of which the library does not hear where both arrive at once. */
Test(monitor, where_all_places_are_taken_silent_ones_make_room_at_once)
{
    struct client silent[HTTP_N_CONNECTION];
    for (int i = 0; i < HTTP_N_CONNECTION; i++) {
        connect_to(&silent[i]);
        client_send(&silent[i], "GET /metr");
        if (i % 2 == 0) {
            client_close(&silent[i]);
        }
    }
    double since_s = clock_s();
    expect(ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"), "200 ");
    cr_assert_lt(clock_s() - since_s, 0.8 * HTTP_LIFE_MS / 1000.0);
    for (int i = 1; i < HTTP_N_CONNECTION; i += 2) {
        client_expect_end(&silent[i]);
        client_close(&silent[i]);
    }
}

/* More connections than may be open at once, all of them closed between two turns of the loop. */
Test(monitor, service_goes_on_after_all_connections_were_closed_at_once)
{
    enum { N_CROWD = HTTP_N_CONNECTION + 16, N_ALL = 1008 };
    struct client crowd[N_CROWD];
    for (int n = 0; n < N_ALL; n += N_CROWD) {
        for (int i = 0; i < N_CROWD; i++) {
            connect_to(&crowd[i]);
        }
        for (int i = 0; i < N_CROWD; i++) {
            turn(clock_s());
        }
        for (int i = 0; i < N_CROWD; i++) {
            client_close(&crowd[i]);
        }
        expect(ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"), "200 ");
    }
}

Test(monitor, an_address_that_is_taken_or_none_is_named)
{
    struct monitor *other = NULL;
    cr_assert_eq(monitor_open(&loop, monitor_address(monitor), jobs, &whole, &other), STATUS_CREATE);
    expect(status_reason(), "daemon.metrics");
    expect(status_reason(), monitor_address(monitor));
    cr_assert_eq(monitor_open(&loop, "9090", jobs, &whole, &other), STATUS_CONFIG);
    expect(status_reason(), "daemon.metrics");
    cr_assert_eq(monitor_open(&loop, "", jobs, &whole, &other), STATUS_OK);
    cr_assert_null(other);
    cr_assert_str_eq(monitor_address(other), "");
}
