/* The grammar of the .npy head, read strictly: exactly the keys descr, fortran_order and shape, in any order, once
 * each.
 *
 * Nothing is evaluated: a Python literal of any other form is refused. Independent of files.
 */
#include "partition/files/npy_header.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A place in the dict literal. */
struct cursor {
    const struct npy *npy; /* for its name in messages */
    const char *start, *at, *end;
};

static enum status fail_at(const struct cursor *cursor, const char *expected)
{
    return status_fail(STATUS_DATA, "%s: header byte %td: expected %s", cursor->npy->name, cursor->at - cursor->start,
                       expected);
}

static void skip_space(struct cursor *cursor)
{
    while (cursor->at < cursor->end && (*cursor->at == ' ' || *cursor->at == '\n' || *cursor->at == '\t')) {
        cursor->at++;
    }
}

/* Is `c` next (after space)? Then step over it. */
static bool take(struct cursor *cursor, char c)
{
    skip_space(cursor);
    if (cursor->at < cursor->end && *cursor->at == c) {
        cursor->at++;
        return true;
    }
    return false;
}

/* A quoted string without escapes, at most room-1 characters. */
static enum status take_string(struct cursor *cursor, char *out, size_t room)
{
    skip_space(cursor);
    char quote = cursor->at < cursor->end ? *cursor->at : '\0';
    if (quote != '\'' && quote != '"') {
        return fail_at(cursor, "a quoted string");
    }
    cursor->at++;
    size_t n = 0;
    for (; cursor->at < cursor->end && *cursor->at != quote; cursor->at++) {
        if (*cursor->at == '\\' || *cursor->at == '\n' || n + 1 >= room) {
            return fail_at(cursor, "a short string without escapes");
        }
        out[n++] = *cursor->at;
    }
    out[n] = '\0';
    return take(cursor, quote) ? STATUS_OK : fail_at(cursor, "the end of the string");
}

static enum status take_word(struct cursor *cursor, bool *out)
{
    skip_space(cursor);
    size_t left = (size_t)(cursor->end - cursor->at);
    if (left >= 4 && memcmp(cursor->at, "True", 4) == 0) {
        cursor->at += 4;
        *out = true;
        return STATUS_OK;
    }
    if (left >= 5 && memcmp(cursor->at, "False", 5) == 0) {
        cursor->at += 5;
        *out = false;
        return STATUS_OK;
    }
    return fail_at(cursor, "True or False");
}

static enum status take_count(struct cursor *cursor, int64_t *out)
{
    skip_space(cursor);
    int64_t value = 0;
    const char *first = cursor->at;
    for (; cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9'; cursor->at++) {
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *cursor->at - '0', &value)) {
            return fail_at(cursor, "a size below 2^63");
        }
    }
    *out = value;
    return cursor->at > first ? STATUS_OK : fail_at(cursor, "a size");
}

/* "(3, 4)", "(3,)" or "()". */
static enum status take_shape(struct cursor *cursor, struct npy *npy)
{
    if (!take(cursor, '(')) {
        return fail_at(cursor, "the shape as a tuple");
    }
    npy->rank = 0;
    while (!take(cursor, ')')) {
        if (npy->rank == NPY_RANK_MOST) {
            return fail_at(cursor, "at most 4 dimensions");
        }
        enum status status = take_count(cursor, &npy->shape[npy->rank]);
        if (status != STATUS_OK) {
            return status;
        }
        npy->rank++;
        bool comma = take(cursor, ',');
        skip_space(cursor);
        bool last = cursor->at < cursor->end && *cursor->at == ')';
        if ((!comma && !last) || (!comma && npy->rank == 1)) {
            return fail_at(cursor, "',' in the shape");
        }
    }
    for (int i = npy->rank; i < NPY_RANK_MOST; i++) {
        npy->shape[i] = 1;
    }
    return STATUS_OK;
}

