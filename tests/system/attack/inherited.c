#include "tests/system/attack/inherited.h"

#include "protocol/base/clock.h"
#include "tests/system/attack/campaign.h"
#include "tests/system/attack/talk.h"

#include <limits.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static pid_t coordinator_of(const struct work *work)
{
    json_t *answer = talk_ask(USER_ROOT, "{\"v\":1,\"id\":1,\"cmd\":\"workers\",\"job\":%lld}", (long long)work->id);
    pid_t pid = (pid_t)json_integer_value(json_object_get(answer, "coordinator"));
    json_decref(answer);
    return pid;
}

pid_t inherited_await(const struct work *work, double wait_s)
{
    double since_s = clock_s();
    pid_t pid = coordinator_of(work);
    while (pid == 0 && clock_s() - since_s < wait_s) {
        campaign_nap(5);
        pid = coordinator_of(work);
    }
    return pid;
}

int inherited_take(pid_t coordinator, int number, char name_out[INHERITED_BYTES])
{
    char path[64], target[PATH_MAX] = "";
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)coordinator, number);
    if (readlink(path, target, sizeof target - 1) <= 0 || strstr(target, "/state/jobs/") == NULL) {
        return -1;
    }
    snprintf(name_out, INHERITED_BYTES, "%.*s", INHERITED_BYTES - 1, strrchr(target, '/') + 1);
    int process = (int)syscall(SYS_pidfd_open, coordinator, 0u);
    int file = process >= 0 ? (int)syscall(SYS_pidfd_getfd, process, number, 0u) : -1;
    close(process);
    return file;
}
