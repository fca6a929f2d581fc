#include "trainerd/coordinator/records/tensorboard.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/files/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HEAD_BYTES 12 /* u64 length, u32 its checksum */
#define TAG_MOST 63

/* Protocol buffers: a key is (field << 3) | wire type. */
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_FILE_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION_LOG = 7 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2, SESSION_LOG_STATUS = 1, SESSION_START = 1 };
/* For the plugin "hparams": data in a value's metadata, the tensor is 0 (plugin_data.proto, summary_v2.py). */
enum { VALUE_TENSOR = 8, VALUE_METADATA = 9, METADATA_PLUGIN = 1, METADATA_CLASS = 4, METADATA_IS_TENSOR = 2 };
enum { PLUGIN_NAME = 1, PLUGIN_CONTENT = 2, CONTENT_BEGIN = 3, CONTENT_END = 4 };
enum { BEGIN_HPARAMS = 1, BEGIN_TIME = 5, END_STATUS = 1, END_TIME = 2, END_SUCCESS = 1 };
enum { MAP_KEY = 1, MAP_VALUE = 2, VARIANT_NUMBER = 2, VARIANT_TEXT = 3, VARIANT_BOOL = 4 };

struct tensorboard {
    int file;
    char path[PATH_MAX];
    uint32_t crc_table[256];
};

/* A message in the making. It owns its bytes: record_release. */
struct record {
    uint8_t *bytes;
    size_t n, capacity;
};

static void record_release(struct record *record)
{
    free(record->bytes);
    *record = (struct record){0};
}

/* CRC-32C, reflected polynomial 0x82f63b78. */
static void crc_init(uint32_t table[256])
{
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++) {
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0x82f63b78u : 0);
        }
    }
}

/* TFRecord's masked CRC: the CRC of bytes that contain their own CRC would be a constant. */
static uint32_t crc_masked(const uint32_t table[256], const uint8_t *bytes, size_t n)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        crc = table[(crc ^ bytes[i]) & 0xff] ^ crc >> 8;
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void put(struct record *record, const void *bytes, size_t n)
{
    if (n > record->capacity - record->n) {
        record->capacity = 2 * (record->n + n) + 256;
        uint8_t *more = memory_alloc(record->capacity, 1);
        if (record->n > 0) {
            memcpy(more, record->bytes, record->n);
        }
        free(record->bytes);
        record->bytes = more;
    }
    if (n > 0) {
        memcpy(record->bytes + record->n, bytes, n);
    }
    record->n += n;
}

static void put_varint(struct record *record, uint64_t value)
{
    uint8_t byte;
    for (; value >= 0x80; value >>= 7) {
        byte = (uint8_t)(value | 0x80);
        put(record, &byte, 1);
    }
    byte = (uint8_t)value;
    put(record, &byte, 1);
}

static void put_key(struct record *record, int field, int wire)
{
    put_varint(record, (uint64_t)(field << 3 | wire));
}

static void put_bytes(struct record *record, int field, const void *bytes, size_t n)
{
    put_key(record, field, WIRE_BYTES);
    put_varint(record, n);
    put(record, bytes, n);
}

static void put_text(struct record *record, int field, const char *text)
{
    put_bytes(record, field, text, strlen(text));
}

/* A message within a message, which is released. */
static void put_message(struct record *record, int field, struct record *inner)
{
    put_bytes(record, field, inner->bytes, inner->n);
    record_release(inner);
}

static void put_number(struct record *record, int field, double value)
{
    put_key(record, field, WIRE_64);
    put(record, &value, sizeof value);
}

/* Begin an event's record; its head is written at the end. */
static void event_begin(struct record *record, double time_s, int64_t step)
{
    static const uint8_t head[HEAD_BYTES];
    *record = (struct record){0};
    put(record, head, sizeof head);
    put_key(record, EVENT_WALL_TIME, WIRE_64);
    put(record, &time_s, sizeof time_s);
    put_key(record, EVENT_STEP, WIRE_VARINT);
    put_varint(record, (uint64_t)step);
}

/* Write the record, and release it. */
static enum status event_end(const struct tensorboard *tensorboard, struct record *record)
{
    uint64_t n = record->n - HEAD_BYTES;
    memcpy(record->bytes, &n, sizeof n);
    uint32_t crc = crc_masked(tensorboard->crc_table, record->bytes, sizeof n);
    memcpy(record->bytes + sizeof n, &crc, sizeof crc);
    crc = crc_masked(tensorboard->crc_table, record->bytes + HEAD_BYTES, n);
    put(record, &crc, sizeof crc);
    int error = file_write(tensorboard->file, record->bytes, record->n);
    record_release(record);
    return error == 0 ? STATUS_OK
                      : status_fail(STATUS_IO, "cannot write '%s': %s", tensorboard->path, strerror(error));
}

