#include "trainerd/ctl/base/known_hosts.h"

#include "protocol/base/memory.h"
#include "protocol/files/file.h"
#include "protocol/toml/toml.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHERE_BYTES 400
#define FILE_MOST_BYTES (1 << 20)
#define FILE_NAME "hosts.toml"
#define SECRET_NAME "secret-" /* files beside it begin so */

/* --- the text --- */

enum status known_hosts_fingerprint(const char *what, const char *text, char out[TLS_FINGERPRINT_BYTES])
{
    if (strcmp(text, KNOWN_HOSTS_NO_TLS) == 0) {
        strcpy(out, KNOWN_HOSTS_NO_TLS);
        return STATUS_OK;
    }
    return tls_fingerprint_read(text, out)
               ? STATUS_OK
               : status_fail(STATUS_CONFIG,
                             "%s: '%.80s' is no fingerprint, expected 64 hexadecimal digits, as trainctl "
                             "fingerprint prints them, or " KNOWN_HOSTS_NO_TLS,
                             what, text);
}

static enum status begin_host(const char *where, const struct toml_entry *entry, struct known_hosts *hosts)
{
    struct endpoint endpoint;
    if (entry->type != TOML_TYPE_TABLE) {
        return status_fail(STATUS_CONFIG, "%s: '%.64s' is of no host, expected [\"tcp:HOST:PORT\"] before it", where,
                           entry->key);
    }
    enum status status = endpoint_parse(entry->key, where, &endpoint);
    if (status == STATUS_OK && endpoint.is_unix) {
        status = status_fail(STATUS_CONFIG, "%s: '%.64s' is a Unix socket, expected tcp:HOST:PORT", where,
                             entry->key);
    }
    if (status == STATUS_OK) {
        struct known_host *host = &hosts->host[hosts->n_host++];
        *host = (struct known_host){0};
        snprintf(host->address, sizeof host->address, "%s", entry->key);
    }
    return status;
}

static enum status read_key(const char *where, const struct toml_entry *entry, struct known_host *host)
{
    size_t n = strlen(entry->text);
    if (entry->type != TOML_TYPE_TEXT) {
        return status_fail(STATUS_CONFIG, "%s: %.64s is %s, expected a text", where, entry->key,
                           toml_type_text(entry->type));
    }
    if (strcmp(entry->key, "fingerprint") == 0) {
        return known_hosts_fingerprint(where, entry->text, host->fingerprint);
    }
    if (strcmp(entry->key, "user") == 0) {
        if (n > 0 && !auth_is_user(entry->text)) {
            return status_fail(STATUS_CONFIG, "%s: '%.64s' is not a user's name", where, entry->text);
        }
        snprintf(host->user, sizeof host->user, "%s", entry->text);
        return STATUS_OK;
    }
    if (strcmp(entry->key, "secret_file") == 0) {
        if (entry->text[0] != '/' || n >= sizeof host->secret_file) {
            return status_fail(STATUS_CONFIG, "%s: '%.64s' is not an absolute path", where, entry->text);
        }
        snprintf(host->secret_file, sizeof host->secret_file, "%s", entry->text);
        return STATUS_OK;
    }
    return status_fail(STATUS_CONFIG, "%s: unknown key '%.64s' of a host, expected fingerprint, user or secret_file",
                       where, entry->key);
}

static struct known_host *find(const struct known_hosts *hosts, const char *address)
{
    for (size_t i = 0; i < hosts->n_host; i++) {
        if (strcmp(hosts->host[i].address, address) == 0) {
            return &hosts->host[i];
        }
    }
    return NULL;
}

/* The port of an address on this machine's loopback, by any of its names; NULL: it is on none. */
static const char *loopback_port(const char *address)
{
    static const char *const names[] = {"tcp:localhost:", "tcp:127.0.0.1:", "tcp:[::1]:"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strncasecmp(address, names[i], strlen(names[i])) == 0) {
            return address + strlen(names[i]);
        }
    }
    return NULL;
}

/* The host of this address, or of an equivalent one; the fingerprint tells two daemons apart. */
static struct known_host *find_same(const struct known_hosts *hosts, const char *address)
{
    struct known_host *host = find(hosts, address);
    const char *port = loopback_port(address);
    for (size_t i = 0; i < hosts->n_host && host == NULL && port != NULL; i++) {
        const char *other = loopback_port(hosts->host[i].address);
        host = other != NULL && strcmp(other, port) == 0 ? &hosts->host[i] : NULL;
    }
    return host;
}

