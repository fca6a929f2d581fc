/* Between the device and the transport: what is sent goes to SHARED memory first, what arrives goes on to the device.
 *
 * On a unified device both places are the same bytes, and nothing here copies or waits; nor is there a block where
 * the transport reaches the device's memory itself. One block, used by one halo pass or one reduction at a time; `at`
 * is a place in it, `device` what lies there on the device.
 */
#ifndef WORKER_STAGING_H
#define WORKER_STAGING_H

#include "worker/state/trainer_state.h"

/* Take the block. errors  STATUS_NOMEM */
enum status staging_open(struct trainer *trainer);
void staging_close(struct trainer *trainer);

/* Where the transport reads or writes; operations may write there, too. */
void *staging_place(const struct trainer *trainer, int64_t at, void *device);

/* Wait until all that operations wrote to a staging_place may be sent. errors  of the device */
enum status staging_ready(const struct trainer *trainer);

/* Wait until the transport may write there: until what lay there before has gone on (`free`, of staging_in), or
 * without a block until no operation reads or writes it (`unread`). errors  of the device */
enum status staging_writable(const struct trainer *trainer, device_mark free, device_mark unread);

/* Copy device memory there. Returns when it may be sent. */
device_mark staging_out(const struct trainer *trainer, int64_t at, void *device, int64_t n_bytes);

/* What the transport wrote there goes to the device, before all that operations do from now on, beside those that
 * they did since `unread`: from that mark on none reads or writes what lies there. Returns when the place may be
 * written again. */
device_mark staging_in(const struct trainer *trainer, int64_t at, void *device, int64_t n_bytes, device_mark unread);

#endif
