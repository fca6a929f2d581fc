/* Reads and writes safetensors files. The header is JSON, so this is one of the files that see jansson.
 * Loading has two passes: the header and every number are checked first, then copied.
 */
#include "protocol/files/safetensors.h"

#include "protocol/base/half.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/base/mistakes.h"
#include "protocol/files/file.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are copied as they lie in memory");

#define LENGTH_BYTES 8
#define METADATA "__metadata__"

struct dtype {
    const char *name;
    size_t n_bytes;
    float (*read)(const unsigned char *at);
};

static float f32_read(const unsigned char *at)
{
    float value;
    memcpy(&value, at, sizeof value);
    return value;
}

static float f64_read(const unsigned char *at)
{
    double value;
    memcpy(&value, at, sizeof value);
    return (float)value;
}

static float bf16_read(const unsigned char *at)
{
    uint32_t bits = ((uint32_t)at[0] | (uint32_t)at[1] << 8) << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float f16_read(const unsigned char *at)
{
    return half_to_float((uint16_t)(at[0] | at[1] << 8));
}

/* Integers are not read. */
static const struct dtype dtypes[] = {
    {"F32", 4, f32_read}, {"F16", 2, f16_read}, {"BF16", 2, bf16_read}, {"F64", 8, f64_read}, {"I64", 8, NULL},
    {"U64", 8, NULL},     {"I32", 4, NULL},     {"U32", 4, NULL},       {"I16", 2, NULL},     {"U16", 2, NULL},
    {"I8", 1, NULL},      {"U8", 1, NULL},      {"BOOL", 1, NULL}};

/* --- save --- */

/* The tensors in the order of their names. */
static const struct safetensor **order_by_name(const struct safetensor *tensor, size_t n_tensor)
{
    const struct safetensor **order = memory_alloc(n_tensor, sizeof *order);
    for (size_t i = 0; i < n_tensor; i++) {
        size_t at = i;
        for (; at > 0 && strcmp(order[at - 1]->name, tensor[i].name) > 0; at--) {
            order[at] = order[at - 1];
        }
        ASSERT(at == 0 || strcmp(order[at - 1]->name, tensor[i].name) != 0);
        order[at] = &tensor[i];
    }
    return order;
}

static int64_t tensor_n_value(const struct safetensor *tensor)
{
    int64_t n = 1;
    for (int d = 0; d < tensor->n_dim; d++) {
        n *= tensor->shape[d];
    }
    return n;
}

/* The header's text, padded with spaces to a multiple of 8; the caller frees it. */
static char *header_print(const struct safetensor *const *order, size_t n_tensor, const struct safetensors_note *note,
                          size_t n_note, size_t *n_out)
{
    json_t *root = json_object();
    if (n_note > 0) {
        json_t *metadata = json_object();
        for (size_t i = 0; i < n_note; i++) {
            json_object_set_new(metadata, note[i].key, json_string(note[i].text));
        }
        json_object_set_new(root, METADATA, metadata);
    }
    int64_t begin = 0;
    for (size_t i = 0; i < n_tensor; i++) {
        int64_t end = begin + tensor_n_value(order[i]) * (int64_t)sizeof(float);
        json_t *shape = json_array();
        for (int d = 0; d < order[i]->n_dim; d++) {
            json_array_append_new(shape, json_integer(order[i]->shape[d]));
        }
        json_object_set_new(root, order[i]->name,
                            json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape, "data_offsets",
                                      (json_int_t)begin, (json_int_t)end));
        begin = end;
    }
    char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(root);
    ASSERT(text != NULL);
    size_t n = strlen(text);
    *n_out = (n + LENGTH_BYTES - 1) / LENGTH_BYTES * LENGTH_BYTES;
    char *padded = memory_alloc(*n_out + 1, 1);
    memcpy(padded, text, n);
    memset(padded + n, ' ', *n_out - n);
    free(text);
    return padded;
}

