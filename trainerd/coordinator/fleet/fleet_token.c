/* The job's secret, which a worker needs to join. It is passed through pipes and files, never through arguments. */
#include "trainerd/coordinator/fleet/fleet_state.h"

#include "protocol/files/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOKEN_LEAST 32

enum status fleet_token_make(char token[FLEET_TOKEN_BYTES])
{
    unsigned char bits[32];
    if (getrandom(bits, sizeof bits, 0) != (ssize_t)sizeof bits) {
        return status_fail(STATUS_IO, "cannot draw 32 random bytes for the token: %s", strerror(errno));
    }
    for (size_t i = 0; i < sizeof bits; i++) {
        snprintf(token + 2 * i, 3, "%02x", bits[i]);
    }
    return STATUS_OK;
}

/* Written under another name first: who waits for the file finds the token in it. */
static enum status token_create(const char *path, char token[FLEET_TOKEN_BYTES])
{
    enum status status = fleet_token_make(token);
    if (status != STATUS_OK) {
        return status;
    }
    char line[FLEET_TOKEN_BYTES + 1], whole[PATH_MAX];
    int n = snprintf(line, sizeof line, "%s\n", token);
    if ((size_t)snprintf(whole, sizeof whole, "%s.XXXXXX", path) >= sizeof whole) {
        return status_fail(STATUS_CREATE, "cannot make the token file '%s': %s", path, strerror(ENAMETOOLONG));
    }
    int file = mkostemp(whole, O_CLOEXEC); /* mode 0600 */
    if (file < 0) {
        return status_fail(STATUS_CREATE, "cannot make the token file '%s': %s", path, strerror(errno));
    }
    int failed = file_write(file, line, (size_t)n);
    failed = close(file) != 0 && failed == 0 ? errno : failed;
    if (failed == 0 && link(whole, path) != 0) {
        failed = errno;
    }
    unlink(whole);
    return failed == 0 ? STATUS_OK
                       : status_fail(STATUS_CREATE, "cannot write the token file '%s': %s", path, strerror(failed));
}

static enum status token_read(const char *path, int file, char token[FLEET_TOKEN_BYTES])
{
    struct stat about;
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
        return status_fail(STATUS_CREATE, "the token file '%s' is not a file", path);
    }
    if ((about.st_mode & 077) != 0) {
        return status_fail(STATUS_CREATE,
                           "the token file '%s' has mode %04o, which lets others read it, expected 0600", path,
                           (unsigned)(about.st_mode & 07777));
    }
    ssize_t got = read(file, token, FLEET_TOKEN_BYTES);
    size_t n = got > 0 ? (size_t)got : 0, n_word = 0;
    while (n_word < n && token[n_word] > ' ' && token[n_word] < 0x7f) {
        n_word++;
    }
    if (n_word < TOKEN_LEAST || n_word == FLEET_TOKEN_BYTES) {
        return status_fail(STATUS_CREATE,
                           "the token file '%s' starts with a word of %zu characters, expected %d to %d", path,
                           n_word, TOKEN_LEAST, FLEET_TOKEN_BYTES - 1);
    }
    token[n_word] = '\0';
    return STATUS_OK;
}

enum status fleet_token_load(const char *path, char token[FLEET_TOKEN_BYTES])
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0 && errno == ENOENT) {
        return token_create(path, token);
    }
    if (file < 0) {
        return status_fail(STATUS_CREATE, "cannot read the token file '%s': %s", path, strerror(errno));
    }
    enum status status = token_read(path, file, token);
    close(file);
    return status;
}
