#include "protocol/job/job.h"
#include "protocol/job/job_keys.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *describe(bool markdown)
{
    char *text = NULL;
    size_t n = 0;
    FILE *file = open_memstream(&text, &n);
    job_describe(file, markdown);
    fclose(file);
    return text;
}

Test(job_describe, every_key_is_in_both_forms_of_the_reference)
{
    char *plain = describe(false), *markdown = describe(true);
    for (int i = 0; i < JOB_KEY_N; i++) {
        char row[640], help[JOB_HELP_BYTES];
        job_key_help((enum job_key_id)i, help);
        snprintf(row, sizeof row, "\n  %-20s %s\n", job_keys[i].name, help);
        cr_assert_not_null(strstr(plain, row), "%s", row);
        snprintf(row, sizeof row, "\n| `%s` |", job_keys[i].name);
        cr_assert_not_null(strstr(markdown, row), "%s", row);
        cr_assert_not_null(strstr(markdown, help));
    }
    free(plain);
    free(markdown);
}

Test(job_describe, the_reference_in_configs_is_the_one_that_make_docs_writes)
{
    FILE *file = fopen("configs/README.md", "r");
    cr_assert_not_null(file, "run from the root of the repository");
    char *want = describe(true), *found = calloc(1, 1 << 20);
    cr_assert_gt(fread(found, 1, (1 << 20) - 1, file), 0);
    cr_assert(strcmp(want, found) == 0, "configs/README.md is stale: make docs");
    fclose(file);
    free(want);
    free(found);
}

Test(job_describe, every_default_is_inside_its_range_and_available)
{
    for (int i = 0; i < JOB_KEY_N; i++) {
        const struct job_key *key = &job_keys[i];
        if (key->type == JOB_TYPE_INT || key->type == JOB_TYPE_SIZE) {
            cr_assert(key->int_default >= key->int_least && key->int_default <= key->int_most, "%s", key->name);
        } else if (key->type == JOB_TYPE_REAL) {
            cr_assert(key->real_default >= key->real_least && key->real_default <= key->real_most, "%s", key->name);
        } else if (key->type == JOB_TYPE_CHOICE) {
            cr_assert(key->int_default >= 0 && key->int_default < key->n_choice, "%s", key->name);
        }
    }
}

Test(job_describe, every_job_file_in_configs_is_a_good_one)
{
    glob_t files;
    cr_assert_eq(glob("configs/*.toml", 0, NULL, &files), 0);
    cr_assert_geq(files.gl_pathc, 10);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        static struct job job;
        if (strcmp(files.gl_pathv[i], "configs/trainerd.toml") == 0) { /* the daemon's own */
            continue;
        }
        cr_expect_eq(job_load(files.gl_pathv[i], NULL, 0, &job), STATUS_OK, "%s", status_reason());
    }
    globfree(&files);
}