enum status safetensors_save(const struct dir *dir, const char *name, const struct safetensor *tensor,
                             size_t n_tensor, const struct safetensors_note *note, size_t n_note)
{
    const struct safetensor **order = order_by_name(tensor, n_tensor);
    size_t n_header;
    char *header = header_print(order, n_tensor, note, n_note, &n_header);
    uint64_t length = n_header;
    struct iovec *piece = memory_alloc(n_tensor + 2, sizeof *piece);
    piece[0] = (struct iovec){.iov_base = &length, .iov_len = sizeof length};
    piece[1] = (struct iovec){.iov_base = header, .iov_len = n_header};
    for (size_t i = 0; i < n_tensor; i++) {
        piece[i + 2] = (struct iovec){.iov_base = order[i]->data,
                                      .iov_len = (size_t)tensor_n_value(order[i]) * sizeof(float)};
    }
    enum status status = dir_replace(dir, name, piece, (int)n_tensor + 2);
    free(piece);
    free(header);
    free(order);
    return status;
}

/* --- load --- */

/* One tensor of the header. */
struct entry {
    const char *name; /* the JSON text's */
    const struct dtype *dtype;
    int n_dim;
    int64_t shape[SAFETENSORS_DIM_MOST];
    int64_t begin, end; /* bytes after the header */
};

static const struct dtype *dtype_find(const char *name)
{
    if (name == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            return &dtypes[i];
        }
    }
    return NULL;
}

static enum status shape_read(const json_t *json, const char *origin, struct entry *entry, int64_t *n_value_out)
{
    if (!json_is_array(json) || json_array_size(json) > SAFETENSORS_DIM_MOST) {
        return status_fail(STATUS_DATA, "%s: tensor '%.100s': shape must be a list of at most %d numbers", origin,
                           entry->name, SAFETENSORS_DIM_MOST);
    }
    entry->n_dim = (int)json_array_size(json);
    *n_value_out = 1;
    for (int d = 0; d < entry->n_dim; d++) {
        const json_t *extent = json_array_get(json, (size_t)d);
        entry->shape[d] = json_integer_value(extent);
        if (!json_is_integer(extent) || entry->shape[d] < 0 ||
            __builtin_mul_overflow(*n_value_out, entry->shape[d], n_value_out)) {
            return status_fail(STATUS_DATA, "%s: tensor '%.100s': shape[%d] is not a size", origin, entry->name, d);
        }
    }
    return STATUS_OK;
}

static enum status entry_read(const char *name, const json_t *json, const char *origin, struct entry *out)
{
    out->name = name;
    const char *dtype = json_string_value(json_object_get(json, "dtype"));
    out->dtype = dtype_find(dtype);
    if (out->dtype == NULL) {
        return status_fail(STATUS_DATA, "%s: tensor '%.100s': dtype is %.100s, expected F32, F16, BF16 or F64",
                           origin, name, dtype != NULL ? dtype : "missing");
    }
    int64_t n_value = 0, n_bytes = 0;
    enum status status = shape_read(json_object_get(json, "shape"), origin, out, &n_value);
    if (status != STATUS_OK) {
        return status;
    }
    const json_t *offsets = json_object_get(json, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0);
    const json_t *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end)) {
        return status_fail(STATUS_DATA, "%s: tensor '%.100s': data_offsets must be two whole numbers", origin, name);
    }
    out->begin = json_integer_value(begin);
    out->end = json_integer_value(end);
    if (out->begin < 0 || out->end < out->begin ||
        __builtin_mul_overflow(n_value, (int64_t)out->dtype->n_bytes, &n_bytes) || out->end - out->begin != n_bytes) {
        return status_fail(STATUS_DATA,
                           "%s: tensor '%.100s': data_offsets [%" PRId64 ", %" PRId64
                           "] do not fit its shape and dtype %s",
                           origin, name, out->begin, out->end, out->dtype->name);
    }
    return STATUS_OK;
}

static int entry_compare(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->begin != y->begin) {
        return x->begin < y->begin ? -1 : 1;
    }
    return (x->end > y->end) - (x->end < y->end);
}

