#include "protocol/base/log.h"

#include "protocol/base/printable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TEXT_BYTES 1024
#define LINE_BYTES 2300
#define JOB_BYTES 64
#define JOB_VARIABLE "TRAINERD_LOG_JOB"

static const char *log_proc = "trainerd";
static int log_rank = -1;
static enum log_level log_most = LOG_LEVEL_WARN;
static char fixed_log[JOB_BYTES]; /* " job=7 attempt=2" */
static bool is_journal;
static bool is_for_people; /* a terminal, of a process that tells nothing but warnings and errors */

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static const int level_priorities[] = {3, 4, 6, 7}; /* syslog's */

/* Is stderr the journal's stream? The environment has its number: DEVICE:INODE. */
static bool find_journal(void)
{
    const char *text = getenv("JOURNAL_STREAM");
    struct stat about;
    unsigned long long device, inode;
    return text != NULL && sscanf(text, "%llu:%llu", &device, &inode) == 2 && fstat(STDERR_FILENO, &about) == 0 &&
           about.st_dev == device && about.st_ino == inode;
}

void log_init(const char *proc, int rank, enum log_level most)
{
    log_proc = proc;
    log_rank = rank;
    log_most = most;
    is_journal = find_journal();
    is_for_people = most <= LOG_LEVEL_WARN && isatty(STDERR_FILENO) == 1;
    /* The environment may hold any text; it must stay on one line. */
    const char *job = getenv(JOB_VARIABLE);
    fixed_log[0] = '\0';
    if (job != NULL && job[0] != '\0') {
        printable_copy(job, fixed_log + 1, sizeof fixed_log - 1);
        fixed_log[0] = ' ';
    }
}

void log_job(const char *job, uint32_t attempt)
{
    char text[JOB_BYTES];
    snprintf(text, sizeof text, "job=%.32s attempt=%u", job, (unsigned)attempt);
    setenv(JOB_VARIABLE, text, 1);
    log_init(log_proc, log_rank, log_most);
}

enum status log_to(const char *path)
{
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0640);
    if (file < 0 || dup2(file, STDERR_FILENO) < 0) {
        int error = errno;
        if (file >= 0) {
            close(file);
        }
        return status_fail(STATUS_CREATE, "cannot open the log '%s': %s", path, strerror(error));
    }
    close(file);
    is_journal = is_for_people = false;
    return STATUS_OK;
}

enum log_level log_level(void)
{
    return log_most;
}

/* Copy text with quotes, backslashes and all that is not printable escaped; returns the bytes written. */
static size_t escape(const char *text, char *out, size_t room)
{
    size_t at = 0;
    while (*text != '\0' && at + 5 < room) {
        size_t n = printable_length(text);
        if (*text == '"' || *text == '\\') {
            out[at++] = '\\';
        }
        if (n == 0) {
            at += (size_t)snprintf(out + at, room - at, "\\x%02x", (unsigned char)*text++);
        }
        for (; n > 0; n--) {
            out[at++] = *text++;
        }
    }
    return at;
}

/* "worker 2: warning: …" */
static void put_sentence(enum log_level level, const char *text)
{
    static const char *const words[] = {"error", "warning"}; /* it tells no more */
    char out[LINE_BYTES], rank[16] = "";
    if (log_rank >= 0) {
        snprintf(rank, sizeof rank, " %d", log_rank);
    }
    size_t at = (size_t)snprintf(out, sizeof out, "%s%s: %s: ", log_proc, rank, words[level]);
    printable_copy(text, out + at, sizeof out - at - 1);
    at += strlen(out + at);
    out[at++] = '\n';
    ssize_t written = write(STDERR_FILENO, out, at);
    (void)written;
}

/* of: " job=7 attempt=2", or "" */
static void put(enum log_level level, const char *file, int line, const char *of, const char *text)
{
    if (is_for_people) {
        put_sentence(level, text);
        return;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct tm utc;
    gmtime_r(&now.tv_sec, &utc);
    char stamp[32], rank[24] = "", priority[8] = "";
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    if (log_rank >= 0) {
        snprintf(rank, sizeof rank, " rank=%d", log_rank);
    }
    if (is_journal) {
        snprintf(priority, sizeof priority, "<%d>", level_priorities[level]);
    }
    char out[LINE_BYTES];
    int n = snprintf(out, sizeof out, "%sts=%s.%03ldZ level=%s proc=%s%s%s at=%s:%d msg=\"", priority, stamp,
                     now.tv_nsec / 1000000, level_names[level], log_proc, of, rank, file, line);
    size_t at = (size_t)n;
    at += escape(text, out + at, sizeof out - at - 2);
    out[at++] = '"';
    out[at++] = '\n';
    /* One write per line keeps lines of several processes whole; a full pipe loses the line, not the job. */
    ssize_t written = write(STDERR_FILENO, out, at);
    (void)written;
}

void log_line(enum log_level level, const char *file, int line, const char *format, ...)
{
    if (level > log_most) {
        return;
    }
    int saved = errno;
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    put(level, file, line, fixed_log, text);
    errno = saved;
}

void log_job_line(enum log_level level, const char *file, int line, int64_t job, int32_t attempt, const char *format,
                  ...)
{
    if (level > log_most) {
        return;
    }
    int saved = errno;
    char text[TEXT_BYTES], of[JOB_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(of, sizeof of, " job=%lld attempt=%d", (long long)job, (int)attempt);
    put(level, file, line, of, text);
    errno = saved;
}

void log_bug(const char *file, int line, const char *condition)
{
    log_line(LOG_LEVEL_ERROR, file, line, "bug: '%s' does not hold", condition);
#ifdef LOG_BUG_ABORTS
    abort(); /* a fuzzer keeps the input of a crash, not of an exit */
#else
    _exit(70);
#endif
}
