/* Links planted in an output folder between every two steps of a run, by somebody who may write there: whatever the run makes of them, what
 * they lead to keeps its bytes, and the run ends with a reason. TEST_THOROUGH plants every kind at every step, else one kind at a step. */
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char program[PATH_MAX];

/* Names of a run's files: each has a file of that name in the folder "precious", which a link to the folder would lead to. */
static const char *const names[] = {"metrics.jsonl", "result.json", "model.safetensors", "best.safetensors",
                                    "logits.npy",    "trace.json",  ".publish",          "epoch-1.ckpt",
                                    "epoch-2.ckpt",  "note.txt"};
enum { N_NAME = sizeof names / sizeof *names };

static void make_all(void)
{
    program_find("trainer-coordinator", program, sizeof program);
    folder_make();
    folder_write("job.toml",
                 "[dataset]\ngenerator = \"karate\"\n[partition]\nparts = 2\ncache = \"off\"\n[model]\nhidden = 8\n"
                 "[train]\nepochs = 2\ncheckpoint_every = 1\n[workers]\ncount = 1\nthreads = 1\n"
                 "[output]\ndir = \"o\"\ntrace = true\n");
    cr_assert_eq(mkdir(folder_path("precious"), 0777), 0);
    for (int i = 0; i < N_NAME; i++) {
        char path[64];
        snprintf(path, sizeof path, "precious/%s", names[i]);
        folder_write(path, "precious");
    }
}

TestSuite(planted, .init = make_all, .fini = folder_remove, .timeout = 1800);

