/* Any bytes from a TCP client: in the place of its handshake, or after it in the place of records, or inside them as lines. Whatever comes, an end
 * that fails says so and reads no bytes that were not written.
 */
#include "protocol/base/log.h"
#include "trainerd/socket/frame.h"
#include "trainerd/socket/tls.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 1024u

enum kind { KIND_HANDSHAKE, KIND_RECORDS, KIND_LINES, KIND_N };

static struct tls_identity *identity;

static void identity_make(void)
{
    char folder[] = "/tmp/trainerd-fuzz-XXXXXX", path[64];
    ASSERT(mkdtemp(folder) != NULL && tls_identity_open(folder, true, &identity) == STATUS_OK);
    snprintf(path, sizeof path, "%s/" TLS_FILE, folder);
    ASSERT(remove(path) == 0 && remove(folder) == 0);
}

static bool carry(struct tls *from, struct tls *to)
{
    size_t n;
    bool done;
    char *bytes = tls_take(from, &n);
    if (bytes != NULL) {
        tls_feed(to, bytes, n);
        free(bytes);
    }
    return tls_shake(to, &done) == STATUS_OK && done;
}

/* All lines that the daemon's end reads; the number of bytes. */
static size_t read_all(struct tls *tls)
{
    struct frame_reader frames;
    enum status status = STATUS_OK;
    size_t n_all = 0, n = 1, room;
    frame_reader_init(&frames, LINE_BYTES);
    while (status == STATUS_OK && n > 0) {
        bool whole = true;
        char *at = frame_reader_buffer(&frames, &room);
        status = tls_read(tls, at, room, &n);
        ASSERT(n <= room && (status == STATUS_OK || n == 0));
        frame_reader_fill(&frames, n);
        n_all += n;
        while (status == STATUS_OK && whole) {
            const char *line;
            size_t n_line;
            json_t *request = NULL;
            status = frame_reader_next(&frames, &line, &n_line, &whole);
            if (status == STATUS_OK && whole) {
                (void)frame_parse(line, n_line, &request);
                json_decref(request);
            }
        }
    }
    frame_reader_release(&frames);
    return n_all;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (identity == NULL) {
        identity_make();
    }
    enum kind kind = n_bytes > 0 ? data[0] % KIND_N : KIND_HANDSHAKE;
    data += n_bytes > 0;
    n_bytes -= n_bytes > 0;
    bool done = false;
    struct tls *client = tls_open(NULL), *daemon = tls_open(identity);
    if (kind == KIND_HANDSHAKE) {
        tls_feed(daemon, data, n_bytes / 2);
        if (tls_shake(daemon, &done) == STATUS_OK) {
            tls_feed(daemon, data + n_bytes / 2, n_bytes - n_bytes / 2);
            (void)tls_shake(daemon, &done);
        }
        ASSERT(!done);
    } else {
        ASSERT(tls_shake(client, &done) == STATUS_OK);
        carry(client, daemon);
        ASSERT(carry(daemon, client) && carry(client, daemon));
        if (kind == KIND_RECORDS) {
            tls_feed(daemon, data, n_bytes);
            ASSERT(read_all(daemon) == 0);
        } else if (n_bytes > 0) {
            ASSERT(tls_write(client, data, n_bytes) == STATUS_OK);
            carry(client, daemon);
            read_all(daemon);
        }
    }
    tls_end(daemon);
    tls_close(client);
    tls_close(daemon);
    return 0;
}
