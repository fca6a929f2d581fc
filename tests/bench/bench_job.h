/* What benchmarks of whole jobs share: a folder with a job file, run by the programs beside the benchmark. */
#ifndef TESTS_BENCH_BENCH_JOB_H
#define TESTS_BENCH_BENCH_JOB_H

#include <jansson.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BENCH_TEXT_BYTES 2048

static char bench_folder[] = "/tmp/bench-job-XXXXXX";

/* The path of a file of the folder, until the next call. */
static inline const char *bench_path(const char *name)
{
    static char path[BENCH_TEXT_BYTES];
    snprintf(path, sizeof path, "%s/%s", bench_folder, name);
    return path;
}

/* Make the folder and write the job file. */
static inline void bench_job_open(const char *text)
{
    FILE *file = mkdtemp(bench_folder) != NULL ? fopen(bench_path("job.toml"), "w") : NULL;
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0) {
        perror(bench_folder);
        exit(1);
    }
}

/* Run a program beside the benchmark, what it prints going to a file of the folder; one that fails ends the benchmark. */
static inline void bench_program(const char *arguments, const char *settings, const char *out)
{
    char self[BENCH_TEXT_BYTES], command[3 * BENCH_TEXT_BYTES];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    snprintf(command, sizeof command, "%s/trainerd %s %s/job.toml --set output.dir=%s/o %s >%s/%s 2>%s/log",
             dirname(self), arguments, bench_folder, bench_folder, settings, bench_folder, out, bench_folder);
    if (system(command) != 0) {
        fprintf(stderr, "failed, see %s/log: %s\n", bench_folder, command);
        exit(1);
    }
}

static inline json_t *bench_json(const char *name)
{
    json_t *value = json_load_file(bench_path(name), 0, NULL);
    if (value == NULL) {
        fprintf(stderr, "%s: expected JSON\n", bench_path(name));
        exit(1);
    }
    return value;
}

/* Run the job with further settings; returns its result.json; its other files are in "o". */
static inline json_t *bench_job_run(const char *settings)
{
    bench_program("--config", settings, "printed");
    return bench_json("o/result.json");
}

/* What --plan says of the job with further settings. */
static inline json_t *bench_job_plan(const char *settings)
{
    bench_program("--json --plan", settings, "printed");
    return bench_json("printed");
}

/* Remove the folder; returns main's exit code. */
static inline int bench_job_close(void)
{
    char command[BENCH_TEXT_BYTES];
    snprintf(command, sizeof command, "rm -r %s", bench_folder);
    return system(command) == 0 ? 0 : 1;
}

#endif
