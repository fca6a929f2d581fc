/* Notifications to the service manager: datagrams to $NOTIFY_SOCKET as systemd defines them, without its library.
 * Without a socket, nothing is sent. source  sd_notify(3)
 *
 * A timer of the loop sends the watchdog's notification, so that a loop that hangs sends none.
 */
#ifndef TRAINERD_DAEMON_NOTIFY_H
#define TRAINERD_DAEMON_NOTIFY_H

#include <uv.h>

struct notify;

/* Read the socket and the watchdog's period from the environment, and remove them from it, so that child processes do
 * not notify. owns  borrows loop; the caller owns the result: notify_close */
struct notify *notify_open(uv_loop_t *loop);
/* The loop has to run on until none of its handles is left. */
void notify_close(struct notify *notify);

/* Changes of state wait at most a second for a manager that is behind; signs of life do not.
 *
 * The daemon is ready. text: one line for `systemctl status` */
void notify_ready(const struct notify *notify, const char *text);
/* The daemon reloads; notify_ready follows. */
void notify_reloading(const struct notify *notify);
void notify_stopping(const struct notify *notify);

#endif