static enum status read_list(const struct toml_list *list, const char *origin, struct known_hosts *hosts)
{
    enum status status = STATUS_OK;
    char where[WHERE_BYTES];
    for (int pass = 0; pass < 2; pass++) { /* dotted keys may stand before their table's own */
        for (size_t i = 0; i < list->n_entry && status == STATUS_OK; i++) {
            const struct toml_entry *entry = &list->entry[i];
            bool is_host = entry->section[0] == '\0';
            snprintf(where, sizeof where, "%.300s:%u:%u", origin, entry->key_at.line, entry->key_at.column);
            if (is_host && pass == 0) {
                status = begin_host(where, entry, hosts);
            } else if (!is_host && pass == 1) {
                struct known_host *host = find(hosts, entry->section);
                status = host != NULL ? read_key(where, entry, host)
                                      : status_fail(STATUS_CONFIG, "%s: '%.64s' is of no host", where, entry->key);
            }
        }
    }
    return status;
}

enum status known_hosts_read(const char *text, size_t n, const char *origin, struct known_hosts *out)
{
    struct toml_list list = {0};
    enum status status = toml_read(text, n, origin, &list);
    if (status != STATUS_OK) {
        return status;
    }
    struct known_hosts hosts = {.host = memory_alloc(list.n_entry + 1, sizeof *hosts.host)}; /* and one to be saved */
    status = read_list(&list, origin, &hosts);
    toml_release(&list);
    if (status != STATUS_OK) {
        known_hosts_release(&hosts);
        return status;
    }
    *out = hosts;
    return STATUS_OK;
}

void known_hosts_release(struct known_hosts *hosts)
{
    free(hosts->host);
    *hosts = (struct known_hosts){0};
}

/* --- the file --- */

/* A path in the folder of that file. out PATH_MAX · makes: the folder, too */
static enum status hosts_path(const char *name, bool makes, char *out)
{
    const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    bool has_base = base != NULL && base[0] == '/';
    if (!has_base && (home == NULL || home[0] != '/')) {
        return status_fail(STATUS_CONFIG,
                           "there is no home folder for " FILE_NAME ": expected $HOME or $XDG_CONFIG_HOME");
    }
    int n = snprintf(out, PATH_MAX, "%s%s/trainerd", has_base ? base : home, has_base ? "" : "/.config");
    if (n + strlen(name) + 2 > PATH_MAX) {
        return status_fail(STATUS_CONFIG, "the path of " FILE_NAME " is too long for this system");
    }
    mode_t before = umask(077);
    enum status status = makes ? file_folder_make(out, NULL) : STATUS_OK;
    umask(before);
    snprintf(out + n, (size_t)(PATH_MAX - n), "/%s", name);
    return status;
}

/* The whole file; none where it is missing. */
static enum status load(struct known_hosts *out, char path[PATH_MAX])
{
    char *text;
    size_t n;
    *out = (struct known_hosts){0};
    enum status status = hosts_path(FILE_NAME, false, path);
    if (status != STATUS_OK ||
        (status = auth_file_read("file of hosts", path, FILE_MOST_BYTES, &text, &n)) != STATUS_OK) {
        return status == STATUS_NO_INPUT ? known_hosts_read("", 0, path, out) : status;
    }
    status = known_hosts_read(text, n, path, out);
    auth_text_release(text, n);
    return status;
}

enum status known_hosts_find(const char *address, struct known_host *out, bool *found_out)
{
    struct known_hosts hosts;
    char path[PATH_MAX];
    *found_out = false;
    if (getenv("HOME") == NULL && getenv("XDG_CONFIG_HOME") == NULL) {
        return STATUS_OK;
    }
    enum status status = load(&hosts, path);
    if (status != STATUS_OK) {
        return status;
    }
    const struct known_host *host = find_same(&hosts, address);
    *found_out = host != NULL;
    if (host != NULL) {
        *out = *host;
    }
    known_hosts_release(&hosts);
    return STATUS_OK;
}

/* Write a file that is its owner's alone, aside and renamed. */
static enum status owner_write(const char *path, const char *text)
{
    const struct iovec piece = {(void *)(uintptr_t)text, strlen(text)};
    mode_t before = umask(077);
    enum status status = file_replace(path, &piece, 1);
    umask(before);
    return status;
}