/* "<f4", "|b1" … to a type. */
static enum status type_find(const struct npy *npy, const char *descr, enum npy_type *out)
{
    if (strlen(descr) == 3 && strchr("<|=", descr[0]) != NULL) {
        for (enum npy_type type = NPY_TYPE_BOOL; type < NPY_TYPE_N; type++) {
            size_t size = npy_type_size(type);
            if (descr[1] == npy_type_letter(type) && descr[2] == (char)('0' + size) &&
                (descr[0] != '|' || size == 1)) {
                *out = type;
                return STATUS_OK;
            }
        }
    }
    if (descr[0] == '>') {
        return status_fail(STATUS_DATA, "%s: dtype '%s' is big-endian, expected little-endian", npy->name, descr);
    }
    if (strncmp(descr, "|O", 2) == 0) {
        return status_fail(STATUS_DATA, "%s: dtype '|O' holds pickled Python objects, expected plain numbers",
                           npy->name);
    }
    return status_fail(STATUS_DATA,
                       "%s: dtype '%s' is not supported, expected booleans, integers or float16 to float64",
                       npy->name, descr);
}

enum key { KEY_DESCR = 1, KEY_ORDER = 2, KEY_SHAPE = 4 };

/* One `key: value`. */
static enum status take_pair(struct cursor *cursor, struct npy *npy, bool *fortran, unsigned *seen)
{
    char key[32], descr[32];
    enum status status = take_string(cursor, key, sizeof key);
    if (status != STATUS_OK) {
        return status;
    }
    if (!take(cursor, ':')) {
        return fail_at(cursor, "':'");
    }
    unsigned bit = strcmp(key, "descr") == 0           ? KEY_DESCR
                   : strcmp(key, "fortran_order") == 0 ? KEY_ORDER
                   : strcmp(key, "shape") == 0         ? KEY_SHAPE
                                                       : 0;
    if (bit == 0 || (*seen & bit) != 0) {
        return fail_at(cursor, "descr, fortran_order and shape, once each");
    }
    *seen |= bit;
    if (bit == KEY_ORDER) {
        return take_word(cursor, fortran);
    }
    if (bit == KEY_SHAPE) {
        return take_shape(cursor, npy);
    }
    skip_space(cursor);
    if (cursor->at < cursor->end && *cursor->at == '[') {
        return status_fail(STATUS_DATA, "%s: dtype is structured, expected plain numbers", npy->name);
    }
    status = take_string(cursor, descr, sizeof descr);
    return status != STATUS_OK ? status : type_find(npy, descr, &npy->type);
}

static enum status dict_read(struct cursor *cursor, struct npy *npy, bool *fortran)
{
    if (!take(cursor, '{')) {
        return fail_at(cursor, "'{'");
    }
    unsigned seen = 0;
    while (!take(cursor, '}')) {
        enum status status = take_pair(cursor, npy, fortran, &seen);
        if (status != STATUS_OK) {
            return status;
        }
        bool comma = take(cursor, ',');
        skip_space(cursor);
        if (!comma && (cursor->at == cursor->end || *cursor->at != '}')) {
            return fail_at(cursor, "',' or '}'");
        }
    }
    skip_space(cursor);
    if (cursor->at != cursor->end) {
        return fail_at(cursor, "nothing after '}'");
    }
    if (seen != (KEY_DESCR | KEY_ORDER | KEY_SHAPE)) {
        return fail_at(cursor, "descr, fortran_order and shape");
    }
    return STATUS_OK;
}

/* Number of values, and whether they fill `n_left` bytes exactly. */
static enum status size_check(struct npy *npy, size_t n_left, bool fortran)
{
    int64_t n_value = 1, n_bytes;
    int n_long = 0;
    for (int i = 0; i < npy->rank; i++) {
        n_long += npy->shape[i] > 1;
        if (__builtin_mul_overflow(n_value, npy->shape[i], &n_value)) {
            return status_fail(STATUS_DATA, "%s: shape has more than 2^63 values", npy->name);
        }
    }
    if (__builtin_mul_overflow(n_value, (int64_t)npy_type_size(npy->type), &n_bytes) || (uint64_t)n_bytes != n_left) {
        return status_fail(STATUS_DATA, "%s: holds %zu bytes of values, expected %" PRId64 " values of %s", npy->name,
                           n_left, n_value, npy_type_text(npy->type));
    }
    npy->n_value = n_value;
    npy->by_columns = fortran && n_long > 1;
    return STATUS_OK;
}

