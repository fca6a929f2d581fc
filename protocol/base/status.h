/* The error list: one row for each way in which a command can end, with its exit code.
 *
 * The first function that knows what is wrong calls status_fail with the whole sentence (what, where, what was
 * expected); all callers return the code unchanged. Independent of logging and processes.
 */
#ifndef PROTOCOL_STATUS_H
#define PROTOCOL_STATUS_H

/*         name         code  exit  text, cure: docs/errors.md is made of them */
/* clang-format off */
#define STATUS_LIST(X) \
    X(OK,             0,   0, "done", \
      "") \
    X(TRAINING,      -1,   1, "training failed", \
      "lower `train.lr`, or set `train.clip_norm` or `train.on_nan`") \
    X(USAGE,         -2,   2, "wrong usage", \
      "the command's `--help` has its options") \
    X(DATA,          -3,  65, "bad data", \
      "mend the file at the place that is named; docs/data.md has the formats") \
    X(NO_INPUT,      -4,  66, "missing input", \
      "mend the path; it is relative to the folder of the command") \
    X(PEER,          -5,  69, "peer or service unavailable", \
      "see that worker or daemon, and its log; set `workers.max_restarts`") \
    X(BUG,           -6,  70, "internal error", \
      "report it, with the log") \
    X(NOMEM,         -7,  71, "out of memory", \
      "see `--plan`; more workers, `memory.spill`, or a higher limit of memory, files or processes") \
    X(CREATE,        -8,  73, "cannot create output", \
      "mend the rights or the name of the folder that is named") \
    X(IO,            -9,  74, "input/output error", \
      "free space on the disk, and look at its state") \
    X(INTERRUPTED,  -10,  75, "interrupted, checkpoint saved", \
      "`--resume`, or `trainctl resume`, goes on") \
    X(CONFIG,       -11,  78, "bad job file", \
      "mend the line that is named; `trainerd --check` looks again")
/* clang-format on */

enum status {
#define X(name, code, exit_code, text, cure) STATUS_##name = code,
    STATUS_LIST(X)
#undef X
};

/* Record why something failed and return the code: `return status_fail(STATUS_DATA, "...", ...)`.
 *
 *   owns    copies the formatted sentence into this thread's buffer (at most 1023 bytes, what is not printable
 *           UTF-8 as \xNN); a later failure replaces it
 *   errors  none; `code` must not be STATUS_OK
 */
enum status status_fail(enum status code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same with a text of several sentences, each a line; `lines` may be an older reason of this thread. */
#define STATUS_REASON_BYTES 4096
enum status status_fail_lines(enum status code, const char *lines);

/* The sentence of this thread's last failure, or its lines; "" before the first. */
const char *status_reason(void);

/* Print the reason to standard error, each line behind "PROGRAM: ". */
void status_print(const char *program);

/* Name ("DATA"), text ("bad data") and process exit code of a status; unknown codes read as BUG. */
const char *status_name(enum status code);
const char *status_text(enum status code);
/* What a user does about it; "": nothing. */
const char *status_cure(enum status code);
int status_exit_code(enum status code);

/* The status whose exit code is `exit_code`; BUG for an unknown code. */
enum status status_from_exit_code(int exit_code);

#endif
