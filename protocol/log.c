#include "protocol/log.h"

#include "protocol/printable.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *log_proc = "trainerd";
static int log_rank = -1;
static enum log_level log_most = LOG_LEVEL_WARN;

static const char *const level_names[] = {"error", "warn", "info", "debug"};

void log_init(const char *proc, int rank, enum log_level most)
{
    log_proc = proc;
    log_rank = rank;
    log_most = most;
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

void log_line(enum log_level level, const char *file, int line, const char *format, ...)
{
    if (level > log_most) {
        return;
    }
    int saved = errno;
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);

    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct tm utc;
    gmtime_r(&now.tv_sec, &utc);
    char stamp[32];
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    char rank[24] = "";
    if (log_rank >= 0) {
        snprintf(rank, sizeof rank, " rank=%d", log_rank);
    }
    char out[2200];
    int n = snprintf(out, sizeof out, "ts=%s.%03ldZ level=%s proc=%s%s at=%s:%d msg=\"", stamp,
                     now.tv_nsec / 1000000, level_names[level], log_proc, rank, file, line);
    size_t at = (size_t)n;
    at += escape(text, out + at, sizeof out - at - 2);
    out[at++] = '"';
    out[at++] = '\n';
    /* One write per line keeps lines of several processes whole; a full pipe loses the line, not the job. */
    ssize_t written = write(STDERR_FILENO, out, at);
    (void)written;
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
