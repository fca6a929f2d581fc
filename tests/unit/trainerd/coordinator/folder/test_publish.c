#include "protocol/base/fault.h"
#include "tests/support/process/folder.h"
#include "trainerd/coordinator/folder/publish.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void begin(void)
{
    folder_make();
    cr_assert_eq(chdir(folder), 0);
}

TestSuite(publish, .init = begin, .fini = folder_remove);

/* What an older run left in the home, what the new one has in its folder, and what is then in the home; "" for no file. */
static const struct {
    const char *path, *older, *newer;
} files[] = {{"metrics.jsonl", "old", "new"},
             {"model.safetensors", "old", "new"},
             {"best.safetensors", "old", "new"},
             {"logits.npy", "old", ""},
             {"trace.json", "", "new"},
             {"tb/events.out.tfevents.1", "old", ""},
             {"checkpoint/epoch-7.ckpt", "old", ""},
             {"checkpoint/epoch-8.ckpt", "old", "new"},
             {"checkpoint/epoch-9.ckpt", "", "new"},
             {"result.json", "old", "new"}};
enum { N_FILE = sizeof files / sizeof *files };

static void put(const char *where, const char *path, const char *text)
{
    char whole[128];
    snprintf(whole, sizeof whole, "%s%s", where, path);
    if (text[0] != '\0') {
        folder_write(whole, text);
    }
}

static void prepare(void)
{
    static const char *const folders[] = {
        "o", "o/tb", "o/checkpoint", "o/.run-7", "o/.run-7/checkpoint", "o/.run-7/checkpoint.old", "o/.run-6"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        mkdir(folders[i], 0777);
    }
    for (int i = 0; i < N_FILE; i++) {
        put("o/", files[i].path, files[i].older);
        put("o/.run-7/", files[i].path, files[i].newer);
    }
    put("o/", "mine", "mine");
    put("o/", "checkpoint/mine", "mine");
    put("o/.run-7/", "model.safetensors.01234567.tmp", "half");
    put("o/.run-7/", "checkpoint.old/epoch-3.ckpt", "older");
    put("o/.run-6/", "metrics.jsonl", "unfinished");
}

static const char *text_at(const char *path)
{
    static char text[64];
    text[0] = '\0';
    if (folder_has(path)) {
        folder_read(path, text, sizeof text);
    }
    return text;
}

static void expect(const char *path, const char *text, int at)
{
    char whole[128];
    snprintf(whole, sizeof whole, "o/%s", path);
    cr_assert_str_eq(text_at(whole), text, "%s, killed at step %d", path, at);
}

static void expect_new(int at)
{
    for (int i = 0; i < N_FILE; i++) {
        expect(files[i].path, files[i].newer, at);
    }
    expect("mine", "mine", at);
    expect("checkpoint/mine", "mine", at);
    expect(".run-6/metrics.jsonl", "unfinished", at);
    cr_assert(!folder_has("o/.run-7") && !folder_has("o/.publish") && !folder_has("o/tb"), "killed at step %d", at);
}

static enum status publish_begin_in(const char *home)
{
    struct dir dir;
    cr_assert_eq(dir_open(home, DIR_LAST_NO_LINK, &dir), STATUS_OK);
    enum status status = publish_begin(&dir, ".run-7");
    dir_close(&dir);
    return status;
}

static enum status publish_finish_in(const char *home)
{
    struct dir dir;
    cr_assert_eq(dir_open(home, DIR_LAST_NO_LINK, &dir), STATUS_OK);
    enum status status = publish_finish(&dir);
    dir_close(&dir);
    return status;
}

/* Publish in a process that dies at that pass of the point; true: it has died. */
static bool publish_until(const char *point, int at)
{
    int how;
    pid_t child = fork();
    if (child == 0) {
        char text[64];
        snprintf(text, sizeof text, "publisher.%s=kill@%d", point, at);
        setenv("TRAINERD_FAULTS", text, 1);
        bool is_done = fault_arm("publisher", 0) == STATUS_OK && publish_begin_in("o") == STATUS_OK &&
                       publish_finish_in("o") == STATUS_OK;
        _exit(is_done ? 0 : 1);
    }
    cr_assert_eq(waitpid(child, &how, 0), child);
    cr_assert(WIFSIGNALED(how) || WEXITSTATUS(how) == 0);
    return WIFSIGNALED(how);
}

static void again(void)
{
    folder_remove();
    begin();
    prepare();
}

Test(publish, a_runs_files_replace_the_older_results_and_no_others)
{
    prepare();
    cr_assert_eq(publish_begin_in("o"), STATUS_OK, "%s", status_reason());
    cr_assert_eq(publish_finish_in("o"), STATUS_OK, "%s", status_reason());
    expect_new(0);
    cr_assert_eq(publish_finish_in("o"), STATUS_OK, "nothing is left to do");
}