/* All entries of the header, in the order of their bytes, which they cover without overlap or hole. */
static enum status entries_read(json_t *header, const char *origin, int64_t n_data, struct entry *out, size_t *n_out)
{
    const char *name;
    json_t *json;
    size_t n = 0;
    json_object_foreach(header, name, json)
    {
        if (strcmp(name, METADATA) == 0) {
            continue;
        }
        enum status status = entry_read(name, json, origin, &out[n++]);
        if (status != STATUS_OK) {
            return status;
        }
    }
    qsort(out, n, sizeof *out, entry_compare);
    int64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (out[i].begin != at) {
            return status_fail(STATUS_DATA,
                               "%s: tensor '%.100s' begins at byte %" PRId64 " of the data, expected %" PRId64
                               " (no hole, no overlap)",
                               origin, out[i].name, out[i].begin, at);
        }
        at = out[i].end;
    }
    if (at != n_data) {
        return status_fail(STATUS_DATA, "%s: the tensors take %" PRId64 " bytes, the file has %" PRId64, origin, at,
                           n_data);
    }
    *n_out = n;
    return STATUS_OK;
}

static enum status header_read(const unsigned char *bytes, size_t n_bytes, const char *origin, json_t **out,
                               size_t *n_header_out)
{
    uint64_t n_header = 0;
    if (n_bytes < LENGTH_BYTES) {
        return status_fail(STATUS_DATA, "%s: %zu bytes, expected a safetensors file", origin, n_bytes);
    }
    memcpy(&n_header, bytes, LENGTH_BYTES);
    if (n_header > n_bytes - LENGTH_BYTES || n_header > SAFETENSORS_HEADER_MOST_BYTES) {
        return status_fail(STATUS_DATA,
                           "%s: its header claims %" PRIu64 " bytes, expected a safetensors file, with at most %zu",
                           origin, n_header,
                           n_bytes - LENGTH_BYTES < SAFETENSORS_HEADER_MOST_BYTES ? n_bytes - LENGTH_BYTES
                                                                                  : SAFETENSORS_HEADER_MOST_BYTES);
    }
    if (n_header == 0 || bytes[LENGTH_BYTES] != '{') {
        return status_fail(STATUS_DATA, "%s: byte %d: expected '{', the begin of the header", origin, LENGTH_BYTES);
    }
    json_error_t error;
    *out = json_loadb((const char *)bytes + LENGTH_BYTES, (size_t)n_header, JSON_REJECT_DUPLICATES, &error);
    if (*out == NULL) {
        return status_fail(STATUS_DATA, "%s: byte %d: bad header: %s", origin, LENGTH_BYTES + error.position,
                           error.text);
    }
    *n_header_out = (size_t)n_header;
    return STATUS_OK;
}

static const struct entry *entry_find(const struct entry *entry, size_t n_entry, const char *name)
{
    for (size_t i = 0; i < n_entry; i++) {
        if (strcmp(entry[i].name, name) == 0) {
            return &entry[i];
        }
    }
    return NULL;
}

static const char *shape_print(int n_dim, const int64_t *shape, char *text, size_t n_text)
{
    size_t at = (size_t)snprintf(text, n_text, "[");
    for (int d = 0; d < n_dim && at < n_text; d++) {
        at += (size_t)snprintf(text + at, n_text - at, "%s%" PRId64, d > 0 ? ", " : "", shape[d]);
    }
    if (at < n_text) {
        snprintf(text + at, n_text - at, "]");
    }
    return text;
}

static const char *stored_name(const struct safetensor *tensor)
{
    return tensor->stored != NULL ? tensor->stored : tensor->name;
}

/* "'w'", or where the file has another name "'w' ('v' in the file)". */
#define LABEL_BYTES 320
static const char *label_print(const struct safetensor *want, char out[LABEL_BYTES])
{
    if (strcmp(stored_name(want), want->name) == 0) {
        snprintf(out, LABEL_BYTES, "'%.150s'", want->name);
    } else {
        snprintf(out, LABEL_BYTES, "'%.150s' ('%.150s' in the file)", want->name, want->stored);
    }
    return out;
}

/* The tensor's shape, as the file is to have it. */
static void stored_shape(const struct safetensor *want, int64_t out[SAFETENSORS_DIM_MOST])
{
    memcpy(out, want->shape, sizeof want->shape);
    if (want->transposed) {
        ASSERT(want->n_dim == 2);
        out[0] = want->shape[1];
        out[1] = want->shape[0];
    }
}

