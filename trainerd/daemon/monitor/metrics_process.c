/* This process as /proc shows it. */
#include "protocol/base/amounts.h"
#include "protocol/base/cgroup.h"
#include "trainerd/daemon/monitor/metrics.h"

#include <dirent.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

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

static void print_stat(FILE *file)
{
    char text[1024];
    FILE *stat = fopen("/proc/self/stat", "re");
    size_t n = stat != NULL ? fread(text, 1, sizeof text - 1, stat) : 0;
    if (stat != NULL) {
        fclose(stat);
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
        return;
    }
    double tick_s = 1.0 / (double)sysconf(_SC_CLK_TCK);
    int64_t boot_s = larger(cgroup_number_read("/proc/stat", "btime"), 0); /* since 1970; 0: not known */
    print(file, "process_cpu_seconds_total", "counter", "Processor time of the daemon.",
          (double)(user + system) * tick_s);
    print(file, "process_start_time_seconds", "gauge", "When the daemon started, in seconds since 1970.",
          (double)boot_s + (double)start * tick_s);
    print(file, "process_virtual_memory_bytes", "gauge", "Address space of the daemon.", (double)size);
    print(file, "process_resident_memory_bytes", "gauge", "Memory that the daemon holds.",
          (double)resident * (double)sysconf(_SC_PAGESIZE));
}

void metrics_print_process(FILE *file)
{
    struct rlimit files;
    print_stat(file);
    print(file, "process_open_fds", "gauge", "Files that the daemon has open.", n_open_file());
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        print(file, "process_max_fds", "gauge", "Files that the daemon may have open.", (double)files.rlim_cur);
    }
}
