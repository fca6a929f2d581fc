/* Time: two clocks, read as plain numbers. */
#ifndef PROTOCOL_CLOCK_H
#define PROTOCOL_CLOCK_H

#include <stdint.h>

/* The monotonic clock of this machine, for durations and deadlines: it never goes back, and its zero means
 * nothing. */
double clock_s(void);
uint64_t clock_ms(void);
int64_t clock_ns(void);

/* Unix time, for what users read and files keep. It follows corrections of the system's clock. */
double clock_wall_s(void);
extern double clock_wall_shift_s; /* 0; only fault points change it */

/* Seconds since this machine was started, including sleep. */
double clock_boot_s(void);

/* The identifier of this start of the machine; "-" on a system without one. */
#define CLOCK_BOOT_BYTES 40
void clock_boot_id(char out[CLOCK_BOOT_BYTES]);

#endif
