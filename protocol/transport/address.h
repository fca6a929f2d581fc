/* A TCP address as people write it: HOST:PORT, [IPV6]:PORT. Splits the text; resolving it is the caller's. */
#ifndef PROTOCOL_ADDRESS_H
#define PROTOCOL_ADDRESS_H

#include "protocol/base/status.h"

struct address {
    char host[256]; /* name or number, without brackets */
    char port[6];   /* "0" … "65535" */
};

/*   what    the key or option the text came from, for the message
 *   errors  STATUS_CONFIG no port, a port that is no number up to 65535, an empty or endless host
 */
enum status address_parse(const char *text, const char *what, struct address *out);

#endif
