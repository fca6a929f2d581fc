#include "trainerd/daemon/store/job_clock.h"

#include "protocol/base/clock.h"
#include "protocol/base/log.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define FACT "clock"

/* The clock is ahead of the seconds since the machine's start by this. */
static double ahead_s;
static bool is_set;

double job_clock_s(void)
{
    if (!is_set) {
        ahead_s = clock_wall_s() - clock_boot_s();
        is_set = true;
    }
    return clock_boot_s() + ahead_s;
}

enum status job_clock_open(struct store *store)
{
    char text[STORE_FACT_BYTES], boot[CLOCK_BOOT_BYTES], kept[CLOCK_BOOT_BYTES];
    double boot_s, at_s;
    enum status status = store_fact_get(store, FACT, text);
    if (status != STATUS_OK) {
        return status;
    }
    is_set = false;
    if (sscanf(text, "%39s %lf %lf", kept, &boot_s, &at_s) == 3 && isfinite(boot_s) && isfinite(at_s)) {
        clock_boot_id(boot);
        bool is_same = strcmp(kept, boot) == 0 && clock_boot_s() >= boot_s;
        ahead_s = at_s - (is_same ? boot_s : clock_boot_s());
        is_set = true;
    }
    if (job_clock_keep(store) != STATUS_OK) { /* on a full disk jobs are looked after all the same */
        log_warn("%s", status_reason());
    }
    return STATUS_OK;
}

enum status job_clock_keep(struct store *store)
{
    char text[STORE_FACT_BYTES], boot[CLOCK_BOOT_BYTES];
    clock_boot_id(boot);
    double at_s = job_clock_s();
    snprintf(text, sizeof text, "%s %.3f %.3f", boot, at_s - ahead_s, at_s);
    return store_fact_put(store, FACT, text);
}
