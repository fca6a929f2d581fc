#include "protocol/base/clock.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"
#include "tests/system/attack/campaign.h"
#include "tests/system/attack/inherited.h"
#include "tests/system/attack/injection.h"
#include "tests/system/attack/talk.h"
#include "tests/system/attack/work.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define N_OF(array) ((uint32_t)(sizeof(array) / sizeof *(array)))

/* Names that a run makes, moves, or removes. */
static const char *const run_names[] = {"checkpoint",
                                        "checkpoint.old",
                                        "checkpoint/epoch-4.ckpt",
                                        "checkpoint/epoch-4.ckpt.tmp",
                                        "metrics.jsonl",
                                        "metrics.jsonl.tmp",
                                        "model.safetensors",
                                        "model.safetensors.tmp",
                                        "best.safetensors",
                                        "logits.npy",
                                        "logits.npy.tmp",
                                        "result.json",
                                        "result.json.tmp",
                                        ".publish",
                                        ".publish.tmp",
                                        ".run-1",
                                        ".lock",
                                        "tb",
                                        "trace.json",
                                        "drawn_train_idx.npy"};
/* What links lead to. Of the owner's open folder anybody may make files, so that what is made there by an attacker's
 * own rights proves nothing. */
static const char *const targets[] = {"precious/note.txt", "precious/metrics.jsonl", "precious/model.safetensors",
                                      "precious",          "precious/closed",        "precious/closed/secret.txt",
                                      "precious/open"};

static int new_number(void)
{
    static int n;
    return ++n;
}

static void plant(const char *dir, const char *name, enum user victim, uint32_t n_target)
{
    char path[PATH_MAX], target[PATH_MAX];
    struct stat about;
    snprintf(path, sizeof path, "%s/%.*s", dir, (int)strcspn(name, "/"), name);
    if (strchr(name, '/') != NULL && lstat(path, &about) == 0 && S_ISLNK(about.st_mode)) {
        return; /* planted earlier: the attacker's own rights would lead through it */
    }
    snprintf(path, sizeof path, "%s/%s", dir, name);
    snprintf(target, sizeof target, "%s/%s/%s", folder, user_home(victim), targets[campaign_draw(n_target)]);
    (void)!symlink(target, path); /* where a file is, the run was faster */
}

void injection_links_in_own_output(enum user who, enum user other)
{
    char name[64], path[128];
    snprintf(name, sizeof name, "links-%d", new_number());
    snprintf(path, sizeof path, "%s/%s", user_home(who), name);
    user_become(who);
    cr_assert_eq(mkdir(folder_path(path), 0755), 0);
    if (campaign_draw(2) == 0) {
        char below[160];
        snprintf(below, sizeof below, "%s/.run-1", path);
        mkdir(folder_path(below), 0755);
        plant(folder_path(below), run_names[campaign_draw(N_OF(run_names))], other, N_OF(targets) - 1);
    }
    for (uint32_t n = 1 + campaign_draw(4); n > 0; n--) {
        plant(folder_path(path), run_names[campaign_draw(N_OF(run_names))], campaign_draw(3) == 0 ? USER_ROOT : other,
              N_OF(targets) - 1);
    }
    user_leave();
    work_submit(who, (int)campaign_draw(WORK_KINDS), name, "output.trace=true", true);
}

void injection_links_in_others_output(enum user who, enum user other)
{
    char name[64], path[128];
    bool is_sticky = campaign_draw(3) == 0, comes_first = campaign_draw(2) == 0;
    snprintf(name, sizeof name, "%s/%d", is_sticky ? "sticky" : "shared", new_number());
    snprintf(path, sizeof path, "%s/%s", user_home(other), name);
    if (comes_first) {
        user_become(who);
        cr_assert_eq(mkdir(folder_path(path), 0755), 0);
        cr_assert_eq(chmod(folder_path(path), 0777), 0);
        user_leave();
    }
    work_submit(other, (int)campaign_draw(WORK_KINDS), name, NULL, true);
    double since_s = clock_s();
    user_become(who);
    do { /* in every moment of its run, for a while */
        plant(folder_path(path), run_names[campaign_draw(N_OF(run_names))], campaign_draw(3) == 0 ? who : other,
              N_OF(targets));
        campaign_nap(campaign_draw(8));
    } while (clock_s() - since_s < 0.15);
    user_leave();
}

