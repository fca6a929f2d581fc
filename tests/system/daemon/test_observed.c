/* A daemon as its machine sees it: what it tells the service manager, its log file, its metrics. */
#include "protocol/base/memory.h"
#include "tests/support/daemon/exposition.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/machines.h"
#include "tests/support/process/patience.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int manager;
static struct process daemon_process;
static char words[1024], page[1 << 16];

/* The next thing the service manager hears but for signs of life; valid until the next call. */
static const char *hear(void)
{
    do {
        struct pollfd ready = {.fd = manager, .events = POLLIN};
        cr_assert_eq(poll(&ready, 1, PATIENCE_S * 1000), 1, "nothing was heard");
        ssize_t n = recv(manager, words, sizeof words - 1, 0);
        words[n > 0 ? n : 0] = '\0';
    } while (strcmp(words, "WATCHDOG=1") == 0);
    return words;
}

/* Read what the service manager has not heard yet: its queue may be full of signs of life. */
static void catch_up(void)
{
    while (recv(manager, words, sizeof words, MSG_DONTWAIT) >= 0) {
    }
}

static void make_all(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    char program[PATH_MAX], address[128];
    folder_make();
    folder_write(
        "job.toml",
        "name = \"k\"\n[dataset]\ngenerator = \"karate\"\n[partition]\ncache = \"off\"\n[workers]\ncount = 2\n"
        "threads = 1\n[train]\nepochs = 5\n");
    snprintf(name.sun_path, sizeof name.sun_path, "%s", folder_path("manager"));
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(manager, (struct sockaddr *)&name, sizeof name), 0);
    setenv("NOTIFY_SOCKET", name.sun_path, 1);
    setenv("WATCHDOG_USEC", "200000", 1);
    snprintf(address, sizeof address, "unix:%s/socket", folder);
    setenv("TRAINERD_TO", address, 1);
    program_find("trainerd", program, sizeof program);
    const char *arguments[] = {
        program, "--listen",     address, "--state", "state", "--set", "slots=4", "--set", "metrics=127.0.0.1:0",
        "--set", "log_file=log", NULL};
    process_start(&daemon_process, NULL, folder, NULL, arguments);
    unsetenv("NOTIFY_SOCKET");
}

TestSuite(observed, .init = make_all, .fini = folder_remove, .timeout = 900);

static int run_trainctl(const char *arguments)
{
    char program[PATH_MAX], command[3 * PATH_MAX];
    program_find("trainctl", program, sizeof program);
    snprintf(command, sizeof command, "cd %s && %s %s > out 2>&1", folder, program, arguments);
    return system(command);
}

/* The body of a page of the daemon that said where it serves them. */
static const char *get(const char *ready, const char *path)
{
    const char *at = strstr(ready, "metrics at http://127.0.0.1:");
    cr_assert_not_null(at, "%s", ready);
    struct sockaddr_in name = {.sin_family = AF_INET,
                               .sin_addr = {htonl(INADDR_LOOPBACK)},
                               .sin_port = htons((uint16_t)atoi(strrchr(at, ':') + 1))};
    int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(file, (struct sockaddr *)&name, sizeof name), 0);
    dprintf(file, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);
    size_t n = 0;
    for (ssize_t got; (got = recv(file, page + n, sizeof page - 1 - n, 0)) > 0;) {
        n += (size_t)got;
    }
    close(file);
    page[n] = '\0';
    const char *body = strstr(page, "\r\n\r\n");
    cr_assert(body != NULL && strncmp(page, "HTTP/1.1 200 ", 13) == 0, "%s", page);
    return body + 4;
}

Test(observed, a_job_is_seen_in_the_metrics_with_its_epochs_and_phases)
{
    char ready[sizeof words];
    strcpy(ready, hear());
    cr_assert_eq(run_trainctl("submit --wait job.toml"), 0);
    const char *text = get(ready, "/metrics"), *wrong = exposition_fault(text);
    cr_assert_null(wrong, "%s", wrong);
    cr_assert_eq(exposition_value(text, "trainerd_jobs{state=\"SUCCEEDED\"}"), 1);
    cr_assert_eq(exposition_value(text, "trainerd_slots{state=\"free\"}"), 4);
#define OF "{job=\"1\",name=\"k\""
    cr_assert_eq(exposition_value(text, "trainerd_job_epoch" OF "}"), 5, "%s", text);
    cr_assert_eq(exposition_value(text, "trainerd_job_restarts_total" OF "}"), 0);
    double epoch_s = exposition_value(text, "trainerd_job_epoch_seconds" OF "}");
    double evaluate_s = exposition_value(text, "trainerd_job_phase_seconds" OF ",phase=\"evaluate\"}");
    cr_assert(evaluate_s > 0 && evaluate_s < epoch_s, "%g of %g", evaluate_s, epoch_s);
    cr_assert_gt(exposition_value(text, "trainerd_job_epoch_bytes" OF ",direction=\"sent\"}"), 0);
    double planned = exposition_value(text, "trainerd_job_memory_bytes" OF ",by=\"plan\"}");
    double measured = exposition_value(text, "trainerd_job_memory_bytes" OF ",by=\"measure\"}");
    /* The plan has the coordinator and what each process takes, too: what is left of it is the worker's. */
    cr_assert(measured > 0 && planned > measured + 2 * MEMORY_PROCESS_FLOOR, "%g against %g", measured, planned);
    cr_assert_str_eq(get(ready, "/healthz"), "ok\n");
    kill(daemon_process.pid, SIGTERM);
    cr_assert_eq(process_finish(&daemon_process), 0);
}

Test(observed, the_manager_hears_all_and_the_log_is_opened_again)
{
    char log[1 << 14];
    cr_assert_eq(strncmp(hear(), "READY=1\nSTATUS=unix:", 20), 0, "%s", words);
    cr_assert_eq(run_trainctl("submit --wait job.toml"), 0);
    rename(folder_path("log"), folder_path("log.1"));
    catch_up();
    kill(daemon_process.pid, SIGHUP);
    cr_assert_eq(strncmp(hear(), "RELOADING=1\n", 12), 0, "%s", words);
    cr_assert_eq(strncmp(hear(), "READY=1\n", 8), 0, "%s", words);
    kill(daemon_process.pid, SIGTERM);
    cr_assert_str_eq(hear(), "STOPPING=1");
    cr_assert_eq(process_finish(&daemon_process), 0);
    folder_read("log.1", log, sizeof log);
    cr_assert(strstr(log, "listening on unix:") != NULL && strstr(log, " job=1 attempt=1 ") != NULL, "%s", log);
    folder_read("log", log, sizeof log);
    cr_assert(strstr(log, "reopened the log") != NULL && strstr(log, "listening") == NULL, "%s", log);
}
