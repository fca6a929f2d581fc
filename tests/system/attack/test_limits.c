/* What one user can have of a shared daemon at most, and what is left for others: single attacks of the greatest
 * size. */
#include "protocol/base/clock.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"
#include "tests/system/attack/campaign.h"
#include "tests/system/attack/inherited.h"
#include "tests/system/attack/processes.h"
#include "tests/system/attack/talk.h"
#include "tests/system/attack/target.h"
#include "tests/system/attack/work.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void begin(void)
{
    if (!users_make()) {
        cr_skip_test("only root can start a daemon that users share");
    }
    processes_begin();
}

static void end(void)
{
    talk_drop_all();
    target_expect_no_bug();
    target_end();
    processes_expect_none();
    folder_remove();
}

TestSuite(attack_limits, .timeout = 900);

static double cpu_s(pid_t pid)
{
    char path[64], text[1024] = "";
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    cr_assert_eq(
        sscanf(strrchr(text, ')') + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system), 2);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* The owner makes a file of the job's folder so long; false: the coordinator has not taken it over yet. */
static bool is_stretched(pid_t coordinator, const char *wanted, off_t n_byte)
{
    bool is_found = false;
    for (int number = 0; number < INHERITED_MOST; number++) {
        char name[INHERITED_BYTES];
        int file = inherited_take(coordinator, number, name);
        if (file >= 0 && strcmp(name, wanted) == 0) {
            user_become(USER_FIRST);
            is_found = ftruncate(file, n_byte) == 0 || is_found;
            user_leave();
        }
        close(file);
    }
    return is_found;
}

static void stretch(pid_t coordinator, const char *wanted, off_t n_byte)
{
    for (double since_s = clock_s(); !is_stretched(coordinator, wanted, n_byte);) {
        cr_assert(patience_left(since_s), "%s cannot be stretched", wanted);
    }
}

static void stretched_files_delay_no_other_user(const char *name)
{
    begin();
    works_begin();
    target_start(NULL);
    struct work *work = work_submit(USER_FIRST, WORK_KIND_LONG, NULL, "train.epochs=100000000", true);
    pid_t coordinator = inherited_await(work, TALK_S);
    cr_assert_gt(coordinator, 0);
    double before_s = cpu_s(target_pid());
    stretch(coordinator, name, (off_t)60 << 30);
    int stream = talk_open(USER_FIRST); /* who asks for all of it */
    char request[128];
    int n = snprintf(request, sizeof request, "{\"v\":1,\"id\":1,\"cmd\":\"%s\",\"job\":%lld,\"tail\":1000000}\n",
                     strcmp(name, "log") == 0 ? "logs" : "watch", (long long)work->id);
    talk_send(stream, request, (size_t)n);
    talk_keep(USER_FIRST, stream);
    work_submit(USER_SECOND, 0, NULL, NULL, false);
    works_settle();
    cr_assert_eq(works_n_same(), 1);
    cr_assert_lt(cpu_s(target_pid()) - before_s, 20.0);
    end();
}

Test(attack_limits, sixty_gigabytes_of_events_delay_no_other_user)
{
    stretched_files_delay_no_other_user("events.jsonl");
}

Test(attack_limits, sixty_gigabytes_of_log_delay_no_other_user)
{
    stretched_files_delay_no_other_user("log");
}

Test(attack_limits, four_users_with_256_connections_leave_root_a_place)
{
    static const char hello[] = "{\"v\":1,\"id\":1,\"cmd\":\"hello\"}\n";
    char line[1024];
    begin();
    target_start(NULL);
    for (int who = USER_FIRST; who <= USER_FOURTH; who++) {
        for (int i = 0; i < 256; i++) {
            int file = talk_open((enum user)who);
            cr_assert_geq(file, 0, "%s, connection %d", user_home((enum user)who), i);
            talk_send(file, hello, sizeof hello - 1); /* so that it is not the first to be evicted */
            cr_assert(talk_line(file, line, sizeof line) && strstr(line, "\"ok\":true") != NULL,
                      "%s, connection %d: %s", user_home((enum user)who), i, line);
            talk_keep((enum user)who, file);
        }
    }
    json_t *answer = talk_ask(USER_ROOT, "{\"v\":1,\"id\":1,\"cmd\":\"hello\"}");
    cr_assert(json_is_true(json_object_get(answer, "admin")), "%s", talk_error(answer));
    json_decref(answer);
    end();
}

/* --- job files that take long to read --- */

enum { COSTLY_BYTES = 240000 };

/* A request to submit a program with these lines, or this job file. owns  the caller frees it */
static char *costly_request(const char *config)
{
    json_t *request = json_pack("{si, si, ss, ss, ss}", "v", 1, "id", 1, "cmd", "submit", "config", config, "folder",
                                folder_path(user_home(USER_FIRST)));
    char *text = json_dumps(request, JSON_COMPACT), *line = malloc(strlen(text) + 2);
    sprintf(line, "%s\n", text);
    free(text);
    json_decref(request);
    return line;
}

static const char program_begin[] = "[dataset]\ngenerator = \"karate\"\n[model]\nkind = \"program\"\nlayers = 256\n"
                                    "program = '''\n";

/* s0, s1 = names(s0, s0, …), …: each text is eight times as long as the one before */
static void write_names(char *at)
{
    at += sprintf(at, "%sdef layer(v, out):\n    s0 = \"aaaaaaaa\"\n", program_begin);
    for (int i = 1; i <= 40; i++) {
        at += sprintf(at, "    s%d = names(s%d, s%d, s%d, s%d, s%d, s%d, s%d, s%d)\n", i, i - 1, i - 1, i - 1, i - 1,
                      i - 1, i - 1, i - 1, i - 1);
    }
    sprintf(at, "    return linear(\"a\", v.x, out)\n'''\n");
}

static void write_loops(char *at)
{
    sprintf(at,
            "%sdef layer(v, out):\n    for i in range(300):\n        for j in range(300):\n            a = j\n"
            "    return linear(\"a\", v.x, out)\n'''\n",
            program_begin);
}

static void write_keys(char *at)
{
    for (int i = 0; i < 18000; i++) {
        at += sprintf(at, "key%d = 1\n", i);
    }
}

/* One user sends 32 of them on four connections; another's status is answered at once, by a daemon that stays small.
 */
static void costly_jobs_delay_no_other_user(void (*write)(char *at))
{
    char *config = calloc(COSTLY_BYTES, 1), line[4096];
    double longest_s = 0.0;
    begin();
    target_start(NULL);
    json_decref(talk_ask(USER_SECOND, "{\"v\":1,\"id\":1,\"cmd\":\"status\"}")); /* its loop runs */
    write(config);
    cr_assert_lt(strlen(config), COSTLY_BYTES);
    char *request = costly_request(config);
    for (int i = 0; i < 4; i++) {
        int file = talk_open(USER_FIRST);
        cr_assert_geq(file, 0);
        for (int k = 0; k < 8; k++) {
            talk_send(file, request, strlen(request));
        }
        talk_keep(USER_FIRST, file);
    }
    for (int i = 0; i < 40; i++) {
        double since_s = clock_s();
        json_decref(talk_ask(USER_SECOND, "{\"v\":1,\"id\":1,\"cmd\":\"status\"}"));
        longest_s = fmax(longest_s, clock_s() - since_s);
    }
    cr_expect_lt(longest_s, 1.5, "another user waits %.2f s", longest_s);
    int file = talk_open(USER_FIRST);
    talk_send(file, request, strlen(request));
    cr_assert(talk_line(file, line, sizeof line));
    close(file);
    cr_expect_lt(processes_peak(target_pid()), (size_t)1 << 30);
    free(request);
    free(config);
    end();
}

Test(attack_limits, texts_that_grow_eightfold_delay_no_other_user)
{
    costly_jobs_delay_no_other_user(write_names);
}

Test(attack_limits, loops_before_training_delay_no_other_user)
{
    costly_jobs_delay_no_other_user(write_loops);
}

Test(attack_limits, thousands_of_unknown_keys_delay_no_other_user)
{
    costly_jobs_delay_no_other_user(write_keys);
}

Test(attack_limits, metrics_answer_after_a_thousand_connections)
{
    begin();
    target_start(NULL);
    int n_file = processes_n_file(target_pid());
    for (int i = 0; i < 1000; i++) {
        int file = talk_open_http();
        cr_assert_geq(file, 0, "connection %d", i);
        talk_send(file, "GET /metrics HTTP/1.1\r\n", (size_t)(i % 23));
        if (i % 25 == 0) {
            talk_keep(USER_ROOT, file);
        } else {
            close(file);
        }
    }
    double since_s = clock_s();
    const char *answer = talk_http("/metrics");
    while (answer[0] == '\0' && clock_s() - since_s < TALK_S) { /* silent connections make room after their time */
        campaign_nap(50);
        answer = talk_http("/metrics");
    }
    cr_assert(strstr(answer, "HTTP/1.1 200") == answer, "%.300s", answer);
    cr_assert(strstr(talk_http("/healthz"), "HTTP/1.1 200") != NULL);
    talk_drop_all();
    since_s = clock_s();
    while (processes_n_file(target_pid()) > n_file + 2 && clock_s() - since_s < TALK_S) {
        campaign_nap(20);
    }
    cr_assert_leq(processes_n_file(target_pid()), n_file + 2);
    end();
}