void injection_output_becomes_a_link(enum user who, enum user other)
{
    bool of_other = campaign_draw(2) == 0; /* whose folder lies where all may write */
    char name[64], path[128], aside[160], target[PATH_MAX];
    snprintf(name, sizeof name, "%sswap-%d", of_other ? "shared/" : "", new_number());
    snprintf(path, sizeof path, "%s/%s", user_home(of_other ? other : who), name);
    snprintf(aside, sizeof aside, "%s.aside", path);
    snprintf(target, sizeof target, "%s/%s/%s", folder, user_home(other),
             targets[campaign_draw(of_other ? N_OF(targets) : N_OF(targets) - 1)]);
    work_submit(of_other ? other : who, (int)campaign_draw(WORK_KINDS), name, NULL, true);
    double since_s = clock_s();
    user_become(who);
    uint32_t wait_ms = campaign_draw(300);
    while (!folder_has(path) && clock_s() - since_s < 1) {
        campaign_nap(1);
    }
    campaign_nap(wait_ms);
    if (rename(folder_path(path), folder_path(aside)) == 0) {
        (void)!symlink(target, folder_path(path));
    }
    user_leave();
}

void injection_job_file_edited(enum user who, enum user other)
{
    (void)other;
    char path[64];
    snprintf(path, sizeof path, "%s/job.toml", user_home(who));
    user_become(who);
    folder_write(path, "[dataset]\ngenerator = \"karate\"\n");
    user_leave();
    work_submit(who, (int)campaign_draw(WORK_KIND_LONG), NULL, NULL, false);
    user_become(who);
    folder_write(path, "[dataset]\npath = \"nothing\"\n[train]\nepochs = 100000000\n");
    user_leave();
}

void injection_closed_paths_named(enum user who, enum user other)
{
    static const char *const keys[] = {"dataset.path", "partition.file", "predict.model", "model.init",
                                       "output.dir",   "memory.spill",   "workers.hosts", "workers.token_file"};
    static const char *const paths[] = {"precious/closed", "precious/closed/secret.txt", "secret.txt",
                                        "precious/closed/new"};
    char setting[PATH_MAX + 64], name[64];
    enum user victim = campaign_draw(2) == 0 ? USER_ROOT : other;
    const char *key = keys[campaign_draw(N_OF(keys))];
    snprintf(setting, sizeof setting, "%s=%s/%s/%s", key, folder, user_home(victim),
             paths[campaign_draw(N_OF(paths))]);
    snprintf(name, sizeof name, "closed-%d", new_number());
    json_t *request = json_pack(
        "{si, si, ss, ss, ss, s[s, s], si}", "v", 1, "id", 1, "cmd", "submit", "config",
        strcmp(key, "dataset.path") == 0
            ? "[train]\nepochs = 3\n"
            : "[dataset]\ngenerator = \"karate\"\n[partition]\ncache = \"off\"\n[train]\nepochs = 3\n",
        "folder", folder_path(user_home(who)), "set", setting,
        strcmp(key, "partition.file") == 0  ? "partition.method=file"
        : strcmp(key, "workers.hosts") == 0 ? "workers.launcher=ssh"
        : strncmp(key, "workers.t", 9) == 0 ? "workers.launcher=manual"
                                            : "train.epochs=2",
        "max_restarts", 0);
    char *text = json_dumps(request, JSON_COMPACT);
    json_t *answer = talk_ask(who, "%s", text);
    long long id = json_integer_value(json_object_get(answer, "job"));
    campaign_note("%s: %lld", setting + strcspn(setting, "=") - 8, id);
    json_decref(answer);
    free(text);
    json_decref(request);
    double since_s = clock_s();
    const char *state = "";
    for (bool has_ended = id == 0; !has_ended; json_decref(answer)) {
        answer = talk_ask(who, "{\"v\":1,\"id\":1,\"cmd\":\"status\",\"job\":%lld}", id);
        const json_t *job = json_array_get(json_object_get(answer, "jobs"), 0);
        state = json_string_value(json_object_get(job, "state"));
        has_ended = strcmp(state, "FAILED") == 0 || strcmp(state, "SUCCEEDED") == 0 ||
                    strcmp(state, "CANCELLED") == 0;
        HOLDS(strcmp(state, "SUCCEEDED") != 0 || strcmp(key, "workers.hosts") == 0, "job %lld has succeeded with %s",
              id, setting);
        HOLDS(json_integer_value(json_object_get(job, "exit_code")) != 70, "%s: %s", setting,
              json_string_value(json_object_get(job, "reason_text")));
        if (!has_ended && clock_s() - since_s > 0.5) { /* workers that are started by hand never come */
            json_decref(talk_ask(who, "{\"v\":1,\"id\":1,\"cmd\":\"cancel\",\"job\":%lld}", id));
        }
        HOLDS(has_ended || patience_left(since_s), "job %lld with %s is %s", id, setting, state);
    }
}

