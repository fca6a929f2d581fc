/* Checks of this machine: each reports its finding, and advice where it is not enough. Versions of libraries that
 * trainctl does not link come from the programs that do. */
#include "protocol/base/memory.h"
#include "protocol/base/program.h"
#include "protocol/base/version.h"
#include "protocol/files/capture.h"
#include "trainerd/ctl/base/run.h"
#include "trainerd/ctl/base/text.h"

#include <dirent.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* A program that does not end; and one whose driver may take long to begin. */
#define WAIT_S 10.0
#define GPUS_WAIT_S 60.0

enum verdict { VERDICT_OK, VERDICT_WARN, VERDICT_FAIL };

static const char *const verdict_names[] = {"ok", "warn", "fail"};

struct doctor {
    json_t *checks;
    bool has_failed, has_gpu;
};

/* Add a check. advice: for warnings and failures */
static void note(struct doctor *doctor, enum verdict verdict, const char *name, const char *advice,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));

static void note(struct doctor *doctor, enum verdict verdict, const char *name, const char *advice,
                 const char *format, ...)
{
    char found[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(found, sizeof found, format, arguments);
    va_end(arguments);
    char *printable = text_printable(found);
    json_array_append_new(doctor->checks,
                          json_pack("{s:s, s:s, s:s, s:s}", "name", name, "verdict", verdict_names[verdict], "found",
                                    printable, "advice", verdict == VERDICT_OK ? "" : advice));
    free(printable);
    doctor->has_failed = doctor->has_failed || verdict == VERDICT_FAIL;
}

/* The rest of the line that begins with `begin`; false: no line does. */
static bool find_line(const char *text, const char *begin, char *out, size_t capacity)
{
    for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n'), line += line != NULL) {
        if (strncmp(line, begin, strlen(begin)) == 0) {
            line += strlen(begin);
            snprintf(out, capacity, "%.*s", (int)strcspn(line, "\n"), line);
            return true;
        }
    }
    return false;
}

/* --- programs and libraries --- */

static void check_programs(struct doctor *doctor)
{
    static const char *const names[] = {"trainerd", "trainer-coordinator", "trainer-worker", "trainer-partition"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[PATH_MAX], printed[1024], version[64] = "", library[64] = "", begin[64];
        snprintf(begin, sizeof begin, "%s ", names[i]);
        bool runs = program_beside(names[i], path) == STATUS_OK &&
                    capture((const char *const[]){path, "--version", NULL}, WAIT_S, printed, sizeof printed) &&
                    find_line(printed, begin, version, sizeof version);
        if (!runs) {
            note(doctor, VERDICT_FAIL, names[i],
                 "install it beside trainctl, with the libraries it needs (ldd shows them)", "does not run as %s",
                 path);
        } else {
            note(doctor, strcmp(version, TRAINERD_VERSION) == 0 ? VERDICT_OK : VERDICT_FAIL, names[i],
                 "install all programs of one version", "%s", version);
        }
        if (find_line(printed, "METIS ", library, sizeof library)) {
            note(doctor, VERDICT_OK, "METIS", "", "%s%s", library,
                 strstr(library, "32-bit") != NULL ? ": graphs up to 2^31 - 1 edges" : "");
        }
        if (find_line(printed, "UCX ", library, sizeof library)) {
            note(doctor, VERDICT_OK, "UCX", "", "%s", library);
        }
    }
}

/* Transports and their devices, from ucx_info: it runs in /, as it reads ./ucx.conf (program.c). */
static void check_ucx(struct doctor *doctor)
{
    static char printed[1 << 18];
    char found[400] = "", transport[32] = "", device[64], program[PATH_MAX];
    program_in_path("ucx_info", program);
    if (!capture((const char *const[]){"/bin/sh", "-c", "cd / && exec \"$0\" -d", program, NULL}, WAIT_S, printed,
                 sizeof printed)) {
        note(doctor, VERDICT_WARN, "UCX devices", "install ucx_info (Debian: ucx-utils) to see them",
             "ucx_info does not run");
        return;
    }
    for (char *line = printed; line != NULL; line = strchr(line, '\n'), line += line != NULL) {
        sscanf(line, "# Transport: %31s", transport);
        if (transport[0] != '\0' && sscanf(line, "# Device: %63s", device) == 1) {
            size_t n = strlen(found);
            snprintf(found + n, sizeof found - n, "%s%s/%s", n > 0 ? ", " : "", transport, device);
            transport[0] = '\0';
        }
    }
    bool has_memory = strstr(found, "posix/") != NULL || strstr(found, "sysv/") != NULL,
         has_tcp = strstr(found, "tcp/") != NULL;
    bool has_rdma = strstr(found, "rc_") != NULL || strstr(found, "dc_") != NULL;
    note(doctor,
         !has_memory             ? VERDICT_FAIL
         : !has_tcp && !has_rdma ? VERDICT_WARN
                                 : VERDICT_OK,
         "UCX devices",
         !has_memory ? "workers of one machine need posix or sysv shared memory: see UCX_TLS and /dev/shm"
                     : "workers on several machines need tcp or RDMA: see UCX_TLS and the network's devices",
         "%s", found);
}

