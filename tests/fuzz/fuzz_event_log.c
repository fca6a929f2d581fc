/* Any bytes as a job's events.jsonl, which the job's owner may write to: read to the end or the first fault, with every event within its bounds, and
 * without a fault with the same events in two halves as in one. In a real file, since event_log_read follows no links, those below /proc included.
 */
#include "protocol/base/log.h"
#include "trainerd/daemon/supervisor/event_log.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

struct sum {
    size_t n; /* without the end event, which is read twice */
    bool has_end, has_fault;
};

static void add(void *context, const struct event *event)
{
    struct sum *sum = context;
    ASSERT(!sum->has_end);
    sum->n += event->kind != EVENT_KIND_END;
    switch (event->kind) {
    case EVENT_KIND_BEGIN:
        break;
    case EVENT_KIND_STATE:
        ASSERT(!job_state_ended(event->state));
        break;
    case EVENT_KIND_EPOCH:
        ASSERT(event->progress.epoch >= 0 && event->progress.epoch <= event->progress.n_epoch);
        break;
    case EVENT_KIND_CHECKPOINT:
        ASSERT(event->epoch >= 0);
        break;
    case EVENT_KIND_END:
        sum->has_end = true;
        ASSERT(strnlen(event->reason, sizeof event->reason) < sizeof event->reason);
        break;
    }
}

static struct sum read_from(const char *from, int64_t *offset)
{
    struct sum sum = {0};
    bool more = true;
    while (more) {
        int64_t was = *offset;
        enum status status = event_log_read(from, 1, offset, &more, add, &sum);
        ASSERT(status == STATUS_OK || (status == STATUS_DATA && *offset == was && !more));
        sum.has_fault = status != STATUS_OK;
    }
    return sum;
}

static void fill(int file, const uint8_t *data, size_t n_bytes)
{
    ASSERT(ftruncate(file, 0) == 0 && pwrite(file, data, n_bytes, 0) == (ssize_t)n_bytes);
}

static char path[] = "/dev/shm/events-XXXXXX";

static void file_remove(void)
{
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static int file = -1;
    if (file < 0) {
        file = mkstemp(path);
        ASSERT(file >= 0 && atexit(file_remove) == 0);
    }
    char words[64];
    int64_t once = 0, twice = 0;
    fill(file, data, n_bytes);
    struct sum whole = read_from(path, &once);
    event_log_last_line_in(path, words, sizeof words);
    fill(file, data, n_bytes / 2);
    struct sum first = read_from(path, &twice);
    fill(file, data, n_bytes);
    struct sum second = read_from(path, &twice);
    bool fault = whole.has_fault || first.has_fault || second.has_fault;
    ASSERT(fault || (once == twice && whole.n == first.n + second.n && whole.has_end == second.has_end));
    return 0;
}