static enum status file_make(const struct dir *folder, struct tensorboard *tensorboard)
{
    char host[HOST_NAME_MAX + 1] = "";
    gethostname(host, sizeof host - 1);
    long long now = (long long)time(NULL);
    tensorboard->file = -1;
    errno = EEXIST;
    for (int i = 0; tensorboard->file < 0 && errno == EEXIST; i++) {
        if (snprintf(tensorboard->path, PATH_MAX, "%s/events.out.tfevents.%010lld.%s.%d.%d", folder->path, now, host,
                     (int)getpid(), i) >= PATH_MAX) {
            return status_fail(STATUS_CREATE, "cannot create a file in '%s': its name is too long for this system",
                               folder->path);
        }
        tensorboard->file = openat(folder->file, tensorboard->path + strlen(folder->path) + 1,
                                   O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    }
    return tensorboard->file >= 0
               ? STATUS_OK
               : status_fail(STATUS_CREATE, "cannot create '%s': %s", tensorboard->path, strerror(errno));
}

enum status tensorboard_open(const struct dir *folder, struct tensorboard **out)
{
    static const char version[] = "brain.Event:2";
    struct tensorboard *tensorboard = memory_alloc(1, sizeof *tensorboard);
    crc_init(tensorboard->crc_table);
    enum status status = file_make(folder, tensorboard);
    if (status == STATUS_OK) {
        struct record record;
        event_begin(&record, (double)time(NULL), 0);
        put_bytes(&record, EVENT_FILE_VERSION, version, sizeof version - 1);
        status = event_end(tensorboard, &record);
    }
    if (status != STATUS_OK) {
        tensorboard_close(tensorboard);
        return status;
    }
    *out = tensorboard;
    return STATUS_OK;
}

void tensorboard_close(struct tensorboard *tensorboard)
{
    if (tensorboard != NULL && tensorboard->file >= 0) {
        close(tensorboard->file);
    }
    free(tensorboard);
}

enum status tensorboard_write(struct tensorboard *tensorboard, int64_t step, double time_s,
                              const struct tensorboard_scalar *scalars, int n_scalar)
{
    if (tensorboard == NULL) {
        return STATUS_OK;
    }
    ASSERT(n_scalar <= TENSORBOARD_MOST);
    struct record summary = {0}, record;
    for (int i = 0; i < n_scalar; i++) {
        struct record value = {0};
        float number = (float)scalars[i].value;
        if (!isfinite(number)) {
            continue;
        }
        ASSERT(strlen(scalars[i].tag) <= TAG_MOST);
        put_text(&value, VALUE_TAG, scalars[i].tag);
        put_key(&value, VALUE_SIMPLE, WIRE_32);
        put(&value, &number, sizeof number);
        put_message(&summary, SUMMARY_VALUE, &value);
    }
    event_begin(&record, time_s, step);
    put_message(&record, EVENT_SUMMARY, &summary);
    return event_end(tensorboard, &record);
}

enum status tensorboard_restart(struct tensorboard *tensorboard, int64_t step)
{
    if (tensorboard == NULL) {
        return STATUS_OK;
    }
    struct record log = {0}, record;
    put_key(&log, SESSION_LOG_STATUS, WIRE_VARINT);
    put_varint(&log, SESSION_START);
    event_begin(&record, (double)time(NULL), step);
    put_message(&record, EVENT_SESSION_LOG, &log);
    return event_end(tensorboard, &record);
}

/* --- hyperparameters --- */

/* An event whose one value has this content for the plugin; content is released. */
static enum status write_plugin(struct tensorboard *tensorboard, const char *tag, double time_s,
                                struct record *content)
{
    static const uint8_t zero[] = {0x08, 0x01, 0x12, 0x00, 0x2a, 0x04, 0, 0, 0, 0}; /* float, a scalar, its value */
    struct record plugin = {0}, metadata = {0}, value = {0}, summary = {0}, record;
    put_text(&plugin, PLUGIN_NAME, "hparams");
    put_message(&plugin, PLUGIN_CONTENT, content);
    put_message(&metadata, METADATA_PLUGIN, &plugin);
    put_key(&metadata, METADATA_CLASS, WIRE_VARINT);
    put_varint(&metadata, METADATA_IS_TENSOR);
    put_text(&value, VALUE_TAG, tag);
    put_bytes(&value, VALUE_TENSOR, zero, sizeof zero);
    put_message(&value, VALUE_METADATA, &metadata);
    put_message(&summary, SUMMARY_VALUE, &value);
    event_begin(&record, time_s, 0);
    put_message(&record, EVENT_SUMMARY, &summary);
    return event_end(tensorboard, &record);
}

static void put_hparam(struct record *all, const struct tensorboard_hparam *hparam)
{
    struct record variant = {0}, pair = {0};
    switch (hparam->kind) {
    case TENSORBOARD_NUMBER:
        put_number(&variant, VARIANT_NUMBER, hparam->number);
        break;
    case TENSORBOARD_TEXT:
        put_text(&variant, VARIANT_TEXT, hparam->text);
        break;
    case TENSORBOARD_BOOL:
        put_key(&variant, VARIANT_BOOL, WIRE_VARINT);
        put_varint(&variant, hparam->number != 0);
        break;
    }
    put_text(&pair, MAP_KEY, hparam->name);
    put_message(&pair, MAP_VALUE, &variant);
    put_message(all, BEGIN_HPARAMS, &pair);
}

enum status tensorboard_begin(struct tensorboard *tensorboard, double time_s,
                              const struct tensorboard_hparam *hparams, int n_hparam)
{
    if (tensorboard == NULL) {
        return STATUS_OK;
    }
    struct record begin = {0}, content = {0};
    for (int i = 0; i < n_hparam; i++) {
        put_hparam(&begin, &hparams[i]);
    }
    put_number(&begin, BEGIN_TIME, time_s);
    put_message(&content, CONTENT_BEGIN, &begin);
    return write_plugin(tensorboard, "_hparams_/session_start_info", time_s, &content);
}

enum status tensorboard_end(struct tensorboard *tensorboard, double time_s)
{
    if (tensorboard == NULL) {
        return STATUS_OK;
    }
    struct record end = {0}, content = {0};
    put_key(&end, END_STATUS, WIRE_VARINT);
    put_varint(&end, END_SUCCESS);
    put_number(&end, END_TIME, time_s);
    put_message(&content, CONTENT_END, &end);
    return write_plugin(tensorboard, "_hparams_/session_end_info", time_s, &content);
}
