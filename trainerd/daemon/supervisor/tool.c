#include "trainerd/daemon/supervisor/tool.h"

#include "protocol/base/memory.h"
#include "protocol/files/file.h"
#include "trainerd/daemon/supervisor/event_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUT_MOST_BYTES (8 << 20)
#define ERR_MOST_BYTES (64 << 10)

/* A file in memory that cannot grow beyond n bytes. */
static int memory_file(const char *name, off_t n)
{
    int file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file >= 0 &&
        (ftruncate(file, n) != 0 || fcntl(file, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)) {
        int error = errno;
        close(file);
        file = -1;
        errno = error;
    }
    return file;
}

/* The text written there: the file offset is shared with the writer. */
static char *memory_text(int file, size_t *n_out)
{
    off_t n = lseek(file, 0, SEEK_CUR);
    char *text = memory_alloc((size_t)(n > 0 ? n : 0) + 1, 1);
    ssize_t got = n > 0 ? pread(file, text, (size_t)n, 0) : 0;
    *n_out = got > 0 ? (size_t)got : 0;
    text[*n_out] = '\0';
    return text;
}

static void files_close(struct tool *tool)
{
    file_close(tool->out);
    file_close(tool->err);
}

static void on_deadline(uv_timer_t *timer)
{
    struct tool *tool = timer->data;
    tool->is_late = true;
    tool_kill(tool);
}

static void exited(uv_poll_t *poll, int error, int events)
{
    (void)error;
    (void)events;
    struct tool *tool = poll->data;
    uv_poll_stop(poll);
    tool->was_reaped = process_reap(&tool->process, &tool->wait_status);
    tool->ended(tool->context, tool);
}

enum status tool_start(uv_loop_t *loop, const struct process_options *options, double limit_s,
                       void (*ended)(void *context, struct tool *tool), void *context, struct tool **out)
{
    struct tool *tool = memory_alloc(1, sizeof *tool);
    *tool = (struct tool){.context = context,
                          .ended = ended,
                          .out = memory_file("output", OUT_MOST_BYTES),
                          .err = memory_file("messages", ERR_MOST_BYTES)};
    enum status status = STATUS_OK;
    if (tool->out < 0 || tool->err < 0) {
        status = status_fail(STATUS_IO, "cannot make a memory file for what %s prints: %s", options->argv[0],
                             strerror(errno));
    } else {
        struct process_options own = *options;
        own.log = NULL;
        own.out = tool->out;
        own.err = tool->err;
        status = process_spawn(&own, &tool->process);
    }
    if (status == STATUS_OK && uv_poll_init(loop, &tool->exit, tool->process.pidfd) != 0) {
        process_abandon(&tool->process);
        status = status_fail(STATUS_IO, "cannot watch %s", options->argv[0]);
    }
    if (status != STATUS_OK) {
        files_close(tool);
        free(tool);
        return status;
    }
    tool->exit.data = tool->deadline.data = tool;
    uv_poll_start(&tool->exit, UV_READABLE, exited);
    uv_timer_init(loop, &tool->deadline);
    uv_update_time(loop);
    uv_timer_start(&tool->deadline, on_deadline, (uint64_t)(1e3 * limit_s), 0);
    tool->n_handle = 2;
    *out = tool;
    return STATUS_OK;
}

void tool_go(struct tool *tool)
{
    process_go(&tool->process);
}

void tool_kill(struct tool *tool)
{
    process_kill_session(&tool->process);
}

static void closed(uv_handle_t *handle)
{
    struct tool *tool = handle->data;
    if (--tool->n_handle == 0) {
        free(tool);
    }
}

void tool_close(struct tool *tool)
{
    if (tool == NULL) {
        return;
    }
    uv_close((uv_handle_t *)&tool->exit, closed);
    uv_close((uv_handle_t *)&tool->deadline, closed);
    process_release(&tool->process);
    files_close(tool);
}

void tool_abandon(struct tool *tool)
{
    if (tool != NULL) {
        uv_poll_stop(&tool->exit);
        tool_kill(tool);
        process_abandon(&tool->process);
        tool_close(tool);
    }
}

int tool_exit_code(const struct tool *tool)
{
    return tool->was_reaped && WIFEXITED(tool->wait_status) ? WEXITSTATUS(tool->wait_status) : -1;
}

char *tool_printed(const struct tool *tool, size_t *n_out)
{
    return memory_text(tool->out, n_out);
}

void tool_message(const struct tool *tool, char *out, size_t capacity)
{
    process_start_error(&tool->process, out, capacity);
    if (out[0] == '\0') {
        size_t n;
        char *printed = memory_text(tool->err, &n);
        event_log_last_line(printed, n, out, capacity);
        free(printed);
    }
}