Test(publish, a_users_file_in_a_runs_folder_stays_with_it)
{
    prepare();
    put("o/.run-7/", "notes", "mine");
    put("o/.run-7/", "checkpoint.old/notes", "mine");
    cr_assert_eq(publish_begin_in("o"), STATUS_OK, "%s", status_reason());
    cr_assert_eq(publish_finish_in("o"), STATUS_OK, "%s", status_reason());
    expect("result.json", "new", 0);
    expect(".run-7/notes", "mine", 0);
    expect(".run-7/checkpoint.old/notes", "mine", 0);
    cr_assert(!folder_has("o/.publish") && !folder_has("o/.run-7/checkpoint.old/epoch-3.ckpt"));
}

Test(publish, killed_between_every_two_moves_the_next_start_completes_it)
{
    int n = 0;
    for (bool died = true; died;) {
        again();
        died = publish_until("move", ++n);
        const char *result = text_at("o/result.json");
        cr_assert(n == 1 ? strcmp(result, "old") == 0 : result[0] == '\0' || strcmp(result, "new") == 0,
                  "step %d: %s", n, result);
        if (strcmp(result, "new") == 0) {
            for (int i = 0; i < N_FILE; i++) {
                expect(files[i].path, files[i].newer, n);
            }
        }
        cr_assert_eq(publish_finish_in("o"), STATUS_OK, "step %d: %s", n, status_reason());
        expect_new(n);
    }
    /* the older result.json, six new files, three old ones, result.json; its first name, the others', the folder, the
     * journal; then none */
    cr_assert_eq(n, 16, "%d steps", n);
}

Test(publish, killed_while_the_journal_is_written_the_older_results_are_whole)
{
    static const char *const points[] = {"write", "fsync", "rename"};
    for (size_t p = 0; p < sizeof points / sizeof *points; p++) {
        again();
        cr_assert(publish_until(points[p], 1));
        cr_assert_eq(publish_finish_in("o"), STATUS_OK, "%s", status_reason());
        for (int i = 0; i < N_FILE; i++) {
            expect(files[i].path, files[i].older, 0);
        }
        cr_assert_str_eq(text_at("o/.run-7/result.json"), "new");
    }
}

Test(publish, killed_twice_it_still_goes_on)
{
    prepare();
    cr_assert(publish_until("move", 6));
    int how;
    pid_t child = fork();
    if (child == 0) {
        setenv("TRAINERD_FAULTS", "publisher.move=kill@3", 1);
        _exit(fault_arm("publisher", 0) == STATUS_OK && publish_finish_in("o") == STATUS_OK ? 0 : 1);
    }
    cr_assert_eq(waitpid(child, &how, 0), child);
    cr_assert(WIFSIGNALED(how));
    cr_assert_eq(publish_finish_in("o"), STATUS_OK, "%s", status_reason());
    expect_new(6);
}

Test(publish, a_journal_that_is_damaged_is_refused_and_nothing_is_moved)
{
    static const char *const texts[] = {"",
                                        "trainerd results 2\n",
                                        "trainerd results 2\n.run-7",
                                        "trainerd results 1\n.run-7\nresult.json\n",
                                        "trainerd results 2\n../x\n",
                                        "trainerd results 2\n.run-/../x\n",
                                        "trainerd results 2\n.run-7\nresult.json\n"};
    char long_name[NAME_MAX + 64] = "trainerd results 2\n.run-";
    prepare();
    for (size_t i = 0; i <= sizeof texts / sizeof *texts; i++) {
        bool is_last = i == sizeof texts / sizeof *texts;
        memset(long_name + strlen(long_name), '7', is_last ? NAME_MAX : 0);
        folder_write("o/.publish", is_last ? strcat(long_name, "\n") : texts[i]);
        cr_assert_eq(publish_finish_in("o"), STATUS_DATA, "case %zu", i);
        cr_assert(strstr(status_reason(), "'o/.publish' is damaged: "), "case %zu: %s", i, status_reason());
    }
    expect("result.json", "old", 0);
    expect(".run-7/result.json", "new", 0);
}

Test(publish, a_run_without_a_result_is_not_removed)
{
    prepare();
    cr_assert_eq(publish_begin_in("o"), STATUS_OK);
    cr_assert(unlink("o/.run-7/result.json") == 0 && unlink("o/result.json") == 0);
    cr_assert_eq(publish_finish_in("o"), STATUS_IO);
    cr_assert(strstr(status_reason(), "'o/result.json' is gone"), "%s", status_reason());
    expect(".run-7/trace.json", "new", 0);
}
