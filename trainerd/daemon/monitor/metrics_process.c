/* This process as /proc shows it. */
#include "trainerd/daemon/monitor/metrics.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct facts {
    double cpu_s, start_s, virtual_bytes, resident_bytes;
};

/* When the machine booted, in seconds since 1970; 0: not known. */
static double boot_s(void)
{
    FILE *file = fopen("/proc/stat", "re");
    char *line = NULL;
    size_t n_line = 0;
    double at = 0;
    if (file == NULL) {
        return 0;
    }
    while (at == 0 && getline(&line, &n_line, file) > 0) {
        sscanf(line, "btime %lf", &at);
    }
    free(line);
    fclose(file);
    return at;
}

static bool facts_read(struct facts *out)
{
    char text[1024];
    FILE *file = fopen("/proc/self/stat", "re");
    size_t n = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file != NULL) {
        fclose(file);
    }
    text[n] = '\0';
    /* The program's name, in parentheses, may hold any character. */
    const char *after = strrchr(text, ')');
    unsigned long long user, system, start, size;
    long long resident;
    if (after == NULL ||
        sscanf(after + 1,
               " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu %*s %*s %*s %*s %*s %*s %llu %llu %lld", &user,
               &system, &start, &size, &resident) != 5) {
        return false;
    }
    double tick_s = 1.0 / (double)sysconf(_SC_CLK_TCK);
    *out = (struct facts){.cpu_s = (double)(user + system) * tick_s,
                          .start_s = boot_s() + (double)start * tick_s,
                          .virtual_bytes = (double)size,
                          .resident_bytes = (double)resident * (double)sysconf(_SC_PAGESIZE)};
    return true;
}

static int n_open_file(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int n = -3; /* ".", ".." and this folder itself */
    if (folder == NULL) {
        return 0;
    }
    while (readdir(folder) != NULL) {
        n++;
    }
    closedir(folder);
    return n;
}

static void print(FILE *file, const char *name, const char *type, const char *help, double value)
{
    metrics_print_head(file, name, type, help);
    metrics_print_value(file, name, "", value);
}

void metrics_print_process(FILE *file)
{
    struct facts facts;
    if (facts_read(&facts)) {
        print(file, "process_cpu_seconds_total", "counter", "Processor time of the daemon.", facts.cpu_s);
        print(file, "process_start_time_seconds", "gauge", "When the daemon started, in seconds since 1970.",
              facts.start_s);
        print(file, "process_virtual_memory_bytes", "gauge", "Address space of the daemon.", facts.virtual_bytes);
        print(file, "process_resident_memory_bytes", "gauge", "Memory that the daemon holds.", facts.resident_bytes);
    }
    struct rlimit files;
    print(file, "process_open_fds", "gauge", "Files that the daemon has open.", n_open_file());
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        print(file, "process_max_fds", "gauge", "Files that the daemon may have open.", (double)files.rlim_cur);
    }
}
