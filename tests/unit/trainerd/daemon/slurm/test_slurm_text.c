#include "tests/support/process/expect.h"
#include "trainerd/daemon/slurm/slurm_text.h"

#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(slurm_text, .init = folder_make, .fini = folder_remove);

#define STORE "0123456789abcdef0123456789abcdef"

/* --- options --- */

static char copy[1024], *words[SLURM_OPTIONS_MOST];
static size_t n_word;

static enum status options(const char *text)
{
    return slurm_options_read(text, copy, words, &n_word);
}

Test(slurm_text, options_are_words_between_blanks)
{
    expect_done(options(" --partition=gpu  --account=lab --exclusive\n"));
    cr_assert_eq(n_word, 3);
    cr_assert_str_eq(words[0], "--partition=gpu");
    cr_assert_str_eq(words[2], "--exclusive");
    cr_assert_eq(options(""), STATUS_OK);
    cr_assert_eq(n_word, 0);
}

Test(slurm_text, what_is_no_long_option_or_the_daemons_own_is_refused_with_its_name)
{
    static const struct {
        const char *text, *words;
    } bad[] = {{"-p gpu", "'-p' is no long option"},
               {"--partition gpu", "'gpu' is no long option"},
               {"--", "'--' is no long option"},
               {"--=x", "'--=x' is no long option"},
               {"--qos=low --comment=mine", "--comment is given by the daemon"},
               {"--wrap=true", "--wrap is given by the daemon"},
               {"--requeue", "--requeue is given by the daemon"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_eq(options(bad[i].text), STATUS_CONFIG, "%s", bad[i].text);
        expect_reason(bad[i].words);
    }
    char many[6 * (SLURM_OPTIONS_MOST + 1) + 1] = "";
    for (int i = 0; i <= SLURM_OPTIONS_MOST; i++) {
        strcat(many, "--opt ");
    }
    cr_assert_eq(options(many), STATUS_CONFIG);
}

/* --- sbatch --- */

static struct slurm_request request = {.sbatch = "/usr/bin/sbatch",
                                       .comment = "c",
                                       .name = "n",
                                       .folder = "/home/a b",
                                       .log = "/state/log",
                                       .n_task = 3,
                                       .n_cpu = 2,
                                       .memory = (100 << 20) + 1};

static bool has(char **arguments, const char *wanted)
{
    for (size_t i = 0; arguments[i] != NULL; i++) {
        if (strncmp(arguments[i], wanted, strlen(wanted)) == 0 &&
            (strchr(wanted, '=') == NULL || strcmp(arguments[i], wanted) == 0)) {
            return true;
        }
    }
    return false;
}

Test(slurm_text, a_job_asks_for_its_tasks_cores_and_memory_and_is_held)
{
    char **all = slurm_arguments(&request);
    cr_assert_str_eq(all[0], "/usr/bin/sbatch");
    cr_assert(has(all, "--hold") && has(all, "--no-requeue") && has(all, "--parsable"));
    cr_assert(has(all, "--ntasks=3") && has(all, "--cpus-per-task=2"));
    cr_assert(has(all, "--mem-per-cpu=51M"), "rounded up");
    cr_assert(has(all, "--chdir=/home/a b") && has(all, "--output=/state/log") && has(all, "--open-mode=append"));
    cr_assert_not(has(all, "--gpus-per-task") || has(all, "--time") || has(all, "--nice"));
    texts_free(all);
}

Test(slurm_text, options_of_the_administrator_stand_before_the_daemons_own)
{
    char *const own[] = {"--partition=gpu"};
    request.options = own;
    request.n_option = 1;
    request.has_gpus = true;
    request.n_minute = 90;
    request.priority = -5;
    char **all = slurm_arguments(&request);
    cr_assert_str_eq(all[1], "--partition=gpu");
    cr_assert(has(all, "--gpus-per-task=1") && has(all, "--time=90") && has(all, "--nice=5"));
    texts_free(all);
    request.priority = 5; /* which Slurm's users may not ask for */
    all = slurm_arguments(&request);
    cr_assert_not(has(all, "--nice"));
    texts_free(all);
}

/* Run the script and give what its program has printed. */
static void script_run(char *const *argv, const char *input, char out[4096])
{
    char line[256];
    folder_write("program", "#!/bin/bash\nprintf '<%s>' \"$@\"\n[ -f /dev/stdin ] && cat\n");
    snprintf(line, sizeof line,
             "cd '%s' && chmod 755 program && TMPDIR='%s' bash script > out && [ \"$(ls | wc -l)\" = 3 ]", folder,
             folder);
    char *script = slurm_script(folder_path("program"), argv, input);
    cr_assert_null(strchr(script, '\r'), "sbatch refuses it");
    folder_write("script", script);
    free(script);
    cr_assert_eq(system(line), 0);
    folder_read("out", out, 4096);
}

Test(slurm_text, the_script_gives_arguments_and_input_unchanged_and_leaves_no_file)
{
    char out[4096];
    char *const argv[] = {"trainer-coordinator", "--set", "name=it's; $(touch harm) `x` \"y\" \\ *", "",
                          "two\nlines",          NULL};
    script_run(argv, "[job]\r\nname = 'a'\n#SBATCH --uid=0\n\\n %s $HOME\n", out);
    cr_assert_str_eq(out, "<--set><name=it's; $(touch harm) `x` \"y\" \\ *><><two\nlines>"
                          "[job]\r\nname = 'a'\n#SBATCH --uid=0\n\\n %s $HOME\n");
}

/* --- answers --- */

Test(slurm_text, sbatch_prints_a_number_and_nothing_else)
{
    int64_t number = 0;
    cr_assert_eq(slurm_number_read("123\n", &number), STATUS_OK);
    cr_assert_eq(number, 123);
    cr_assert_eq(slurm_number_read("4294967295;cluster\n", &number), STATUS_OK);
    cr_assert_eq(number, 4294967295);
    static const char *const bad[] = {
        "", "\n", "0\n", "12", "-3\n", "4294967296\n", "1 2\n", "Submitted batch job 3\n", "3\n4\n", "3x\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_eq(slurm_number_read(bad[i], &number), STATUS_DATA, "%s", bad[i]);
        expect_reason("expected the number of a job");
    }
}

static struct slurm_look looks[8];
static size_t n_look;

static void keep(void *context, const struct slurm_look *look)
{
    (void)context;
    looks[n_look++] = *look;
}

static enum status looks_of(const char *text)
{
    n_look = 0;
    return slurm_looks_read(text, strlen(text), STORE, keep, NULL);
}

Test(slurm_text, squeues_lines_of_this_store_are_jobs_with_their_state)
{
    static const char text[] = "11|PENDING|JobHeldUser|trainerd:" STORE ":1:2\n"
                               "12|PENDING|ReqNodeNotAvail, UnavailableNodes:a,b|trainerd:" STORE ":2:1\n"
                               "13|PENDING|JobHeldAdmin|trainerd:" STORE ":3:1\n"
                               "14|RUNNING|None|trainerd:" STORE ":4:1\n"
                               "15|COMPLETING|None|trainerd:" STORE ":5:1\n"
                               "16|NODE_FAIL|NodeDown|trainerd:" STORE ":6:1\n"
                               "17|RUNNING|None|trainerd:ffffffffffffffffffffffffffffffff:6:1\n"
                               "18|RUNNING|None|(null)\n"
                               "19|RUNNING|None|a comment\nof two lines\n";
    static const enum slurm_state states[] = {SLURM_STATE_HELD, SLURM_STATE_WAITS, SLURM_STATE_WAITS,
                                              SLURM_STATE_RUNS, SLURM_STATE_RUNS,  SLURM_STATE_ENDED};
    expect_done(looks_of(text));
    cr_assert_eq(n_look, 6);
    for (size_t i = 0; i < n_look; i++) {
        cr_assert(looks[i].number == 11 + (int64_t)i && looks[i].job == 1 + (int64_t)i && looks[i].state == states[i],
                  "%zu", i);
    }
    cr_assert_eq(looks[0].attempt, 2);
    cr_assert_str_eq(looks[1].why, "ReqNodeNotAvail, UnavailableNodes:a,b");
    cr_assert_str_eq(looks[5].name, "NODE_FAIL");
}

Test(slurm_text, a_comment_is_read_as_it_was_made)
{
    char comment[SLURM_COMMENT_BYTES], line[2 * SLURM_COMMENT_BYTES];
    slurm_comment(STORE, 999999999999, INT32_MAX, comment);
    snprintf(line, sizeof line, "1|RUNNING|None|%s", comment); /* the last line may have no line break */
    expect_done(looks_of(line));
    cr_assert(n_look == 1 && looks[0].job == 999999999999 && looks[0].attempt == INT32_MAX);
}

Test(slurm_text, a_line_with_this_stores_comment_that_is_no_job_is_refused)
{
    static const char *const bad[] = {"|RUNNING|None|trainerd:" STORE ":1:1\n",
                                      "x|RUNNING|None|trainerd:" STORE ":1:1\n",
                                      "7|RUNNING|trainerd:" STORE ":1:1\n",
                                      "7||None|trainerd:" STORE ":1:1\n",
                                      "7|RUNNING|None|trainerd:" STORE ":1\n",
                                      "7|RUNNING|None|trainerd:" STORE ":0:1\n",
                                      "7|RUNNING|None|trainerd:" STORE ":1:0\n",
                                      "7|RUNNING|None|trainerd:" STORE ":1:1 \n",
                                      "7|trainerd:" STORE ":1:1\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_eq(looks_of(bad[i]), STATUS_DATA, "%s", bad[i]);
        expect_reason("expected NUMBER|STATE|REASON|COMMENT");
    }
}
