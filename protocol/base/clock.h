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
extern double clock_wall_shift_s; /* 0; fault points alone change it */

/* Seconds since this machine was started, those that it slept included. */
double clock_boot_s(void);

/* A text that each start of a machine has of its own; "-" on a system without such a text. */
#define CLOCK_BOOT_BYTES 40
void clock_boot_id(char out[CLOCK_BOOT_BYTES]);

#endif
