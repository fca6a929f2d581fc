/* One event, one line on stderr, in logfmt: ts=… level=… proc=… job=… attempt=… rank=… at=… msg="…".
 *
 * Control characters are escaped, so that data cannot forge lines. If stderr is the journal's, a line begins with its
 * priority, "<4>". For rotation, this module only reopens its file. On a terminal, processes that tell no more than
 * warnings write sentences: "worker 2: warning: …".
 */
#ifndef PROTOCOL_LOG_H
#define PROTOCOL_LOG_H

#include "protocol/base/status.h"

#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Name the process (`proc`, borrowed for its life) and its rank (-1: none) in every later line. */
void log_init(const char *proc, int rank, enum log_level most);

/* Name a job and its attempt in every later line of this process and, through the environment, of those it starts. */
void log_job(const char *job, uint32_t attempt);

/* Let stderr go to the end of a file (made with mode 0640) from now on; again, after it was moved away.
 * errors  STATUS_CREATE; lines go on as before */
enum status log_to(const char *path);

/* The most detailed level that is printed; default LOG_LEVEL_WARN. */
enum log_level log_level(void);

/* Write one line; never fails, never allocates, keeps errno. */
void log_line(enum log_level level, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same for one job of several. attempt 0: before its first */
void log_job_line(enum log_level level, const char *file, int line, int64_t job, int32_t attempt, const char *format,
                  ...) __attribute__((format(printf, 6, 7)));

#define log_error(...) log_line(LOG_LEVEL_ERROR, __FILE__, __LINE__, __VA_ARGS__)
#define log_warn(...) log_line(LOG_LEVEL_WARN, __FILE__, __LINE__, __VA_ARGS__)
#define log_info(...) log_line(LOG_LEVEL_INFO, __FILE__, __LINE__, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __FILE__, __LINE__, __VA_ARGS__)
/* (job, attempt, format, …) */
#define log_job_warn(...) log_job_line(LOG_LEVEL_WARN, __FILE__, __LINE__, __VA_ARGS__)
#define log_job_info(...) log_job_line(LOG_LEVEL_INFO, __FILE__, __LINE__, __VA_ARGS__)

/* Always on; a failure is a bug of ours. Nothing from a file, a socket or a user is ever asserted. */
#define ASSERT(condition) ((condition) ? (void)0 : log_bug(__FILE__, __LINE__, #condition))
void log_bug(const char *file, int line, const char *condition) __attribute__((noreturn));

#endif