static enum status entry_match(const struct entry *entry, const unsigned char *data, const char *origin,
                               const struct safetensor *want)
{
    char label[LABEL_BYTES], is[128], expected[128];
    int64_t shape[SAFETENSORS_DIM_MOST];
    if (entry->dtype->read == NULL) {
        return status_fail(STATUS_DATA, "%s: tensor %s: dtype is %s, expected F32, F16, BF16 or F64", origin,
                           label_print(want, label), entry->dtype->name);
    }
    stored_shape(want, shape);
    if (entry->n_dim != want->n_dim || memcmp(entry->shape, shape, (size_t)want->n_dim * sizeof *shape) != 0) {
        return status_fail(STATUS_DATA, "%s: tensor %s has shape %s, expected %s", origin, label_print(want, label),
                           shape_print(entry->n_dim, entry->shape, is, sizeof is),
                           shape_print(want->n_dim, shape, expected, sizeof expected));
    }
    int64_t n = tensor_n_value(want);
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(entry->dtype->read(data + entry->begin + i * (int64_t)entry->dtype->n_bytes))) {
            return status_fail(STATUS_DATA, "%s: tensor %s: element %" PRId64 " is not a finite float32 number",
                               origin, label_print(want, label), i);
        }
    }
    return STATUS_OK;
}

/* Is it PyTorch's counter of batches of a batch norm, which is no number of the model? */
static bool is_count(const struct entry *entry)
{
    static const char count[] = "num_batches_tracked";
    size_t n = strlen(entry->name), n_count = sizeof count - 1;
    return n >= n_count && strcmp(entry->name + n - n_count, count) == 0 &&
           (n == n_count || entry->name[n - n_count - 1] == '.');
}

/* Every expected tensor is there, and no other tensor but such counters: a line for each that is not so. */
static enum status names_match(const struct entry *entry, size_t n_entry, const char *origin,
                               const struct safetensor *want, size_t n_want)
{
    struct mistakes mistakes = {0};
    char label[LABEL_BYTES], shape[128];
    for (size_t i = 0; i < n_want; i++) {
        int64_t expected[SAFETENSORS_DIM_MOST];
        stored_shape(&want[i], expected);
        if (entry_find(entry, n_entry, stored_name(&want[i])) == NULL) {
            mistakes_take(&mistakes, status_fail(STATUS_DATA, "%s: tensor %s is missing, expected with shape %s",
                                                 origin, label_print(&want[i], label),
                                                 shape_print(want[i].n_dim, expected, shape, sizeof shape)));
        }
    }
    for (size_t i = 0; i < n_entry && (n_entry > n_want || mistakes.n > 0); i++) {
        bool wanted = is_count(&entry[i]);
        for (size_t k = 0; k < n_want && !wanted; k++) {
            wanted = strcmp(entry[i].name, stored_name(&want[k])) == 0;
        }
        if (!wanted) {
            bool is_whole = entry[i].dtype->read == NULL;
            mistakes_take(&mistakes,
                          status_fail(STATUS_DATA, "%s: tensor '%.100s' belongs to nothing in this model%s%s", origin,
                                      entry[i].name, is_whole ? ": it holds integers, of dtype " : "",
                                      is_whole ? entry[i].dtype->name : ""));
        }
    }
    return mistakes_end(&mistakes);
}

/* A file's header. */
struct contents {
    json_t *header; /* owns the entries' names */
    struct entry *entry;
    size_t n_entry, capacity;
    const unsigned char *data;
};

static void contents_release(struct contents *contents)
{
    memory_release(MEMORY_OTHER, contents->entry, contents->capacity, sizeof *contents->entry);
    json_decref(contents->header);
}

/* owns  the caller releases *out, after a failure, too */
static enum status contents_read(const void *bytes, size_t n_bytes, const char *origin, struct contents *out)
{
    size_t n_header = 0;
    *out = (struct contents){0};
    enum status status = header_read(bytes, n_bytes, origin, &out->header, &n_header);
    if (status != STATUS_OK) {
        return status;
    }
    size_t n = json_object_size(out->header);
    out->data = (const unsigned char *)bytes + LENGTH_BYTES + n_header;
    status = memory_acquire(MEMORY_OTHER, n, sizeof *out->entry, &out->entry);
    if (status != STATUS_OK) {
        return status;
    }
    out->capacity = n;
    return entries_read(out->header, origin, (int64_t)(n_bytes - LENGTH_BYTES - n_header), out->entry, &out->n_entry);
}