void injection_state_folder_planted(enum user who, enum user other)
{
    (void)other;
    static const char *const names[] = {
        "state/jobs/999999", "state/jobs/1",  "state/jobs.sqlite", "state/jobs.sqlite-wal",     "state/x",
        "state/lock",        "state/reserve", "state/tls.pem",     "state/jobs/1/events.jsonl", "state/jobs/1/log"};
    const char *name = names[campaign_draw(N_OF(names))];
    user_become(who);
    bool opens = open(folder_path(name), O_WRONLY | O_CLOEXEC) >= 0 ||
                 open(folder_path(name), O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) >= 0;
    bool makes = mkdir(folder_path(name), 0777) == 0 || symlink("/etc/passwd", folder_path(name)) == 0;
    bool moves = unlink(folder_path(name)) == 0 || rename(folder_path(name), folder_path("state/moved")) == 0;
    bool reads = open(folder_path(name), O_RDONLY | O_CLOEXEC) >= 0;
    user_leave();
    HOLDS(!opens && !makes && !moves && !reads, "%s can change or read %s", user_home(who), name);
}

static void tamper(int file, uint32_t how)
{
    static const char lie[] = "{\"attempt\":1,\"event\":\"end\",\"exit_code\":65,\"reason\":\"planted\"}\n",
                      bytes[4096] = "\xff\xfe{{{{[[[\n";
    switch (how) {
    case 0:
        (void)!ftruncate(file, (off_t)60 << 30); /* sparse */
        break;
    case 1:
        (void)!ftruncate(file, 0);
        break;
    case 2: /* a hole, and a line behind it */
        (void)!ftruncate(file, 100000);
        (void)!write(file, lie, sizeof lie - 1);
        break;
    case 3:
        (void)!write(file, lie, sizeof lie - 1);
        break;
    case 4:
        for (int i = 0; i < 200; i++) { /* one line without end */
            (void)!write(file, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
                         80);
        }
        break;
    case 5:
        (void)!write(file, bytes, sizeof bytes);
        break;
    default:
        for (int i = 0; i < 700; i++) { /* more than max_log */
            (void)!write(file, bytes, sizeof bytes);
        }
        break;
    }
}

void injection_descriptors_taken(enum user who, enum user other)
{
    (void)other;
    struct work *work = work_submit(who, WORK_KIND_LONG, NULL, NULL, true);
    pid_t pid = inherited_await(work, 2);
    campaign_nap(campaign_draw(200));
    for (int number = 0; pid > 0 && number < INHERITED_MOST; number++) {
        char name[INHERITED_BYTES];
        int file = inherited_take(pid, number, name);
        if (file >= 0 && campaign_draw(2) == 0) {
            uint32_t how = campaign_draw(7);
            campaign_note("%s:%u", name, how);
            user_become(who);
            tamper(file, how);
            user_leave();
        }
        close(file);
    }
}
