#include "tests/support/process/folder.h"
#include "tests/system/attack/campaign.h"
#include "tests/system/attack/injection.h"
#include "tests/system/attack/processes.h"
#include "tests/system/attack/talk.h"
#include "tests/system/attack/target.h"
#include "tests/system/attack/work.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define N_OF(array) ((uint32_t)(sizeof(array) / sizeof *(array)))
#define ASK(who, request, ...) talk_ask(who, "{\"v\":1,\"id\":1,\"cmd\":" request "}", __VA_ARGS__)

static void expect_refusal(json_t *answer, enum user who, const char *what)
{
    json_int_t code = json_integer_value(json_object_get(answer, "exit_code"));
    HOLDS(json_is_false(json_object_get(answer, "ok")), "%s may %s", user_home(who), what);
    HOLDS(talk_error(answer)[0] != '\0' && code >= 1 && code <= 78 && code != 70, "%s is refused with %lld: %s", what,
          (long long)code, talk_error(answer));
    json_decref(answer);
}

void injection_others_job_asked(enum user who, enum user other)
{
    static const char *const commands[] = {"cancel", "resume", "checkpoint", "scale",  "show",
                                           "logs",   "watch",  "metrics",    "workers"};
    const struct work *work = work_draw(other, campaign_draw(3) > 0);
    if (work == NULL) {
        work = work_submit(other, (int)campaign_draw(WORK_KINDS), NULL, NULL, false);
    }
    const char *command = commands[campaign_draw(N_OF(commands))];
    campaign_note("%s %lld", command, (long long)work->id);
    expect_refusal(ASK(who, "\"%s\",\"job\":%lld%s", command, (long long)work->id,
                       strcmp(command, "scale") == 0 ? ",\"workers\":1" : ""),
                   who, command);
    json_t *answer = ASK(who, "\"status\",\"job\":%lld", (long long)work->id);
    const json_t *job = json_array_get(json_object_get(answer, "jobs"), 0);
    HOLDS(talk_is_ok(answer) && json_object_size(job) <= 5 && json_object_get(job, "reason_text") == NULL &&
              json_object_get(job, "loss") == NULL,
          "%s sees more of job %lld than that it is there", user_home(who), (long long)work->id);
    json_decref(answer);
}

void injection_administrator_played(enum user who, enum user other)
{
    (void)other;
    static const char *const commands[] = {"drain", "undrain", "audit", "backup"};
    const char *command = commands[campaign_draw(N_OF(commands))];
    expect_refusal(ASK(who, "\"%s\"%s%s%s", command, strcmp(command, "backup") == 0 ? ",\"path\":\"" : "",
                       strcmp(command, "backup") == 0 ? folder_path("shared.sqlite") : "",
                       strcmp(command, "backup") == 0 ? "\"" : ""),
                   who, command);
    HOLDS(!folder_has("shared.sqlite"), "a backup was made");
}

void injection_own_jobs_driven(enum user who, enum user other)
{
    (void)other;
    struct work *work = work_draw(who, true);
    if (work == NULL) {
        work = work_submit(who, WORK_KIND_LONG, NULL, NULL, false);
    }
    json_t *answer = NULL;
    switch (campaign_draw(4)) {
    case 0:
        work->is_cancelled = true;
        answer = ASK(who, "\"cancel\",\"job\":%lld", (long long)work->id);
        campaign_note("cancel %lld", (long long)work->id);
        break;
    case 1:
        answer = ASK(who, "\"resume\",\"job\":%lld", (long long)work->id); /* refused unless it has ended */
        campaign_note("resume %lld", (long long)work->id);
        break;
    case 2:
        answer = ASK(who, "\"checkpoint\",\"job\":%lld", (long long)work->id);
        break;
    default:
        answer = ASK(who, "\"scale\",\"job\":%lld,\"workers\":%u", (long long)work->id, 1 + campaign_draw(2));
        campaign_note("scale %lld", (long long)work->id);
        break;
    }
    HOLDS(talk_is_ok(answer) ||
              (talk_error(answer)[0] != '\0' && json_integer_value(json_object_get(answer, "exit_code")) != 70),
          "a request about one's own job: %s", talk_error(answer));
    json_decref(answer);
}

