#include "tests/system/attack/work.h"

#include "protocol/base/clock.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"
#include "tests/system/attack/campaign.h"
#include "tests/system/attack/talk.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <xxhash.h>

#define HEAD "[dataset]\ngenerator = \"karate\"\n[partition]\ncache = \"off\"\n"
#define TAIL "[workers]\nthreads = 1\nheartbeat_timeout = 2.0\n"

static const char *const files[WORK_KINDS] = {
    HEAD "parts = 4\n[model]\nhidden = 8\n[train]\nepochs = 20\ncheckpoint_every = 4\n" TAIL "count = 1\n",
    HEAD "parts = 4\n[model]\nhidden = 8\ndropout = 0.5\n[train]\nepochs = 40\ncheckpoint_every = 8\n" TAIL
         "count = 2\n",
    HEAD "parts = 2\n[model]\nkind = \"sage\"\nhidden = 8\n[train]\nepochs = 30\ncheckpoint_every = 10\n" TAIL
         "count = 2\n",
    HEAD "parts = 3\n[model]\nkind = \"gat\"\nhidden = 4\n[train]\nepochs = 20\n" TAIL "count = 1\n",
    HEAD "parts = 4\n[model]\nhidden = 8\ndropout = 0.5\n[train]\nepochs = 1000\ncheckpoint_every = 100\neval_every "
         "= 50\n" TAIL "count = 2\n"};

enum { N_WORK = 4096 };
static struct work works[N_WORK];
static size_t n_work, n_same;
static int64_t last_id;
static unsigned long long reference[WORK_KINDS];

static unsigned long long weights_of(const char *dir)
{
    char path[PATH_MAX];
    static char bytes[1 << 16];
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    FILE *file = fopen(path, "rb");
    size_t n = file != NULL ? fread(bytes, 1, sizeof bytes, file) : 0;
    if (file != NULL) {
        fclose(file);
    }
    return n > 0 ? XXH3_64bits(bytes, n) : 0;
}

void works_begin(void)
{
    char program[PATH_MAX], command[3 * PATH_MAX], name[32];
    program_find("trainerd", program, sizeof program);
    for (int kind = 0; kind < WORK_KINDS; kind++) {
        snprintf(name, sizeof name, "kind%d.toml", kind);
        folder_write(name, files[kind]);
        snprintf(command, sizeof command, "cd '%s' && '%s' --config %s --set output.dir=kind%d 2>kind%d.err", folder,
                 program, name, kind, kind);
        cr_assert_eq(system(command), 0, "%s", name);
        snprintf(name, sizeof name, "kind%d", kind);
        reference[kind] = weights_of(folder_path(name));
        cr_assert_neq(reference[kind], 0);
    }
}

struct work *work_submit(enum user who, int kind, const char *dir, const char *setting, bool is_fouled)
{
    cr_assert_lt(n_work, (size_t)N_WORK);
    struct work *work = &works[n_work];
    char out[128], submission[32];
    *work = (struct work){.who = who, .kind = kind, .is_fouled = is_fouled};
    if (dir != NULL) {
        snprintf(work->dir, sizeof work->dir, "%s", dir);
    } else {
        snprintf(work->dir, sizeof work->dir, "out-%zu", n_work);
    }
    snprintf(out, sizeof out, "output.dir=%s", work->dir);
    snprintf(submission, sizeof submission, "campaign-%zu", n_work);
    json_t *set = json_pack("[s]", out);
    if (setting != NULL) {
        json_array_append_new(set, json_string(setting));
    }
    json_t *request = json_pack("{si, si, ss, ss, ss, so, ss, si}", "v", 1, "id", 1, "cmd", "submit", "config",
                                files[kind], "folder", folder_path(user_home(who)), "set", set, "submission_id",
                                submission, "max_restarts", 1000);
    char *text = json_dumps(request, JSON_COMPACT);
    json_t *answer = talk_ask(who, "%s", text);
    HOLDS(talk_is_ok(answer), "a job is refused: %s", talk_error(answer));
    work->id = json_integer_value(json_object_get(answer, "job"));
    HOLDS(work->id > last_id, "job %lld after %lld: a number is there again", (long long)work->id,
          (long long)last_id);
    last_id = work->id;
    n_work++;
    free(text);
    json_decref(request);
    json_decref(answer);
    campaign_note("%s submits %lld (kind %d%s)", user_home(who), (long long)work->id, kind,
                  is_fouled ? ", fouled" : "");
    return work;
}

struct work *work_draw(enum user who, bool is_open)
{
    size_t n = 0, at;
    for (size_t i = 0; i < n_work; i++) {
        n += works[i].who == who && !(is_open && works[i].has_ended);
    }
    if (n == 0) {
        return NULL;
    }
    size_t left = campaign_draw((uint32_t)n);
    for (at = 0; works[at].who != who || (is_open && works[at].has_ended) || left-- > 0; at++) {
    }
    return &works[at];
}

void works_foul_open(void)
{
    for (size_t i = 0; i < n_work; i++) {
        works[i].is_fouled = works[i].is_fouled || !works[i].has_ended;
    }
}

