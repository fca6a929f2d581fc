/* What the service manager hears of the daemon: lines in datagrams to $NOTIFY_SOCKET, as systemd defines them, without its
 * library. Nothing is said where nobody listens. source  sd_notify(3)
 *
 * The watchdog's sign of life comes from a timer of the loop, so that a loop that is stuck falls silent.
 */
#ifndef TRAINERD_DAEMON_NOTIFY_H
#define TRAINERD_DAEMON_NOTIFY_H

#include <uv.h>

struct notify;

/* Take the socket and the watchdog's period from the environment, out of which they are removed: what the daemon starts does not
 * speak for it. owns  borrows loop; the caller owns the result: notify_close */
struct notify *notify_open(uv_loop_t *loop);
/* The loop has to run on until nothing of it is left there. */
void notify_close(struct notify *notify);

/* It serves. text: one line for `systemctl status` */
void notify_ready(const struct notify *notify, const char *text);
/* It reads something again, and is ready once notify_ready says so. */
void notify_reloading(const struct notify *notify);
void notify_stopping(const struct notify *notify);

#endif
