#include "trainerd/coordinator/machines/hosts.h"

#include "protocol/base/memory.h"
#include "protocol/files/file.h"
#include "trainerd/base/fields.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MOST 1024

/* Characters of names, addresses and users that mean nothing to a shell or, at the beginning, to ssh. */
static bool name_is_sane(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:%@";
    size_t n = strlen(name);
    const char *at = strchr(name, '@');
    bool has_host = at == NULL || (at > name && at[1] != '\0' && at[1] != '-' && strchr(at + 1, '@') == NULL);
    return n > 0 && n < sizeof((struct host *)0)->name && name[0] != '-' && strspn(name, letters) == n && has_host;
}

/* "slots=2": the number, when the word has that name. */
static bool setting_is(const char *word, const char *name, const char **value_out)
{
    size_t n = strlen(name);
    *value_out = word + n + 1;
    return strncmp(word, name, n) == 0 && word[n] == '=';
}

static enum status number_read(const char *where, const char *name, const char *value, int64_t most, int64_t *out)
{
    const char *end = value;
    int64_t number = digits_read(&end, most);
    if (number < 1 || *end != '\0') {
        return status_fail(STATUS_CONFIG, "%s: %s is '%.40s', expected a whole number from 1 to %lld", where, name,
                           value, (long long)most);
    }
    *out = number;
    return STATUS_OK;
}

/* A line that is not empty, without its comment; it is cut into words. */
static enum status line_read(const char *where, char *line, struct host *out)
{
    char *rest = NULL;
    const char *word = strtok_r(line, " \t\r", &rest), *value;
    *out = (struct host){.n_slot = 1};
    if (!name_is_sane(word)) {
        return status_fail(STATUS_CONFIG,
                           "%s: '%.80s' is no host: expected a name or an address, as node1 or ann@node1", where,
                           word);
    }
    snprintf(out->name, sizeof out->name, "%s", word);
    while ((word = strtok_r(NULL, " \t\r", &rest)) != NULL) {
        enum status status;
        int64_t port = 0;
        if (setting_is(word, "slots", &value)) {
            status = number_read(where, "slots", value, HOSTS_SLOTS_MOST, &out->n_slot);
        } else if (setting_is(word, "port", &value)) {
            status = number_read(where, "port", value, 65535, &port);
            out->port = (int32_t)port;
        } else {
            status = status_fail(STATUS_CONFIG, "%s: unknown word '%.40s' after the host, expected slots=N or port=N",
                                 where, word);
        }
        if (status != STATUS_OK) {
            return status;
        }
    }
    return STATUS_OK;
}

static enum status host_add(struct hosts *hosts, const char *where, const struct host *host)
{
    hosts->n_slot += host->n_slot;
    if (hosts->n_slot > HOSTS_SLOTS_MOST) {
        return status_fail(STATUS_CONFIG, "%s: more than %d slots in all", where, HOSTS_SLOTS_MOST);
    }
    hosts->host = memory_list_grow(hosts->host, (int32_t)hosts->n_host, sizeof *hosts->host);
    hosts->host[hosts->n_host++] = *host;
    return STATUS_OK;
}

enum status hosts_read(const char *text, size_t n_bytes, const char *origin, struct hosts *out)
{
    struct hosts hosts = {0};
    enum status status = STATUS_OK;
    const char *end = text + n_bytes;
    for (int64_t number = 1; status == STATUS_OK && text < end; number++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((newline != NULL ? newline : end) - text);
        char line[LINE_MOST], where[LINE_MOST];
        struct host host;
        snprintf(where, sizeof where, "%.300s:%lld", origin, (long long)number);
        if (n >= sizeof line || memchr(text, '\0', n) != NULL) {
            status = status_fail(STATUS_CONFIG, "%s: expected a line of text, of at most %d bytes", where,
                                 LINE_MOST - 1);
            break;
        }
        memcpy(line, text, n);
        line[n] = '\0';
        line[strcspn(line, "#")] = '\0';
        if (line[strspn(line, " \t\r")] != '\0') {
            status = line_read(where, line, &host);
            if (status == STATUS_OK) {
                status = host_add(&hosts, where, &host);
            }
        }
        text = newline != NULL ? newline + 1 : end;
    }
    if (status == STATUS_OK && hosts.n_host == 0) {
        status = status_fail(STATUS_CONFIG, "%s has no host, expected one in each line, as: node1 slots=2", origin);
    }
    if (status != STATUS_OK) {
        hosts_release(&hosts);
        return status;
    }
    *out = hosts;
    return STATUS_OK;
}

enum status hosts_load(const char *path, struct hosts *out)
{
    char *text;
    size_t n;
    enum status status = file_load(path, (int64_t)HOSTS_FILE_MOST_BYTES, &text, &n);
    if (status != STATUS_OK) {
        return status_fail(status, "workers.hosts: %s", status_reason());
    }
    status = hosts_read(text, n, path, out);
    free(text);
    return status;
}

void hosts_release(struct hosts *hosts)
{
    free(hosts->host);
    *hosts = (struct hosts){0};
}

const struct host *hosts_of_rank(const struct hosts *hosts, uint32_t rank)
{
    const struct host *host = hosts->host;
    for (int64_t before = rank; before >= host->n_slot; host++) {
        before -= host->n_slot;
    }
    return host;
}