static void entry_copy(const struct entry *from, const unsigned char *data, const struct safetensor *to)
{
    int64_t n = tensor_n_value(to), n_column = to->transposed ? to->shape[1] : 1,
            n_row = n_column > 0 ? n / n_column : 0;
    for (int64_t k = 0; k < n; k++) { /* one column: as it is stored */
        int64_t at = k % n_column * n_row + k / n_column;
        to->data[k] = from->dtype->read(data + from->begin + at * (int64_t)from->dtype->n_bytes);
    }
}

enum status safetensors_load_bytes(const void *bytes, size_t n_bytes, const char *origin,
                                   const struct safetensor *want, size_t n_want)
{
    struct contents contents;
    enum status status = contents_read(bytes, n_bytes, origin, &contents);
    if (status == STATUS_OK) {
        status = names_match(contents.entry, contents.n_entry, origin, want, n_want);
    }
    for (size_t i = 0; status == STATUS_OK && i < n_want; i++) {
        const struct entry *from = entry_find(contents.entry, contents.n_entry, stored_name(&want[i]));
        status = entry_match(from, contents.data, origin, &want[i]);
    }
    for (size_t i = 0; status == STATUS_OK && i < n_want; i++) {
        if (want[i].data != NULL) {
            entry_copy(entry_find(contents.entry, contents.n_entry, stored_name(&want[i])), contents.data, &want[i]);
        }
    }
    contents_release(&contents);
    return status;
}

enum status safetensors_shapes_bytes(const void *bytes, size_t n_bytes, const char *origin, struct safetensor *tensor,
                                     size_t n_tensor)
{
    struct contents contents;
    enum status status = contents_read(bytes, n_bytes, origin, &contents);
    for (size_t i = 0; status == STATUS_OK && i < n_tensor; i++) {
        const struct entry *found = entry_find(contents.entry, contents.n_entry, stored_name(&tensor[i]));
        tensor[i].n_dim = found != NULL ? found->n_dim : -1;
        if (found != NULL) {
            memcpy(tensor[i].shape, found->shape, sizeof found->shape);
        }
    }
    contents_release(&contents);
    return status;
}

/* owns  the caller gives *bytes_out, of *n_out bytes, back to memory_release */
static enum status bytes_read(const char *path, void **bytes_out, size_t *n_out)
{
    int file;
    struct stat info;
    enum status status = file_open(path, &file);
    if (status != STATUS_OK) {
        return status;
    }
    if (fstat(file, &info) != 0) {
        status = status_fail(STATUS_IO, "%s: cannot find its size: %s", path, strerror(errno));
        goto close;
    }
    *n_out = (size_t)info.st_size;
    status = memory_acquire(MEMORY_OTHER, *n_out, 1, bytes_out);
    if (status != STATUS_OK) {
        goto close;
    }
    int error = file_read(file, *bytes_out, *n_out);
    if (error != 0) {
        status = status_fail(STATUS_IO, "%s: cannot read %zu bytes: %s", path, *n_out,
                             error == ENODATA ? "the file became shorter" : strerror(error));
        memory_release(MEMORY_OTHER, *bytes_out, *n_out, 1);
    }
close:
    close(file);
    return status;
}

enum status safetensors_load(const char *path, const struct safetensor *want, size_t n_want)
{
    void *bytes = NULL;
    size_t n_bytes = 0;
    enum status status = bytes_read(path, &bytes, &n_bytes);
    if (status == STATUS_OK) {
        status = safetensors_load_bytes(bytes, n_bytes, path, want, n_want);
        memory_release(MEMORY_OTHER, bytes, n_bytes, 1);
    }
    return status;
}

enum status safetensors_shapes(const char *path, struct safetensor *tensor, size_t n_tensor)
{
    void *bytes = NULL;
    size_t n_bytes = 0;
    enum status status = bytes_read(path, &bytes, &n_bytes);
    if (status == STATUS_OK) {
        status = safetensors_shapes_bytes(bytes, n_bytes, path, tensor, n_tensor);
        memory_release(MEMORY_OTHER, bytes, n_bytes, 1);
    }
    return status;
}