/* Magic, version, and the place of the dict literal. */
static enum status frame_read(const char *name, const void *bytes, size_t n_bytes, size_t *n_head_out,
                              size_t *n_dict_out)
{
    const uint8_t *raw = bytes;
    if (n_bytes < 10 || memcmp(raw, "\x93NUMPY", 6) != 0) {
        return status_fail(STATUS_DATA, "%s: byte 0: expected the magic of a .npy array", name);
    }
    unsigned major = raw[6];
    if (major < 1 || major > 3 || raw[7] != 0) {
        return status_fail(STATUS_DATA, "%s: byte 6: format %u.%u, expected 1.0, 2.0 or 3.0", name, major, raw[7]);
    }
    size_t n_head = major == 1 ? 10 : 12;
    if (n_bytes < n_head) {
        return status_fail(STATUS_DATA, "%s: ends after %zu bytes, expected a header", name, n_bytes);
    }
    size_t n_dict = (size_t)raw[8] | (size_t)raw[9] << 8;
    if (major > 1) {
        n_dict |= (size_t)raw[10] << 16 | (size_t)raw[11] << 24;
    }
    size_t most = n_bytes - n_head < NPY_HEADER_MOST_BYTES ? n_bytes - n_head : NPY_HEADER_MOST_BYTES;
    if (n_dict > most) {
        return status_fail(STATUS_DATA, "%s: byte 8: header of %zu bytes, expected at most %zu", name, n_dict, most);
    }
    *n_head_out = n_head;
    *n_dict_out = n_dict;
    return STATUS_OK;
}

enum status npy_header_read(const void *bytes, size_t n_bytes, struct npy *npy)
{
    size_t n_head = 0, n_dict = 0;
    enum status status = frame_read(npy->name, bytes, n_bytes, &n_head, &n_dict);
    if (status != STATUS_OK) {
        return status;
    }
    const char *start = (const char *)bytes + n_head;
    struct cursor cursor = {npy, start, start, start + n_dict};
    bool fortran = false;
    status = dict_read(&cursor, npy, &fortran);
    if (status != STATUS_OK) {
        return status;
    }
    npy->data = start + n_dict;
    return size_check(npy, n_bytes - n_head - n_dict, fortran);
}

enum status npy_header_skip(const char *name, const void *bytes, size_t n_bytes, size_t *n_out)
{
    size_t n_head = 0, n_dict = 0;
    enum status status = frame_read(name, bytes, n_bytes, &n_head, &n_dict);
    if (status == STATUS_OK) {
        *n_out = n_head + n_dict;
    }
    return status;
}

size_t npy_header_write(enum npy_type type, int rank, const int64_t *shape, char *out, size_t room)
{
    size_t size = npy_type_size(type);
    size_t at = 10;
    at += (size_t)snprintf(out + at, room - at, "{'descr': '%c%c%zu', 'fortran_order': False, 'shape': (",
                           size == 1 ? '|' : '<', npy_type_letter(type), size);
    for (int i = 0; i < rank; i++) {
        at += (size_t)snprintf(out + at, room - at, "%s%" PRId64 "%s", i > 0 ? " " : "", shape[i],
                               i + 1 < rank || rank == 1 ? "," : "");
    }
    at += (size_t)snprintf(out + at, room - at, "), }");
    while ((at + 1) % 64 != 0) {
        out[at++] = ' ';
    }
    out[at++] = '\n';
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)((at - 10) & 0xff);
    out[9] = (char)((at - 10) >> 8);
    return at;
}