static void expect_good_end(struct work *work, const json_t *job)
{
    const char *state = json_string_value(json_object_get(job, "state")),
               *why = json_string_value(json_object_get(job, "reason_text"));
    json_int_t code = json_integer_value(json_object_get(job, "exit_code"));
    long long id = (long long)work->id;
    HOLDS(code != 70, "job %lld ended with 70: %s", id, why);
    if (strcmp(state, "SUCCEEDED") == 0) {
        char dir[256];
        snprintf(dir, sizeof dir, "%s/%s", user_home(work->who), work->dir);
        HOLDS(work->is_fouled || weights_of(folder_path(dir)) == reference[work->kind],
              "job %lld (kind %d) has other bits", id, work->kind);
        n_same += !work->is_fouled;
    } else if (strcmp(state, "CANCELLED") == 0) {
        HOLDS(work->is_cancelled, "job %lld is cancelled, and its owner has not asked for it", id);
    } else {
        HOLDS(work->is_fouled, "job %lld (kind %d) has failed with %lld: %s", id, work->kind, (long long)code, why);
        HOLDS(why[0] != '\0', "job %lld has failed without a reason", id);
    }
}

static bool is_ended(const json_t *job)
{
    const char *state = json_string_value(json_object_get(job, "state"));
    return strcmp(state, "SUCCEEDED") == 0 || strcmp(state, "FAILED") == 0 || strcmp(state, "CANCELLED") == 0;
}

static json_t *ask_active(void)
{
    json_t *answer = talk_ask(USER_ROOT, "{\"v\":1,\"id\":1,\"cmd\":\"status\",\"active\":true,\"limit\":1000}");
    HOLDS(talk_is_ok(answer), "status: %s", talk_error(answer));
    return answer;
}

static bool is_among(const json_t *answer, int64_t id)
{
    const json_t *jobs = json_object_get(answer, "jobs"), *job;
    size_t i;
    json_array_foreach(jobs, i, job)
    {
        if (json_integer_value(json_object_get(job, "id")) == id) {
            return true;
        }
    }
    return false;
}

static void look_at_end(struct work *work)
{
    json_t *answer = talk_ask(USER_ROOT, "{\"v\":1,\"id\":1,\"cmd\":\"status\",\"job\":%lld}", (long long)work->id);
    HOLDS(talk_is_ok(answer), "job %lld is not known any more: %s", (long long)work->id, talk_error(answer));
    const json_t *job = json_array_get(json_object_get(answer, "jobs"), 0);
    if (is_ended(job)) { /* its owner may have resumed it meanwhile */
        expect_good_end(work, job);
        work->has_ended = true;
    }
    json_decref(answer);
}

/* A number that changes with the state, the attempt and the epoch of each job. */
static uint64_t progress_of(const json_t *answer)
{
    const json_t *jobs = json_object_get(answer, "jobs"), *job;
    uint64_t progress = 0;
    size_t i;
    json_array_foreach(jobs, i, job)
    {
        const char *state = json_string_value(json_object_get(job, "state"));
        const json_int_t counts[] = {json_integer_value(json_object_get(job, "id")),
                                     json_integer_value(json_object_get(job, "attempt")),
                                     json_integer_value(json_object_get(job, "epoch"))};
        progress = XXH3_64bits_withSeed(counts, sizeof counts, progress);
        progress = XXH3_64bits_withSeed(state, strlen(state), progress);
    }
    return progress;
}

static size_t look(uint64_t *progress_out)
{
    json_t *active = ask_active();
    size_t n_open = 0;
    *progress_out = progress_of(active);
    for (size_t i = 0; i < n_work; i++) {
        if (!works[i].has_ended && !is_among(active, works[i].id)) {
            look_at_end(&works[i]);
        }
        n_open += !works[i].has_ended;
    }
    json_decref(active);
    return n_open;
}

size_t works_look(void)
{
    uint64_t progress;
    return look(&progress);
}

void works_reopen(void)
{
    json_t *active = ask_active();
    for (size_t i = 0; i < n_work; i++) {
        works[i].has_ended = works[i].has_ended && !is_among(active, works[i].id);
    }
    json_decref(active);
}

static const struct work *first_open(void)
{
    size_t i = 0;
    while (works[i].has_ended) {
        i++;
    }
    return &works[i];
}

/* A loaded machine may need longer than PATIENCE_S for all jobs together: the limit begins again with each epoch. */
void works_settle(void)
{
    double since_s = clock_s();
    uint64_t progress, before = 0;
    while (look(&progress) > 0) {
        const struct work *first = first_open();
        since_s = progress != before ? clock_s() : since_s;
        before = progress;
        HOLDS(clock_s() - since_s < PATIENCE_S, "job %lld (kind %d, %s) makes no progress", (long long)first->id,
              first->kind, first->is_fouled ? "fouled" : "good");
        campaign_nap(20);
    }
}

size_t works_n(void)
{
    return n_work;
}

size_t works_n_same(void)
{
    return n_same;
}
