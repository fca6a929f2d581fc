#include "trainerd/daemon/server/auth.h"

#include "protocol/file.h"
#include "protocol/log.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define N_DIGIT (2 * AUTH_BYTES)

static const char *const role_names[] = {[AUTH_ROLE_CLIENT] = "trainerd-1-client", [AUTH_ROLE_SERVER] = "trainerd-1-server"};
#define ROLE_NAME_BYTES 17

static void start(void)
{
    ASSERT(sodium_init() >= 0);
}

/* Exactly 64 hexadecimal digits to 32 bytes. */
static bool read_digits(const char *text, unsigned char out[AUTH_BYTES])
{
    size_t n = 0;
    return strlen(text) == N_DIGIT && sodium_hex2bin(out, AUTH_BYTES, text, N_DIGIT, NULL, &n, NULL) == 0 && n == AUTH_BYTES;
}

static enum status check_owner(const char *path, int file)
{
    struct stat info;
    if (fstat(file, &info) != 0) {
        return status_fail(STATUS_IO, "cannot stat secret file '%s': %s", path, strerror(errno));
    }
    if (info.st_uid != geteuid() && info.st_uid != 0) {
        return status_fail(STATUS_CONFIG, "secret file '%s' belongs to user %u, expected %u or root", path,
                           (unsigned)info.st_uid, (unsigned)geteuid());
    }
    if ((info.st_mode & 077) != 0) {
        return status_fail(STATUS_CONFIG, "secret file '%s' has mode %04o, expected 0600: others could read or change it", path,
                           (unsigned)info.st_mode & 07777);
    }
    return STATUS_OK;
}

enum status auth_secret_load(const char *path, struct auth_secret *out)
{
    int file;
    start();
    enum status status = file_open(path, &file);
    if (status != STATUS_OK) {
        return status;
    }
    char text[N_DIGIT + 2] = "";
    status = check_owner(path, file);
    if (status == STATUS_OK) {
        ssize_t n = read(file, text, sizeof text - 1);
        if (n == N_DIGIT + 1 && text[N_DIGIT] == '\n') {
            text[N_DIGIT] = '\0';
        }
        if (n < 0) {
            status = status_fail(STATUS_IO, "cannot read secret file '%s': %s", path, strerror(errno));
        } else if (!read_digits(text, out->bytes)) {
            status = status_fail(STATUS_CONFIG,
                                 "secret file '%s' does not hold 64 hexadecimal digits and nothing else, as "
                                 "`openssl rand -hex 32` prints them",
                                 path);
        }
    }
    sodium_memzero(text, sizeof text);
    close(file);
    return status;
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

/* The message that a proof authenticates: the role, then both nonces. false: a nonce is not valid. */
static bool build(enum auth_role role, const char *server_nonce, const char *client_nonce,
                  unsigned char out[ROLE_NAME_BYTES + 2 * AUTH_BYTES])
{
    memcpy(out, role_names[role], ROLE_NAME_BYTES);
    return read_digits(server_nonce, out + ROLE_NAME_BYTES) && read_digits(client_nonce, out + ROLE_NAME_BYTES + AUTH_BYTES);
}

enum status auth_proof(const struct auth_secret *secret, enum auth_role role, const char *server_nonce,
                       const char *client_nonce, char out[AUTH_TEXT_BYTES])
{
    unsigned char message[ROLE_NAME_BYTES + 2 * AUTH_BYTES], proof[crypto_auth_BYTES];
    if (!build(role, server_nonce, client_nonce, message)) {
        return status_fail(STATUS_USAGE, "a nonce is not 64 hexadecimal digits");
    }
    crypto_auth(proof, message, sizeof message, secret->bytes);
    sodium_bin2hex(out, AUTH_TEXT_BYTES, proof, sizeof proof);
    return STATUS_OK;
}

bool auth_is_proof(const struct auth_secret *secret, enum auth_role role, const char *server_nonce, const char *client_nonce,
                   const char *proof)
{
    unsigned char message[ROLE_NAME_BYTES + 2 * AUTH_BYTES], given[crypto_auth_BYTES];
    return build(role, server_nonce, client_nonce, message) && read_digits(proof, given) &&
           crypto_auth_verify(given, message, sizeof message, secret->bytes) == 0;
}
