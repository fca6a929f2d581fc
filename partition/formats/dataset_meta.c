/* See dataset_meta.h. */
#include "partition/formats/dataset_meta.h"

#include "partition/graph/dataset.h"
#include "protocol/base/log.h"
#include "protocol/base/printable.h"
#include "protocol/files/file.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MOST ((int64_t)1 << 28)

/* Words that Python's json writes and JSON readers refuse become empty strings of the same length. */
static void words_blank(char *text)
{
    static const char *const words[] = {"NaN", "-Infinity", "Infinity"};
    bool in_string = false;
    for (char *c = text; *c != '\0'; c++) {
        if (in_string && *c == '\\' && c[1] != '\0') {
            c++;
        } else if (*c == '"') {
            in_string = !in_string;
        }
        for (int w = 0; w < 3 && !in_string; w++) {
            size_t n = strlen(words[w]);
            if (strncmp(c, words[w], n) == 0) {
                memset(c, ' ', n);
                memcpy(c, "\"\"", 2);
                c += n - 1;
                break;
            }
        }
    }
}

/* A member that is a count; values of other types are free text. */
static enum status count(const struct dataset_meta *meta, const json_t *object, const char *key, int64_t most,
                         int64_t *out)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value)) {
        return STATUS_OK;
    }
    *out = json_integer_value(value);
    if (*out < 0 || *out > most) {
        return status_fail(STATUS_DATA, "%s: \"%s\" is %" PRId64 ", expected 0 to %" PRId64, meta->path, key, *out,
                           most);
    }
    return STATUS_OK;
}

static enum status counts_read(struct dataset_meta *meta)
{
    const struct {
        const char *key;
        int64_t most;
        int64_t *out;
    } counts[] = {{"nodes", (int64_t)UINT32_MAX - 1, &meta->n_node},
                  {"features", INT32_MAX, &meta->n_feature},
                  {"classes", INT32_MAX, &meta->n_class},
                  {"relations", 65536, &meta->n_relation}};
    enum status status = STATUS_OK;
    for (int i = 0; i < 4 && status == STATUS_OK; i++) {
        status = count(meta, meta->root, counts[i].key, counts[i].most, counts[i].out);
    }
    return status;
}

/* A JSON file; *out NULL: it does not exist. */
static enum status json_open(const char *path, const char *expected, json_t **out)
{
    char *text = NULL;
    size_t n = 0;
    *out = NULL;
    enum status status = file_load(path, BYTES_MOST, &text, &n);
    if (status != STATUS_OK) {
        return status == STATUS_NO_INPUT ? STATUS_OK : status;
    }
    json_error_t error;
    if (strlen(text) == n) {
        words_blank(text);
    }
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
    free(text);
    return *out != NULL ? STATUS_OK
                        : status_fail(STATUS_DATA, "%s:%d:%d: %s, expected %s", path, error.line, error.column,
                                      error.text, expected);
}

/* Names of the classes: as many as in meta.json, if it has their number. */
static enum status class_names_read(const char *folder, struct dataset_meta *meta)
{
    static const char expected[] = "a JSON list of texts, a name for each class";
    char path[sizeof meta->path];
    json_t *names, *name;
    size_t i;
    snprintf(path, sizeof path, "%s/class_names.json", folder);
    enum status status = json_open(path, expected, &names);
    if (status != STATUS_OK || names == NULL) {
        return status;
    }
    bool fits = json_array_size(names) > 0;
    json_array_foreach(names, i, name)
    {
        fits = fits && json_is_string(name);
    }
    int64_t n = (int64_t)json_array_size(names);
    if (!fits) {
        status = status_fail(STATUS_DATA, "%s: expected %s", path, expected);
    } else if (meta->n_class > 0 && meta->n_class != n) {
        status = status_fail(STATUS_DATA,
                             "%s: has %" PRId64 " names, expected %" PRId64 ", the \"classes\" of meta.json", path, n,
                             meta->n_class);
    } else {
        meta->n_class = n;
        meta->class_names = json_dumps(names, JSON_COMPACT);
        ASSERT(meta->class_names != NULL);
        if (strlen(meta->class_names) >= DATASET_CLASS_NAMES_BYTES) {
            free(meta->class_names);
            meta->class_names = NULL;
        }
    }
    json_decref(names);
    return status;
}

enum status dataset_meta_open(const char *folder, struct dataset_meta *out)
{
    struct dataset_meta meta = {0};
    json_t *root;
    snprintf(meta.path, sizeof meta.path, "%s/meta.json", folder);
    enum status status = json_open(meta.path, "a JSON object", &root);
    if (status == STATUS_OK && root != NULL && !json_is_object(root)) {
        status = status_fail(STATUS_DATA, "%s: is not an object, expected a JSON object", meta.path);
    }
    meta.root = root;
    const char *name = json_string_value(json_object_get(root, "name"));
    if (name != NULL) {
        printable_copy(name, meta.name, sizeof meta.name);
    }
    if (status == STATUS_OK) {
        status = counts_read(&meta);
    }
    if (status == STATUS_OK) {
        status = class_names_read(folder, &meta);
    }
    if (status != STATUS_OK) {
        dataset_meta_close(&meta);
        return status;
    }
    *out = meta;
    return STATUS_OK;
}

void dataset_meta_close(struct dataset_meta *meta)
{
    json_decref(meta->root);
    free(meta->class_names);
    *meta = (struct dataset_meta){0};
}

enum status dataset_meta_type_features(const struct dataset_meta *meta, int64_t type, int64_t *out)
{
    char key[24];
    snprintf(key, sizeof key, "%" PRId64, type);
    *out = 0;
    return count(meta, json_object_get(json_object_get(meta->root, "features"), key), "features", INT32_MAX, out);
}
