#include "protocol/transport/address.h"

#include <stdio.h>
#include <string.h>

enum status address_parse(const char *text, const char *what, struct address *out)
{
    const char *colon = strrchr(text, ':');
    size_t n_host = colon == NULL ? 0 : (size_t)(colon - text);
    const char *host = text;
    if (n_host >= 2 && host[0] == '[' && host[n_host - 1] == ']') {
        host++;
        n_host -= 2;
    } else if (colon != NULL && memchr(text, ':', n_host) != NULL) {
        return status_fail(STATUS_CONFIG, "%s: '%s' has more than one colon, expected HOST:PORT or [IPV6]:PORT", what,
                           text);
    }
    if (n_host == 0 || n_host >= sizeof out->host) {
        return status_fail(STATUS_CONFIG, "%s: '%.300s' is not an address, expected HOST:PORT", what, text);
    }
    const char *port = colon + 1;
    size_t n_port = strlen(port);
    unsigned number = 65536;
    if (n_port == 0 || n_port > 5 || strspn(port, "0123456789") != n_port || sscanf(port, "%u", &number) != 1 ||
        number > 65535) {
        return status_fail(STATUS_CONFIG, "%s: '%s' has no port, expected HOST:PORT with a port from 0 to 65535",
                           what, text);
    }
    memcpy(out->host, host, n_host);
    out->host[n_host] = '\0';
    snprintf(out->port, sizeof out->port, "%u", number);
    return STATUS_OK;
}