/* Each is refused whole: no job is made of any. */
void injection_submission_abused(enum user who, enum user other)
{
#define GOOD "\"config\":\"dataset.generator = \\\"karate\\\"\""
    static const char *const fields[] = {
        GOOD ",\"folder\":\"home\"",
        GOOD ",\"folder\":\"/\",\"priority\":5",
        GOOD ",\"folder\":\"/\",\"max_restarts\":1001",
        GOOD ",\"folder\":\"/\",\"max_restarts\":-1",
        GOOD ",\"folder\":\"/\",\"time_limit_s\":-1",
        GOOD ",\"folder\":\"/\",\"time_limit_s\":1e300",
        GOOD ",\"folder\":\"/\",\"priority\":1e3",
        GOOD ",\"folder\":\"/\",\"tags\":[\"a,b\"]",
        GOOD ",\"folder\":\"/\",\"tags\":[1]",
        GOOD ",\"folder\":\"/\",\"set\":[\"x\"]",
        GOOD ",\"folder\":\"/\",\"set\":[\"train.epochs=-1\"]",
        GOOD ",\"folder\":\"/\",\"set\":[\"train.epochs=99999999999999999999\"]",
        GOOD ",\"folder\":\"/\",\"unknown\":1",
        GOOD ",\"folder\":\"/\",\"jobs\":[]",
        GOOD ",\"folder\":\"/\",\"jobs\":[[\"x\"]]",
        GOOD ",\"folder\":\"/\",\"file\":7",
        GOOD ",\"folder\":\"/\\u0000x\"",
        GOOD,
        "\"folder\":\"/\",\"config\":\"\"",
        "\"folder\":\"/\",\"config\":\"[[[[\"",
        "\"folder\":\"/\",\"config\":\"a = \\\"\\u0007\\\"\"",
        "\"folder\":\"/\",\"config\":\"model.alpha = nan\\ndataset.generator = \\\"karate\\\"\"",
        "\"folder\":\"/\",\"config\":\"dataset.generator = \\\"karate\\\"\\ntrain.epochs = -3\"",
        GOOD ",\"folder\":\"/\",\"name\":\"0123456789012345678901234567890123456789012345678901234567890123456789\"",
        GOOD ",\"folder\":\"/\",\"name\":\"../../x\"",
        GOOD ",\"folder\":\"/\",\"group\":\"\\u0001\""};
    (void)other;
    uint32_t which = campaign_draw(N_OF(fields) + 1);
    campaign_note("field %u", which);
    if (which < N_OF(fields)) {
        json_t *answer = ASK(who, "\"submit\",%s", fields[which]);
        HOLDS(!talk_is_ok(answer), "a submission is accepted: %s", fields[which]);
        expect_refusal(answer, who, fields[which]);
        return;
    }
    static char many[1 << 13] = "[\"train.epochs=1\"]"; /* more than may wait, in one request */
    for (int i = 1; i < 200 && strlen(many) < 6000; i++) {
        strcat(many, ",[\"train.epochs=1\"]");
    }
    expect_refusal(ASK(who, "\"submit\"," GOOD ",\"folder\":\"/\",\"jobs\":[%s]", many), who, "hundreds of jobs");
    many[strlen("[\"train.epochs=1\"]")] = '\0';
}

void injection_others_signalled(enum user who, enum user other)
{
    (void)other;
    static const int signals[] = {SIGKILL, SIGTERM, SIGSTOP, SIGHUP, SIGUSR1};
    pid_t found[64];
    size_t n = processes_find(PROCESS_COORDINATOR, found, 64);
    int number = signals[campaign_draw(N_OF(signals))];
    for (size_t i = 0; i < n; i++) {
        char path[64];
        struct stat about;
        snprintf(path, sizeof path, "/proc/%d", (int)found[i]);
        if (stat(path, &about) == 0 && about.st_uid != user_uid(who)) {
            user_become(who);
            int error = kill(found[i], number) == 0 ? 0 : errno;
            user_leave();
            HOLDS(error == EPERM || error == ESRCH, "%s can send signals to a process of %d", user_home(who),
                  (int)about.st_uid);
        }
    }
    user_become(who);
    bool may = target_pid() != 0 && kill(target_pid(), number) == 0;
    user_leave();
    HOLDS(!may, "%s can send signals to the daemon", user_home(who));
}