/* Start the job; false: it has ended without passing the point so often. */
static bool starts_and_stops(const char *fault, pid_t *pid_out, int *state_out)
{
    pid_t self = getpid(), pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        die_with(self);
        int out = open(folder_path("stderr"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(out, STDERR_FILENO);
        dup2(out, STDOUT_FILENO);
        setenv("TRAINERD_FAULTS", fault, 1);
        if (chdir(folder) == 0) {
            execl(program, program, "--config", "job.toml", (char *)NULL);
        }
        _exit(99);
    }
    while (waitpid(pid, state_out, WUNTRACED) != pid) {
        cr_assert_eq(errno, EINTR);
    }
    *pid_out = pid;
    return WIFSTOPPED(*state_out);
}

static int is_entry(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

/* --- what is planted --- */

enum kind { KIND_FILES, KIND_FOLDERS, KIND_NEW, KIND_OUTPUT, KIND_N };

/* Move an entry away and put a link in its place. */
static void replace(const char *path, const char *target)
{
    char aside[2 * PATH_MAX];
    snprintf(aside, sizeof aside, "%s/moved.%d", folder, rand());
    cr_assert_eq(rename(path, aside), 0, "%s", path);
    cr_assert_eq(symlink(folder_path(target), path), 0, "%s", path);
}

/* Put a link of another user in the place of the output folder itself. */
static void replace_output(const char *path)
{
    replace(path, "precious");
    cr_assert(lchown(path, 65534, 65534) == 0 || geteuid() != 0);
}

/* Below a folder of the run: all files, or all folders, or names that the run is to make. */
static void plant(const char *where, enum kind kind)
{
    struct dirent **entry;
    int n = scandir(where, &entry, is_entry, NULL);
    cr_assert_geq(n, 0, "%s", where);
    for (int i = 0; i < n; i++) {
        char path[PATH_MAX];
        struct stat about;
        snprintf(path, sizeof path, "%s/%s", where, entry[i]->d_name);
        cr_assert_eq(lstat(path, &about), 0, "%s", path);
        if (S_ISDIR(about.st_mode)) {
            plant(path, kind);
        }
        if (kind == KIND_FOLDERS && S_ISDIR(about.st_mode)) {
            replace(path, "precious");
        } else if (kind == KIND_FILES && S_ISREG(about.st_mode)) {
            replace(path, "precious/note.txt");
        }
        free(entry[i]);
    }
    free(entry);
    for (int i = 0; i < N_NAME && kind == KIND_NEW; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", where, names[i]);
        cr_assert(symlink(folder_path("precious/note.txt"), path) == 0 || errno == EEXIST, "%s", path);
    }
}

/* --- what must be left --- */

static void expect_untouched(const char *when, const char *log)
{
    struct dirent **entry;
    char path[64], text[64];
    for (int i = 0; i < N_NAME; i++) {
        snprintf(path, sizeof path, "precious/%s", names[i]);
        cr_assert(folder_has(path), "%s: %s was removed: %s", when, path, log);
        folder_read(path, text, sizeof text);
        cr_assert_str_eq(text, "precious", "%s: %s: %s", when, path, log);
    }
    int n = scandir(folder_path("precious"), &entry, is_entry, NULL);
    for (int i = 0; i < n; i++) {
        free(entry[i]);
    }
    free(entry);
    cr_assert_eq(n, N_NAME, "%s: something was made there: %s", when, log);
}

/* Done, bad data, a missing file, no output, or an error of input and output; never a bug or a signal. */
static void expect_end(const char *when, int state, const char *log)
{
    static const int codes[] = {0, 65, 66, 73, 74};
    bool is_good = false;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        is_good = is_good || (WIFEXITED(state) && WEXITSTATUS(state) == codes[i]);
    }
    cr_assert(is_good, "%s: state %x: %s", when, (unsigned)state, log);
    cr_assert(WEXITSTATUS(state) == 0 || strstr(log, "trainerd: ") != NULL, "%s: no reason in: %s", when, log);
}

static void sweep(const char *dir)
{
    char command[2 * PATH_MAX];
    snprintf(command, sizeof command, "rm -rf '%s/%s' '%s'/moved.*", folder, dir, folder);
    cr_assert_eq(system(command), 0);
}

/* Older results are there, since a run also replaces them. false: the point is not passed so often */
static bool planted_at(const char *point, int count, enum kind kind)
{
    static char log[1 << 16];
    char fault[64], when[96], output[PATH_MAX], command[2 * PATH_MAX];
    pid_t pid;
    int state;
    sweep("o");
    snprintf(command, sizeof command, "cp -a '%s/older' '%s/o'", folder, folder);
    cr_assert_eq(system(command), 0);
    snprintf(fault, sizeof fault, "coordinator.%s=stop@%d", point, count);
    snprintf(when, sizeof when, "%s, %s", fault,
             kind == KIND_FILES     ? "files are links"
             : kind == KIND_FOLDERS ? "folders are links"
             : kind == KIND_OUTPUT  ? "the output folder is a link"
                                    : "new names are links");
    if (!starts_and_stops(fault, &pid, &state)) {
        cr_assert(WIFEXITED(state) && WEXITSTATUS(state) == 0, "%s: state %x", when, (unsigned)state);
        return false;
    }
    snprintf(output, sizeof output, "%s/o", folder);
    if (kind == KIND_OUTPUT) {
        replace_output(output);
    } else {
        plant(output, kind);
    }
    cr_assert_eq(kill(pid, SIGCONT), 0);
    cr_assert_eq(waitpid(pid, &state, 0), pid);
    folder_read("stderr", log, sizeof log);
    expect_untouched(when, log);
    expect_end(when, state, log);
    return true;
}

Test(planted, links_between_every_two_steps_of_a_run_lead_to_nothing_that_it_changes)
{
    static const char *const points[] = {"load", "checkpoint", "write", "rename",  "results",
                                         "move", "launch",     "fsync", "renamed", "finish"};
    enum { N_POINT = sizeof points / sizeof *points, N_SHORT = 6 };
    bool is_thorough = getenv("TEST_THOROUGH") != NULL;
    pid_t pid;
    int state, n = 0;
    cr_assert_not(starts_and_stops("", &pid, &state));
    cr_assert(WIFEXITED(state) && WEXITSTATUS(state) == 0);
    cr_assert_eq(rename(folder_path("o"), folder_path("older")), 0);
    for (int i = 0; i < (is_thorough ? N_POINT : N_SHORT); i++) {
        bool passes = true;
        for (int count = 1; passes; count++) {
            int n_kind = geteuid() == 0 ? KIND_N : KIND_OUTPUT; /* only root makes links of others */
            int first = is_thorough ? 0 : count % n_kind, last = is_thorough ? n_kind - 1 : first;
            for (int kind = first; kind <= last && passes; kind++) {
                passes = planted_at(points[i], count, (enum kind)kind);
                n += passes;
            }
        }
    }
    fprintf(stderr, "links were planted %d times\n", n);
    cr_assert_gt(n, 20, "few steps were found");
}
