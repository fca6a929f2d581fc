/* One event, one line on stderr, in logfmt: ts=… level=… proc=… rank=… msg="…".
 * Control characters are escaped, so that data cannot forge lines. Knows nothing of files or rotation.
 */
#ifndef PROTOCOL_LOG_H
#define PROTOCOL_LOG_H

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Name the process (`proc`, borrowed for its life) and its rank (-1: none) in every later line. */
void log_init(const char *proc, int rank, enum log_level most);

/* The most talkative level that is printed; default LOG_LEVEL_WARN. */
enum log_level log_level(void);

/* Write one line; never fails, never allocates, keeps errno. */
void log_line(enum log_level level, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#define log_error(...) log_line(LOG_LEVEL_ERROR, __FILE__, __LINE__, __VA_ARGS__)
#define log_warn(...) log_line(LOG_LEVEL_WARN, __FILE__, __LINE__, __VA_ARGS__)
#define log_info(...) log_line(LOG_LEVEL_INFO, __FILE__, __LINE__, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __FILE__, __LINE__, __VA_ARGS__)

/* Always on; a failure is a bug of ours. Nothing from a file, a socket or a user is ever asserted. */
#define ASSERT(condition) ((condition) ? (void)0 : log_bug(__FILE__, __LINE__, #condition))
void log_bug(const char *file, int line, const char *condition) __attribute__((noreturn));

#endif
