#include "trainerd/socket/endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum status endpoint_parse(const char *text, const char *what, struct endpoint *out)
{
    if (strncmp(text, "tcp:", 4) == 0) {
        out->is_unix = false;
        return address_parse(text + 4, what, &out->tcp);
    }
    if (strncmp(text, "unix:", 5) != 0 || text[5] == '\0') {
        return status_fail(STATUS_CONFIG, "%s: '%.200s' is not an address, expected unix:PATH or tcp:HOST:PORT", what,
                           text);
    }
    if (strlen(text + 5) >= sizeof out->path) {
        return status_fail(STATUS_CONFIG, "%s: the path of '%.200s' has %zu bytes, a socket's name has at most %zu",
                           what, text, strlen(text + 5), sizeof out->path - 1);
    }
    out->is_unix = true;
    snprintf(out->path, sizeof out->path, "%s", text + 5);
    return STATUS_OK;
}

void endpoint_print(const struct endpoint *endpoint, char *out)
{
    const char *host = endpoint->tcp.host;
    bool is_number = strchr(host, ':') != NULL;
    if (endpoint->is_unix) {
        snprintf(out, ENDPOINT_TEXT_BYTES, "unix:%s", endpoint->path);
    } else {
        snprintf(out, ENDPOINT_TEXT_BYTES, "tcp:%s%s%s:%s", is_number ? "[" : "", host, is_number ? "]" : "",
                 endpoint->tcp.port);
    }
}

void endpoint_default(char *out)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (geteuid() == 0) {
        snprintf(out, ENDPOINT_TEXT_BYTES, "unix:/run/trainerd/trainerd.sock");
    } else if (runtime != NULL && runtime[0] == '/') {
        snprintf(out, ENDPOINT_TEXT_BYTES, "unix:%s/trainerd.sock", runtime);
    } else {
        snprintf(out, ENDPOINT_TEXT_BYTES, "unix:/tmp/trainerd-%u/trainerd.sock", (unsigned)geteuid());
    }
}
