/* The daemon's key and certificate: one file, made once. */
#include "trainerd/socket/tls_identity.h"

#include "protocol/base/memory.h"
#include "protocol/files/dir.h"
#include "protocol/files/file.h"
#include "trainerd/socket/auth.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/x509.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define FILE_MOST_BYTES 65536
#define DIGEST_BYTES 32
#define SERIAL_BYTES 16
#define DAY_S 86400
#define WHAT "the daemon's certificate"

/* --- fingerprints --- */

enum status tls_fingerprint_make(const gnutls_datum_t *certificate, char out[TLS_FINGERPRINT_BYTES])
{
    unsigned char digest[DIGEST_BYTES];
    int error = gnutls_hash_fast(GNUTLS_DIG_SHA256, certificate->data, certificate->size, digest);
    if (error < 0) {
        return status_fail(STATUS_PEER, "cannot make a certificate's fingerprint: %s", gnutls_strerror(error));
    }
    for (size_t i = 0; i < sizeof digest; i++) {
        sprintf(out + 2 * i, "%02x", digest[i]);
    }
    return STATUS_OK;
}

bool tls_fingerprint_read(const char *text, char out[TLS_FINGERPRINT_BYTES])
{
    size_t n = 0;
    for (const char *at = text; *at != '\0'; at++) {
        char c = *at >= 'A' && *at <= 'F' ? (char)(*at - 'A' + 'a') : *at;
        bool is_digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
        bool is_between = c == ':' && n % 2 == 0 && n > 0 && at[-1] != ':' && at[1] != '\0';
        if (!is_between && (!is_digit || n == TLS_FINGERPRINT_BYTES - 1)) {
            return false;
        }
        if (is_digit) {
            out[n++] = c;
        }
    }
    out[n < TLS_FINGERPRINT_BYTES ? n : 0] = '\0';
    return n == TLS_FINGERPRINT_BYTES - 1;
}

/* --- making --- */

/* A key and its certificate, while they are made or read. */
struct making {
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t certificate;
    gnutls_datum_t key_text, certificate_text; /* PEM */
};

static void making_release(struct making *making)
{
    if (making->key_text.data != NULL) {
        gnutls_memset(making->key_text.data, 0, making->key_text.size);
    }
    gnutls_free(making->key_text.data);
    gnutls_free(making->certificate_text.data);
    gnutls_x509_privkey_deinit(making->key);
    if (making->certificate != NULL) {
        gnutls_x509_crt_deinit(making->certificate);
    }
}

static int make_key(struct making *making)
{
    int error = gnutls_x509_privkey_init(&making->key);
    error = error == 0 ? gnutls_x509_privkey_generate(making->key, GNUTLS_PK_ECDSA,
                                                      GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0)
                       : error;
    return error == 0 ? gnutls_x509_privkey_export2(making->key, GNUTLS_X509_FMT_PEM, &making->key_text) : error;
}

/* No client looks at its names and times: they are what other tools expect of a certificate. */
static int make_certificate(struct making *making)
{
    unsigned char serial[SERIAL_BYTES];
    int error = gnutls_rnd(GNUTLS_RND_NONCE, serial, sizeof serial);
    serial[0] &= 0x7f; /* a positive number */
    error = error == 0 ? gnutls_x509_crt_init(&making->certificate) : error;
    if (error != 0) {
        return error;
    }
    gnutls_x509_crt_t it = making->certificate;
    error = gnutls_x509_crt_set_version(it, 3);
    error = error == 0 ? gnutls_x509_crt_set_serial(it, serial, sizeof serial) : error;
    error = error == 0 ? gnutls_x509_crt_set_dn(it, "CN=trainerd", NULL) : error;
    error = error == 0 ? gnutls_x509_crt_set_activation_time(it, time(NULL) - DAY_S) : error;
    error = error == 0 ? gnutls_x509_crt_set_expiration_time(it, GNUTLS_X509_NO_WELL_DEFINED_EXPIRATION) : error;
    error = error == 0 ? gnutls_x509_crt_set_key_usage(it, GNUTLS_KEY_DIGITAL_SIGNATURE) : error;
    error = error == 0 ? gnutls_x509_crt_set_key(it, making->key) : error;
    error = error == 0 ? gnutls_x509_crt_sign2(it, it, making->key, GNUTLS_DIG_SHA256, 0) : error;
    return error == 0 ? gnutls_x509_crt_export2(it, GNUTLS_X509_FMT_PEM, &making->certificate_text) : error;
}