/* What workers find, or why they find none. */
static void check_cuda(struct doctor *doctor)
{
    char worker[PATH_MAX], printed[4096] = "";
    bool has_gpu = program_beside("trainer-worker", worker) == STATUS_OK &&
                   capture((const char *const[]){worker, "--gpus", NULL}, GPUS_WAIT_S, printed, sizeof printed);
    for (const char *line = printed; has_gpu && *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
        note(doctor, VERDICT_OK, "CUDA", "", "GPU %.*s", (int)strcspn(line, "\n"), line);
    }
    doctor->has_gpu = has_gpu;
    if (has_gpu) {
        return;
    }
    printed[strcspn(printed, "\n")] = '\0';
    if (access("/proc/driver/nvidia/version", R_OK) == 0) {
        note(doctor, VERDICT_WARN, "CUDA", "see README.md, what a job on a GPU needs", "a driver is loaded, but %s",
             printed[0] != '\0' ? printed : "trainer-worker --gpus does not end");
    } else {
        note(doctor, VERDICT_OK, "CUDA", "", "no GPU: workers compute on the CPU");
    }
}

/* --- the machine --- */

/* The control group's CPU quota in cores; 0: none. */
static double quota_cores(void)
{
    double quota = 0, period = 0;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (file != NULL) {
        if (fscanf(file, "%lf %lf", &quota, &period) != 2) {
            quota = 0;
        }
        fclose(file);
    }
    return quota > 0 && period > 0 ? quota / period : 0;
}

static void check_cores(struct doctor *doctor)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    double quota = quota_cores();
    if (quota > 0 && quota < n) {
        note(doctor, VERDICT_WARN, "cores",
             "set workers.threads so that workers × threads is at most the quota: more threads wait for each other",
             "%d; the control group allows %.1f", n, quota);
    } else {
        note(doctor, VERDICT_OK, "cores", "", "%d", n);
    }
}

static void check_memory(struct doctor *doctor)
{
    int64_t n_all = memory_physical(), n_usable = memory_machine();
    note(doctor, n_usable < 1000000000 ? VERDICT_WARN : VERDICT_OK, "memory",
         "set memory.limit and memory.spill for graphs that are larger", "%s%s%s", figure_bytes(n_all).text,
         n_usable < n_all ? "; the control group allows " : "", n_usable < n_all ? figure_bytes(n_usable).text : "");
}

static void check_space(struct doctor *doctor, const char *name, const char *path, double warn_below,
                        double fail_below, const char *advice)
{
    struct statvfs info;
    if (statvfs(path, &info) != 0) {
        note(doctor, VERDICT_FAIL, name, advice, "%s does not exist", path);
        return;
    }
    double n_free = (double)info.f_bavail * (double)info.f_frsize;
    if (access(path, W_OK) != 0) {
        note(doctor, VERDICT_FAIL, name, advice, "%s cannot be written", path);
    } else {
        note(doctor,
             n_free < fail_below   ? VERDICT_FAIL
             : n_free < warn_below ? VERDICT_WARN
                                   : VERDICT_OK,
             name, advice, "%s free in %s", figure_bytes(n_free).text, path);
    }
}

/* Registered memory counts against memlock, and only RDMA registers memory. */
static void check_memlock(struct doctor *doctor)
{
    struct rlimit limit = {0};
    DIR *devices = opendir("/sys/class/infiniband");
    bool has_rdma = false;
    const struct dirent *entry;
    if (devices != NULL) {
        while ((entry = readdir(devices)) != NULL) {
            has_rdma = has_rdma || entry->d_name[0] != '.';
        }
        closedir(devices);
    }
    getrlimit(RLIMIT_MEMLOCK, &limit);
    bool is_enough = limit.rlim_cur == RLIM_INFINITY || !has_rdma;
    note(doctor, is_enough ? VERDICT_OK : VERDICT_WARN, "memlock",
         "RDMA needs it unlimited: ulimit -l, LimitMEMLOCK=infinity", "%s%s",
         limit.rlim_cur == RLIM_INFINITY ? "unlimited" : figure_bytes((double)limit.rlim_cur).text,
         has_rdma ? "" : ", and no RDMA device that would need more");
}

