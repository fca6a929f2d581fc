/* A random campaign against a daemon of root's that two users share: after each injection the daemon answers root and
 * the other user, nobody's files have changed, and jobs that were not tampered with end with the bits of undisturbed
 * ones.
 *
 * ATTACK_SEED gives another seed; TEST_THOROUGH makes 500 injections and more.
 */
#include "protocol/base/clock.h"
#include "tests/support/process/folder.h"
#include "tests/system/attack/campaign.h"
#include "tests/system/attack/injection.h"
#include "tests/system/attack/processes.h"
#include "tests/system/attack/talk.h"
#include "tests/system/attack/target.h"
#include "tests/system/attack/work.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { N_THOROUGH = 320, N_SHORT = 26, N_OPEN_MOST = 8 };

static const struct {
    const char *name;
    uint32_t weight;
    void (*inject)(enum user who, enum user other);
} injections[] = {
#define X(name, weight) {#name, weight, injection_##name},
    INJECTION_LIST(X)
#undef X
};
enum { N_INJECTION = sizeof injections / sizeof *injections };

static int n_done[N_INJECTION];

static size_t draw_injection(void)
{
    uint32_t all = 0;
    for (size_t i = 0; i < N_INJECTION; i++) {
        all += injections[i].weight;
    }
    uint32_t left = campaign_draw(all);
    size_t which = 0;
    while (left >= injections[which].weight) {
        left -= injections[which++].weight;
    }
    return which;
}

static void expect_answers(enum user who)
{
    json_t *answer = talk_ask(who, "{\"v\":1,\"id\":1,\"cmd\":\"status\",\"limit\":20}");
    HOLDS(talk_is_ok(answer), "%s gets no status: %s", user_home(who), talk_error(answer));
    json_decref(answer);
}

static void expect_metrics(void)
{
    const char *answer = talk_http("/metrics");
    for (int i = 0; answer[0] == '\0' && i < 3; i++) { /* silent connections that are kept make room */
        HOLDS(!target_is_dead() || faults_may_kill, "the daemon has died");
        talk_drop_all();
        expect_answers(USER_ROOT);
        answer = talk_http("/metrics");
    }
    HOLDS(strstr(answer, "HTTP/1.1 200") == answer && strstr(answer, "trainerd_") != NULL, "metrics: %.300s", answer);
}

static void inject(int step)
{
    size_t which = draw_injection();
    enum user who = (enum user)campaign_draw(USER_ATTACKERS), other = who == USER_FIRST ? USER_SECOND : USER_FIRST;
    campaign_step(step);
    if (works_look() < N_OPEN_MOST / 2) {
        work_submit((enum user)campaign_draw(USER_ATTACKERS), (int)campaign_draw(WORK_KINDS), NULL, NULL, false);
    }
    campaign_note("%s by %s:", injections[which].name, user_home(who));
    if (target_is_dead()) {
        faults_start_daemon();
    }
    injections[which].inject(who, other);
    n_done[which]++;
    expect_answers(USER_ROOT);
    expect_answers(other);
    users_expect_untouched();
    if (step % 5 == 0) {
        expect_metrics();
        target_expect_no_bug();
    }
    if (campaign_draw(4) == 0) {
        talk_drop_all();
    }
    while (works_look() >= N_OPEN_MOST) { /* their number is bounded, and so is the time of the campaign */
        campaign_nap(5);
    }
}

/* Descriptors of the daemon when nothing is going on: closed connections are noticed one after the other, until there
 * are no more than these. */
static int n_file_at_rest(int most)
{
    works_settle();
    talk_drop_all();
    expect_answers(USER_ROOT);
    double since_s = clock_s();
    int n;
    do {
        campaign_nap(500);
        n = processes_n_file(target_pid());
    } while (n > most && clock_s() - since_s < 30);
    return n;
}

static void restart_calmly(void)
{
    target_end();
    target_start(NULL);
}

TestSuite(attack, .timeout = 3000);

Test(attack, injections)
{
    if (!users_make()) {
        cr_skip_test("only root can start a daemon that users share");
    }
    campaign_begin("injections");
    processes_begin();
    works_begin();
    faults_disk_begin();
    talk_restart = faults_start_daemon;
    int n = campaign_is_thorough() ? N_THOROUGH : N_SHORT, n_injected = 0;
    faults_start_daemon();
    for (int step = 1; step <= n * 2 / 3; step++) {
        inject(step);
        n_injected++;
    }
    works_settle();
    restart_calmly();
    int n_file = n_file_at_rest(INT_MAX);
    faults_may_kill = false;
    for (int step = n * 2 / 3 + 1; step <= n; step++) {
        inject(step);
        n_injected++;
    }
    int n_file_after = n_file_at_rest(n_file + 2);
    HOLDS(n_file_after <= n_file + 2, "the daemon has %d open files, and had %d", n_file_after, n_file);
    expect_metrics();
    users_expect_untouched();
    target_end();
    processes_expect_none();
    faults_disk_end();
    for (size_t i = 0; i < N_INJECTION && campaign_is_thorough(); i++) {
        fprintf(stderr, "  %-24s %d\n", injections[i].name, n_done[i]);
    }
    fprintf(stderr, "attack: %d injections, %zu jobs, %zu with the bits of undisturbed ones, seed %llu\n", n_injected,
            works_n(), works_n_same(), (unsigned long long)campaign_seed());
    cr_assert_geq(n_injected, campaign_is_thorough() ? 300 : 25);
    cr_assert_geq(works_n_same(), (size_t)n_injected / 10);
    folder_remove();
}
