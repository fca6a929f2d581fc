#include "trainerd/daemon/jobs/job_clock.h"

#include "protocol/clock.h"
#include "protocol/log.h"

#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FACT "clock"
#define BOOT_BYTES 40 /* of the machine's present start: 36 characters */

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

/* A text that is another one after each start of the machine; "-" where the system has none. */
static void boot_read(char out[BOOT_BYTES])
{
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = file >= 0 ? read(file, out, BOOT_BYTES - 1) : 0;
    if (file >= 0) {
        close(file);
    }
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, " \n")] = '\0';
    if (out[0] == '\0') {
        snprintf(out, BOOT_BYTES, "-");
    }
}

enum status job_clock_open(struct store *store)
{
    char text[STORE_FACT_BYTES], boot[BOOT_BYTES], kept[BOOT_BYTES];
    double boot_s, at_s;
    enum status status = store_fact_get(store, FACT, text);
    if (status != STATUS_OK) {
        return status;
    }
    is_set = false;
    if (sscanf(text, "%39s %lf %lf", kept, &boot_s, &at_s) == 3 && isfinite(boot_s) && isfinite(at_s)) {
        boot_read(boot);
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
    char text[STORE_FACT_BYTES], boot[BOOT_BYTES];
    boot_read(boot);
    double at_s = job_clock_s();
    snprintf(text, sizeof text, "%s %.3f %.3f", boot, at_s - ahead_s, at_s);
    return store_fact_put(store, FACT, text);
}
