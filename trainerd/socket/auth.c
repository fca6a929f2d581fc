#include "trainerd/socket/auth.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/files/file.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define N_DIGIT (2 * AUTH_BYTES)

static const char *const role_names[] = {
    [AUTH_ROLE_CLIENT] = "trainerd-2-client", [AUTH_ROLE_SERVER] = "trainerd-2-server"};
#define ROLE_NAME_BYTES 17
#define MESSAGE_MOST_BYTES (ROLE_NAME_BYTES + 3 * AUTH_BYTES + AUTH_USER_BYTES)
#define SECRET_FILE_MOST_BYTES 4096

static void start(void)
{
    ASSERT(sodium_init() >= 0);
}

/* Exactly 64 hexadecimal digits to 32 bytes. */
static bool read_digits(const char *text, unsigned char out[AUTH_BYTES])
{
    size_t n = 0;
    return strlen(text) == N_DIGIT && sodium_hex2bin(out, AUTH_BYTES, text, N_DIGIT, NULL, &n, NULL) == 0 &&
           n == AUTH_BYTES;
}

static enum status check_owner(const char *what, const char *path, int file)
{
    struct stat info;
    if (fstat(file, &info) != 0) {
        return status_fail(STATUS_IO, "cannot stat %s '%s': %s", what, path, strerror(errno));
    }
    if (info.st_uid != geteuid() && info.st_uid != 0) {
        return status_fail(STATUS_CONFIG, "%s '%s' belongs to user %u, expected %u or root", what, path,
                           (unsigned)info.st_uid, (unsigned)geteuid());
    }
    if ((info.st_mode & 077) != 0) {
        return status_fail(STATUS_CONFIG, "%s '%s' has mode %04o, expected 0600: others could read or change it",
                           what, path, (unsigned)info.st_mode & 07777);
    }
    return STATUS_OK;
}

enum status auth_file_read(const char *what, const char *path, size_t n_most, char **out, size_t *n_out)
{
    int file;
    enum status status = file_open(path, &file);
    if (status != STATUS_OK) {
        return status;
    }
    char *text = memory_alloc(n_most + 2, 1);
    status = check_owner(what, path, file);
    if (status == STATUS_OK) {
        ssize_t n = file_read_at(file, text, n_most + 1, 0);
        if (n < 0) {
            status = status_fail(STATUS_IO, "cannot read %s '%s': %s", what, path, strerror(errno));
        } else if ((size_t)n > n_most) {
            status = status_fail(STATUS_CONFIG, "%s '%s' has more than %zu bytes", what, path, n_most);
        }
        *n_out = n > 0 ? (size_t)n : 0;
    }
    close(file);
    if (status != STATUS_OK) {
        auth_text_release(text, n_most + 2);
        return status;
    }
    *out = text;
    return STATUS_OK;
}

void auth_text_release(char *text, size_t n)
{
    if (text != NULL) {
        sodium_memzero(text, n);
        free(text);
    }
}

enum status auth_secret_load(const char *path, struct auth_secret *out)
{
    char *text;
    size_t n;
    start();
    enum status status = auth_file_read("secret file", path, SECRET_FILE_MOST_BYTES, &text, &n);
    if (status != STATUS_OK) {
        return status;
    }
    if (n == N_DIGIT + 1 && text[N_DIGIT] == '\n') {
        text[N_DIGIT] = '\0';
        n--;
    }
    if (n != N_DIGIT || !read_digits(text, out->bytes)) {
        status = status_fail(STATUS_CONFIG,
                             "secret file '%s' does not hold 64 hexadecimal digits and nothing else, as "
                             "`openssl rand -hex 32` prints them",
                             path);
    }
    auth_text_release(text, n);
    return status;
}

bool auth_secret_read(const char *text, struct auth_secret *out)
{
    start();
    return read_digits(text, out->bytes);
}

void auth_secret_draw(struct auth_secret *out)
{
    start();
    randombytes_buf(out->bytes, sizeof out->bytes);
}

void auth_secret_release(struct auth_secret *secret)
{
    sodium_memzero(secret, sizeof *secret);
}

void auth_nonce(char out[AUTH_TEXT_BYTES])
{
    unsigned char bytes[AUTH_BYTES];
    start();
    randombytes_buf(bytes, sizeof bytes);
    sodium_bin2hex(out, AUTH_TEXT_BYTES, bytes, sizeof bytes);
}

bool auth_is_user(const char *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    size_t n = strlen(name);
    return n > 0 && n < AUTH_USER_BYTES && strspn(name, letters) == n && name[0] != '-' && name[0] != '.';
}

/* The message that a proof authenticates. *n_out 0: a nonce, the fingerprint or the user's name is not valid. */
static void build(enum auth_role role, const struct auth_login *login, unsigned char out[MESSAGE_MOST_BYTES],
                  size_t *n_out)
{
    size_t n_user = strlen(login->user);
    unsigned char *at = out + ROLE_NAME_BYTES;
    memcpy(out, role_names[role], ROLE_NAME_BYTES);
    memset(at, 0, 3 * AUTH_BYTES);
    *n_out = 0;
    if (n_user < AUTH_USER_BYTES && read_digits(login->server_nonce, at) &&
        read_digits(login->client_nonce, at + AUTH_BYTES) &&
        (login->fingerprint[0] == '\0' || read_digits(login->fingerprint, at + 2 * AUTH_BYTES))) {
        memcpy(at + 3 * AUTH_BYTES, login->user, n_user);
        *n_out = ROLE_NAME_BYTES + 3 * AUTH_BYTES + n_user;
    }
}

enum status auth_proof(const struct auth_secret *secret, enum auth_role role, const struct auth_login *login,
                       char out[AUTH_TEXT_BYTES])
{
    unsigned char message[MESSAGE_MOST_BYTES], proof[crypto_auth_BYTES];
    size_t n;
    build(role, login, message, &n);
    if (n == 0) {
        return status_fail(
            STATUS_USAGE,
            "a nonce or fingerprint is not 64 hexadecimal digits, or a user's name has more than %d bytes",
            AUTH_USER_BYTES - 1);
    }
    crypto_auth(proof, message, n, secret->bytes);
    sodium_bin2hex(out, AUTH_TEXT_BYTES, proof, sizeof proof);
    return STATUS_OK;
}

bool auth_is_proof(const struct auth_secret *secret, enum auth_role role, const struct auth_login *login,
                   const char *proof)
{
    unsigned char message[MESSAGE_MOST_BYTES], given[crypto_auth_BYTES];
    size_t n;
    build(role, login, message, &n);
    return n > 0 && read_digits(proof, given) && crypto_auth_verify(given, message, n, secret->bytes) == 0;
}