static void check_nofile(struct doctor *doctor)
{
    struct rlimit limit = {0};
    getrlimit(RLIMIT_NOFILE, &limit);
    bool is_few = limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < 1024;
    note(doctor, is_few ? VERDICT_WARN : VERDICT_OK, "open files", "raise it: ulimit -n 4096, LimitNOFILE=4096", "%s",
         limit.rlim_cur == RLIM_INFINITY ? "unlimited" : figure_whole((double)limit.rlim_cur).text);
}

/* Shared memory is files, too. */
static void check_file_size(struct doctor *doctor)
{
    struct rlimit limit = {0};
    getrlimit(RLIMIT_FSIZE, &limit);
    bool is_least = limit.rlim_cur < 16u << 20;
    note(doctor,
         limit.rlim_cur == RLIM_INFINITY ? VERDICT_OK
         : is_least                      ? VERDICT_FAIL
                                         : VERDICT_WARN,
         "size of files",
         "results, checkpoints and shared memory may need more: ulimit -f unlimited, LimitFSIZE=infinity", "%s",
         limit.rlim_cur == RLIM_INFINITY ? "unlimited" : figure_bytes((double)limit.rlim_cur).text);
}

/* Whether jobs of the daemon can have GPUs; an older daemon does not say. */
static void check_daemon_gpus(struct doctor *doctor, const struct ctl_arguments *arguments)
{
    json_t *answer = NULL;
    const json_t *gpu, *gpus;
    size_t i, n_free = 0;
    if (ctl_ask(arguments, json_pack("{s:s}", "cmd", "gpus"), &answer) == STATUS_OK) {
        gpus = json_object_get(answer, "gpus");
        json_array_foreach(gpus, i, gpu)
        {
            n_free += json_is_null(json_object_get(gpu, "job"));
        }
        if (json_array_size(gpus) > 0) {
            note(doctor, VERDICT_OK, "daemon's GPUs", "", "%zu, %zu free: trainctl gpus", json_array_size(gpus),
                 n_free);
        } else if (doctor->has_gpu) {
            note(doctor, VERDICT_WARN, "daemon's GPUs",
                 "set gpus = \"auto\" in /etc/trainerd/trainerd.toml, and restart the daemon",
                 "none: its jobs compute on the CPU");
        }
    }
    json_decref(answer);
}

static void check_daemon(struct doctor *doctor, const struct ctl_arguments *arguments)
{
    json_t *answer = NULL;
    enum status status = ctl_ask(arguments, json_pack("{s:s}", "cmd", "version"), &answer);
    if (status != STATUS_OK) {
        note(doctor, VERDICT_WARN, "daemon", "jobs also run without one: trainerd --config job.toml", "%s",
             status_reason());
    } else {
        const char *version = field_text(answer, "version");
        note(doctor, strcmp(version, TRAINERD_VERSION) == 0 ? VERDICT_OK : VERDICT_WARN, "daemon",
             "restart it after an upgrade: its jobs run on meanwhile", "trainerd %s, process %lld", version,
             (long long)field_integer(answer, "pid"));
        check_daemon_gpus(doctor, arguments);
    }
    json_decref(answer);
}

static void print_checks(const json_t *answer)
{
    const json_t *check;
    size_t i;
    json_array_foreach(json_object_get(answer, "checks"), i, check)
    {
        printf("%-4s  %-20s %s\n", field_text(check, "verdict"), field_text(check, "name"),
               field_text(check, "found"));
        if (field_text(check, "advice")[0] != '\0') {
            printf("      %-20s → %s\n", "", field_text(check, "advice"));
        }
    }
}

enum status run_doctor(const struct ctl_arguments *arguments)
{
    struct doctor doctor = {.checks = json_array()};
    check_programs(&doctor);
    check_ucx(&doctor);
    check_cuda(&doctor);
    check_cores(&doctor);
    check_memory(&doctor);
    check_space(&doctor, "shared memory", "/dev/shm", 256e6, 16e6,
                "workers of one machine exchange rows there: mount -o remount,size=50% "
                "/dev/shm, docker run --shm-size=1g");
    check_memlock(&doctor);
    check_nofile(&doctor);
    check_file_size(&doctor);
    check_space(&doctor, "temporary files", "/tmp", 100e6, 1e6, "free some space");
    check_space(&doctor, "disk", ".", 1e9, 50e6,
                "checkpoints and results go to output.dir: free some space, or choose another folder");
    check_daemon(&doctor, arguments);
    json_t *answer = json_pack("{s:b, s:o}", "ok", !doctor.has_failed, "checks", doctor.checks);
    ctl_print(arguments, answer, print_checks);
    json_decref(answer);
    *arguments->exit_code_out = doctor.has_failed;
    return STATUS_OK;
}