static void print_key(FILE *file, const char *key, const char *text)
{
    char *quoted = toml_quote(text);
    fprintf(file, "%s = %s\n", key, quoted);
    free(quoted);
}

static enum status write_all(const char *path, const struct known_hosts *hosts)
{
    char *text = NULL;
    size_t n;
    FILE *file = open_memstream(&text, &n);
    fputs("# The daemons that trainctl knows over TCP; written by trainctl login.\n", file);
    for (size_t i = 0; i < hosts->n_host; i++) {
        char *address = toml_quote(hosts->host[i].address);
        fprintf(file, "\n[%s]\n", address);
        print_key(file, "fingerprint", hosts->host[i].fingerprint);
        print_key(file, "user", hosts->host[i].user);
        print_key(file, "secret_file", hosts->host[i].secret_file);
        free(address);
    }
    fclose(file);
    enum status status = owner_write(path, text);
    free(text);
    return status;
}

enum status known_hosts_save(const struct known_host *host)
{
    struct known_hosts hosts;
    char path[PATH_MAX];
    enum status status = load(&hosts, path);
    if (status == STATUS_OK) {
        status = hosts_path(FILE_NAME, true, path);
    }
    if (status == STATUS_OK) {
        struct known_host *place = find_same(&hosts, host->address);
        *(place != NULL ? place : &hosts.host[hosts.n_host++]) = *host;
        status = write_all(path, &hosts);
    }
    known_hosts_release(&hosts);
    return status;
}

enum status known_hosts_remove(const char *address)
{
    struct known_hosts hosts;
    char path[PATH_MAX];
    enum status status = load(&hosts, path);
    struct known_host *host = status == STATUS_OK ? find_same(&hosts, address) : NULL;
    if (host != NULL) {
        hosts.n_host--;
        memmove(host, host + 1, (size_t)(hosts.host + hosts.n_host - host) * sizeof *host);
        status = write_all(path, &hosts);
    }
    known_hosts_release(&hosts);
    return status;
}

/* --- secrets beside it --- */

/* The folder of the file, by a path without links. */
static bool find_folder(char out[PATH_MAX])
{
    char path[PATH_MAX];
    return hosts_path(".", false, path) == STATUS_OK && realpath(path, out) != NULL;
}

enum status known_hosts_forget_secret(const char *secret_file, bool *removed_out)
{
    struct known_hosts hosts;
    char path[PATH_MAX], folder[PATH_MAX];
    *removed_out = false;
    size_t n = find_folder(folder) ? strlen(folder) : 0;
    if (n == 0 || realpath(secret_file, path) == NULL || strncmp(path, folder, n) != 0 || path[n] != '/' ||
        strncmp(path + n + 1, SECRET_NAME, strlen(SECRET_NAME)) != 0 || strchr(path + n + 1, '/') != NULL) {
        return STATUS_OK;
    }
    enum status status = load(&hosts, folder);
    bool is_used = false;
    for (size_t i = 0; i < hosts.n_host && status == STATUS_OK; i++) {
        is_used = is_used || (realpath(hosts.host[i].secret_file, folder) != NULL && strcmp(folder, path) == 0);
    }
    known_hosts_release(&hosts);
    if (status == STATUS_OK && !is_used) {
        *removed_out = unlink(path) == 0;
        status = *removed_out ? STATUS_OK : status_fail(STATUS_IO, "cannot remove '%s': %s", path, strerror(errno));
    }
    return status;
}

enum status known_hosts_keep_secret(const struct auth_secret *secret, struct known_host *host)
{
    char name[NAME_MAX], text[AUTH_TEXT_BYTES + 1];
    int n = snprintf(name, sizeof name, SECRET_NAME "%.180s-%s", host->address + strlen("tcp:"), host->user);
    for (int i = 0; i < n && name[i] != '\0'; i++) {
        name[i] = isalnum((unsigned char)name[i]) || strchr(".-_", name[i]) != NULL ? name[i] : '_';
    }
    for (size_t i = 0; i < AUTH_BYTES; i++) {
        sprintf(text + 2 * i, "%02x", secret->bytes[i]);
    }
    strcpy(text + 2 * AUTH_BYTES, "\n");
    enum status status = hosts_path(name, true, host->secret_file);
    if (status == STATUS_OK) {
        status = owner_write(host->secret_file, text);
    }
    explicit_bzero(text, sizeof text);
    return status;
}