/* Only its owner can read it from the moment it has a name, under which others could open it. */
static enum status put(const char *folder, const struct making *making)
{
    struct dir dir;
    struct dir_aside aside;
    enum status status = dir_open(folder, DIR_LAST_FOLLOWED, &dir);
    if (status != STATUS_OK) {
        return status;
    }
    mode_t before = umask(077);
    status = dir_aside_begin(&dir, TLS_FILE, 0, &aside);
    umask(before);
    if (status == STATUS_OK) {
        int error = file_write(aside.file, making->key_text.data, making->key_text.size);
        error = error == 0 ? file_write(aside.file, making->certificate_text.data, making->certificate_text.size)
                           : error;
        status = dir_aside_end(&dir, TLS_FILE, &aside, error, NULL);
    }
    dir_close(&dir);
    return status;
}

static enum status make(const char *folder)
{
    struct making making = {0};
    int error = make_key(&making);
    error = error == 0 ? make_certificate(&making) : error;
    enum status status = error == 0
                             ? put(folder, &making)
                             : status_fail(STATUS_CREATE, "cannot make a certificate: %s", gnutls_strerror(error));
    making_release(&making);
    return status;
}

/* --- reading --- */

/* Each is read by itself: the call that takes a text of both leaks what it has read of a broken one. */
static int import(const gnutls_datum_t *pem, struct making *read, struct tls_identity *identity)
{
    int error = gnutls_certificate_allocate_credentials(&identity->credentials);
    error = error == 0 ? gnutls_x509_privkey_init(&read->key) : error;
    error = error == 0 ? gnutls_x509_crt_init(&read->certificate) : error;
    error = error == 0 ? gnutls_x509_privkey_import(read->key, pem, GNUTLS_X509_FMT_PEM) : error;
    error = error == 0 ? gnutls_x509_crt_import(read->certificate, pem, GNUTLS_X509_FMT_PEM) : error;
    return error == 0 ? gnutls_certificate_set_x509_key(identity->credentials, &read->certificate, 1, read->key)
                      : error;
}

static enum status take(const char *path, char *text, size_t n, struct tls_identity *identity)
{
    gnutls_datum_t pem = {(unsigned char *)text, (unsigned)n}, certificate;
    struct making read = {0};
    int error = import(&pem, &read, identity);
    error = error >= 0 ? gnutls_certificate_get_crt_raw(identity->credentials, 0, 0, &certificate) : error;
    making_release(&read);
    if (error < 0) {
        return status_fail(STATUS_CONFIG,
                           "'%s' does not hold a private key with its certificate, as PEM: %s. Without the file the "
                           "daemon makes a new one, whose fingerprint all clients have to be told",
                           path, gnutls_strerror(error));
    }
    return tls_fingerprint_make(&certificate, identity->fingerprint);
}

enum status tls_identity_open(const char *folder, bool makes, struct tls_identity **out)
{
    char path[PATH_MAX], *text = NULL;
    size_t n;
    if (snprintf(path, sizeof path, "%s/" TLS_FILE, folder) >= (int)sizeof path) {
        return status_fail(STATUS_CONFIG, "the path of " WHAT " in '%.100s…' is too long for this system", folder);
    }
    struct stat found;
    bool is_missing = lstat(path, &found) != 0 && errno == ENOENT;
    enum status status = is_missing && makes ? make(folder) : STATUS_OK;
    if (status != STATUS_OK || (status = auth_file_read(WHAT, path, FILE_MOST_BYTES, &text, &n)) != STATUS_OK) {
        return status;
    }
    struct tls_identity *identity = memory_alloc(1, sizeof *identity);
    status = take(path, text, n, identity);
    auth_text_release(text, n);
    if (status != STATUS_OK) {
        tls_identity_close(identity);
        return status;
    }
    *out = identity;
    return STATUS_OK;
}

void tls_identity_close(struct tls_identity *identity)
{
    if (identity != NULL) {
        if (identity->credentials != NULL) {
            gnutls_certificate_free_credentials(identity->credentials);
        }
        free(identity);
    }
}

const char *tls_identity_fingerprint(const struct tls_identity *identity)
{
    return identity->fingerprint;
}
