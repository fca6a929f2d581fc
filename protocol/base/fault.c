#include "protocol/base/fault.h"

#include "protocol/base/clock.h"
#include "protocol/base/mistakes.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAULT_MOST 16
#define ENTRY_BYTES 128
#define SHIFT_S 3600.0

enum action { ACTION_KILL, ACTION_STOP, ACTION_KILL_PARENT, ACTION_FORWARD, ACTION_BACK, ACTION_N };

struct fault {
    enum fault_point point;
    enum action action;
    unsigned long left; /* times to pass until it strikes */
};

bool fault_armed;
static struct fault faults[FAULT_MOST];
static int n_fault;

static const char *const point_names[] = {
#define X(name, text) text,
    FAULT_LIST(X)
#undef X
};
static const char *const action_names[] = {"kill", "stop", "kill-parent", "forward", "back"};

/* Cut "…<mark>NUMBER" off the end of a text; `number` stays as it is in a text without it. */
static bool number_cut(char *text, char mark, unsigned long *number)
{
    char *at = strchr(text, mark), *end = at;
    if (at == NULL) {
        return true;
    }
    *number = strtoul(at + 1, &end, 10);
    *at = '\0';
    return end > at + 1 && *end == '\0' && *number > 0;
}

static enum status entry_read(const char *who, uint32_t attempt, const char *entry)
{
    char text[ENTRY_BYTES];
    unsigned long at_attempt = attempt, count = 1;
    bool is_whole = snprintf(text, sizeof text, "%s", entry) < ENTRY_BYTES;
    bool has_numbers = number_cut(text, '/', &at_attempt) && number_cut(text, '@', &count);
    char *dot = strchr(text, '.'), *equals = strchr(text, '=');
    if (!is_whole || !has_numbers || dot == NULL || equals == NULL || equals < dot) {
        return status_fail(STATUS_USAGE, "TRAINERD_FAULTS: '%s', expected WHO.POINT=ACTION[@COUNT][/ATTEMPT]", entry);
    }
    *dot = *equals = '\0';
    int point = name_find(point_names, FAULT_N, dot + 1), action = name_find(action_names, ACTION_N, equals + 1);
    if (point < 0 || action < 0) {
        return status_fail(STATUS_USAGE, "TRAINERD_FAULTS: unknown %s '%s', expected one of protocol/base/fault.h",
                           point < 0 ? "point" : "action", point < 0 ? dot + 1 : equals + 1);
    }
    if (strcmp(text, who) != 0 || at_attempt != attempt) {
        return STATUS_OK;
    }
    if (n_fault == FAULT_MOST) {
        return status_fail(STATUS_USAGE, "TRAINERD_FAULTS: expected at most %d for '%s'", FAULT_MOST, who);
    }
    faults[n_fault++] = (struct fault){(enum fault_point)point, (enum action)action, count};
    fault_armed = true;
    return STATUS_OK;
}

enum status fault_arm(const char *who, uint32_t attempt)
{
    const char *all = getenv("TRAINERD_FAULTS");
    enum status status = STATUS_OK;
    if (all == NULL) {
        return STATUS_OK;
    }
    while (*all != '\0' && status == STATUS_OK) {
        char entry[ENTRY_BYTES];
        size_t n = strcspn(all, ",");
        snprintf(entry, sizeof entry, "%.*s", (int)n, all);
        status = entry_read(who, attempt, entry);
        all += n + (all[n] == ',');
    }
    return status;
}

void fault_pass(enum fault_point point)
{
    for (int i = 0; i < n_fault; i++) {
        if (faults[i].point != point || faults[i].left == 0 || --faults[i].left > 0) {
            continue;
        }
        enum action action = faults[i].action;
        if (action == ACTION_FORWARD || action == ACTION_BACK) {
            clock_wall_shift_s += action == ACTION_FORWARD ? SHIFT_S : -SHIFT_S;
        } else {
            kill(action == ACTION_KILL_PARENT ? getppid() : getpid(), action == ACTION_STOP ? SIGSTOP : SIGKILL);
        }
    }
}
