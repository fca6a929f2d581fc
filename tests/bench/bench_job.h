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

/* Run the job with further settings; returns its result.json; its other files are in "o". A job that fails ends the benchmark. */
static inline json_t *bench_job_run(const char *settings)
{
    char self[BENCH_TEXT_BYTES], command[3 * BENCH_TEXT_BYTES];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    snprintf(command, sizeof command, "%s/trainerd --config %s/job.toml --set output.dir=%s/o %s 2>%s/log", dirname(self),
             bench_folder, bench_folder, settings, bench_folder);
    json_t *result = system(command) == 0 ? json_load_file(bench_path("o/result.json"), 0, NULL) : NULL;
    if (result == NULL) {
        fprintf(stderr, "failed, see %s/log: %s\n", bench_folder, command);
        exit(1);
    }
    return result;
}

/* Remove the folder; returns main's exit code. */
static inline int bench_job_close(void)
{
    char command[BENCH_TEXT_BYTES];
    snprintf(command, sizeof command, "rm -r %s", bench_folder);
    return system(command) == 0 ? 0 : 1;
}

#endif
