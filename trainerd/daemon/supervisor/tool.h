/* A program that runs beside the loop and prints: planning of a job, and Slurm's commands.
 *
 * It prints to memory files of a fixed size, so that nobody reads along, and has a deadline. Knows no jobs.
 */
#ifndef TRAINERD_DAEMON_TOOL_H
#define TRAINERD_DAEMON_TOOL_H

#include "trainerd/daemon/supervisor/process.h"

#include <uv.h>

struct tool {
    struct process process;
    void *context;
    void (*ended)(void *context, struct tool *tool); /* called once, from the loop; tool_close follows in it */
    bool is_late;                                    /* it was killed at its deadline */
    bool was_reaped;                                 /* wait_status is known */
    int wait_status;

    /* Its inside. */
    uv_poll_t exit;
    uv_timer_t deadline;
    int n_handle;
    int out, err;
};

/* Start it behind its gate: tool_go opens that, after its pid has been saved where that is wanted.
 *
 *   options argv, uid, gid, … of the process; log, out and err are not used
 *   owns    the caller owns *out: tool_close
 *   errors  STATUS_IO
 */
enum status tool_start(uv_loop_t *loop, const struct process_options *options, double limit_s,
                       void (*ended)(void *context, struct tool *tool), void *context, struct tool **out);
void tool_go(struct tool *tool);

/* Kill it, with its session; `ended` is called. */
void tool_kill(struct tool *tool);
/* Free it, in `ended` or when the loop ends; it runs on if its gate was opened. NULL is allowed. */
void tool_close(struct tool *tool);
/* Before its end: kill it and free it. NULL is allowed. */
void tool_abandon(struct tool *tool);

/* After its end. Its exit code; -1: it was killed, or how it ended is not known. */
int tool_exit_code(const struct tool *tool);
/* What it has printed; with a NUL behind it, the caller frees it. */
char *tool_printed(const struct tool *tool, size_t *n_out);
/* Why it could not be started, else the last line of its messages; "": none. */
void tool_message(const struct tool *tool, char *out, size_t capacity);

#endif
