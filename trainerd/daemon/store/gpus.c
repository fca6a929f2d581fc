#include "trainerd/daemon/store/gpus.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/base/program.h"
#include "protocol/files/capture.h"

#include <ctype.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A driver that begins takes long on a machine with many GPUs. */
#define WAIT_S 60.0
#define PRINTED_BYTES (1 << 16)

#define SEEN "CUDA_VISIBLE_DEVICES"

/* --- the daemon's own CUDA_VISIBLE_DEVICES --- */

/* Its entry i, without spaces; false: it has fewer. */
static bool entry_of(const char *visible, int32_t i, char out[80])
{
    for (; visible != NULL && *visible != '\0'; i--) {
        size_t n = strcspn(visible, ",");
        if (i == 0) {
            while (n > 0 && isspace((unsigned char)*visible)) {
                visible++;
                n--;
            }
            while (n > 0 && isspace((unsigned char)visible[n - 1])) {
                n--;
            }
            snprintf(out, 80, "%.*s", (int)(n < 79 ? n : 79), visible);
            return n > 0;
        }
        visible += n + (visible[n] == ',');
    }
    return false;
}

/* A number below GPUS_MOST; -1: the text is not such a number. */
static int32_t number_of(const char *text)
{
    char *end;
    long number = strtol(text, &end, 10);
    return isdigit((unsigned char)text[0]) && *end == '\0' && number < GPUS_MOST ? (int32_t)number : -1;
}

/* --- what a worker says --- */

static enum status wrong(const char *what, int i)
{
    return status_fail(STATUS_DATA, "trainer-worker --gpus: GPU %d of its list has no %s, expected one", i, what);
}

/* Its UUID, else its entry or number; a slice of a GPU has the name of the daemon's variable. */
static void name_visible(struct gpu *gpu, int32_t ordinal, const char *visible)
{
    char entry[80];
    bool has_entry = entry_of(visible, ordinal, entry);
    if (gpu->uuid[0] != '\0' && !(has_entry && strncmp(entry, "MIG-", 4) == 0)) {
        snprintf(gpu->visible, sizeof gpu->visible, "%s", gpu->uuid);
    } else if (has_entry) {
        snprintf(gpu->visible, sizeof gpu->visible, "%s", entry);
    } else {
        snprintf(gpu->visible, sizeof gpu->visible, "%d", (int)ordinal);
    }
}

/* Letters, digits, '-' and '_': nothing that would end its entry in the variable. */
static bool is_uuid(const char *text)
{
    return strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == strlen(text) &&
           strlen(text) < 48;
}

static enum status gpu_read(const json_t *one, int i, const char *visible, struct gpu *out)
{
    const json_t *number = json_object_get(one, "gpu"), *ordinal = json_object_get(one, "ordinal");
    const json_t *memory = json_object_get(one, "memory");
    const char *uuid = json_string_value(json_object_get(one, "uuid")),
               *name = json_string_value(json_object_get(one, "name"));
    if (!json_is_integer(number) || json_integer_value(number) < 0 || json_integer_value(number) >= GPUS_MOST) {
        return wrong("gpu, a number from 0 to 63", i);
    }
    if (!json_is_integer(ordinal) || json_integer_value(ordinal) < 0 || json_integer_value(ordinal) >= GPUS_MOST) {
        return wrong("ordinal, a number from 0 to 63", i);
    }
    if (uuid != NULL && !is_uuid(uuid)) {
        return wrong("uuid of letters, digits and hyphens", i);
    }
    *out = (struct gpu){.number = (int32_t)json_integer_value(number),
                        .n_bytes = json_is_integer(memory) ? json_integer_value(memory) : -1};
    snprintf(out->uuid, sizeof out->uuid, "%s", uuid != NULL ? uuid : "");
    snprintf(out->name, sizeof out->name, "%.63s", name != NULL ? name : "");
    name_visible(out, (int32_t)json_integer_value(ordinal), visible);
    return STATUS_OK;
}

static int compare_numbers(const void *left, const void *right)
{
    return ((const struct gpu *)left)->number - ((const struct gpu *)right)->number;
}

/* Slices of one GPU have its number: where numbers repeat, all are counted off. */
static void number_apart(struct gpus *gpus)
{
    if (gpus_n(gpus_all(gpus)) < gpus->n) {
        for (int32_t i = 0; i < gpus->n; i++) {
            gpus->gpu[i].number = i;
        }
    }
    qsort(gpus->gpu, (size_t)gpus->n, sizeof *gpus->gpu, compare_numbers);
}

enum status gpus_read(const char *text, const char *visible, struct gpus *out)
{
    json_t *all = json_loads(text, 0, NULL);
    const json_t *list = json_object_get(all, "gpus");
    const char *error = json_string_value(json_object_get(all, "error"));
    size_t n = json_array_size(list);
    enum status status = STATUS_OK;
    out->n = 0;
    if (error != NULL) {
        status = status_fail(STATUS_PEER, "%.400s", error);
    } else if (!json_is_array(list) || n == 0 || n > GPUS_MOST) {
        status = status_fail(STATUS_DATA,
                             "trainer-worker --gpus does not end, or does not print 1 to %d GPUs as JSON", GPUS_MOST);
    }
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        status = gpu_read(json_array_get(list, i), (int)i, visible, &out->gpu[i]);
        out->n += status == STATUS_OK;
    }
    json_decref(all);
    if (status == STATUS_OK) {
        number_apart(out);
    }
    return status;
}

void gpus_count_off(int32_t n, const char *visible, struct gpus *out)
{
    *out = (struct gpus){0};
    bool are_numbers = visible != NULL;
    for (int32_t i = 0; i < n && i < GPUS_MOST; i++) {
        struct gpu *gpu = &out->gpu[i];
        *gpu = (struct gpu){.number = i, .n_bytes = -1};
        snprintf(gpu->visible, sizeof gpu->visible, "%d", (int)i);
        if (visible != NULL && !entry_of(visible, i, gpu->visible)) {
            break;
        }
        are_numbers = are_numbers && number_of(gpu->visible) >= 0;
        out->n++;
    }
    for (int32_t i = 0; i < out->n && are_numbers; i++) {
        out->gpu[i].number = number_of(out->gpu[i].visible);
    }
    number_apart(out);
}

void gpus_find(int64_t n_wanted, struct gpus *out)
{
    char worker[PATH_MAX];
    const char *visible = getenv(SEEN);
    *out = (struct gpus){0};
    if (n_wanted == 0) {
        return;
    }
    if (visible == NULL) {
        setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0); /* numbers are nvidia-smi's, here and in jobs */
    }
    enum status status = program_beside("trainer-worker", worker);
    if (status == STATUS_OK) {
        char *printed = memory_alloc(PRINTED_BYTES, 1);
        capture((const char *const[]){worker, "--gpus", "--json", NULL}, WAIT_S, printed, PRINTED_BYTES);
        status = gpus_read(printed, visible, out);
        free(printed);
    }
    if (status != STATUS_OK && n_wanted < 0) {
        log_warn("daemon.gpus is \"auto\": %s", status_reason());
        out->n = 0;
    } else if (status != STATUS_OK) {
        log_warn("daemon.gpus is %d: %s; jobs are given GPUs by number", (int)n_wanted, status_reason());
        gpus_count_off((int32_t)n_wanted, visible, out);
    } else if (out->n < n_wanted) {
        log_warn("daemon.gpus is %d: workers see %d GPUs, which jobs share", (int)n_wanted, (int)out->n);
    } else if (n_wanted > 0) {
        out->n = (int32_t)n_wanted;
    }
}

/* --- sets --- */

uint64_t gpus_all(const struct gpus *gpus)
{
    uint64_t set = 0;
    for (int32_t i = 0; i < gpus->n; i++) {
        set |= UINT64_C(1) << gpus->gpu[i].number;
    }
    return set;
}

int32_t gpus_n(uint64_t set)
{
    return (int32_t)__builtin_popcountll(set);
}

uint64_t gpus_least(uint64_t set, int32_t n)
{
    uint64_t rest = set;
    for (; n > 0; n--) {
        rest &= rest - 1; /* without its lowest bit */
    }
    return set & ~rest;
}

void gpus_text(uint64_t set, char out[GPUS_TEXT_BYTES])
{
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < GPUS_MOST; i++) {
        if ((set >> i & 1u) != 0) {
            at += (size_t)snprintf(out + at, GPUS_TEXT_BYTES - at, "%s%d", at > 0 ? ", " : "", i);
        }
    }
}

void gpus_visible(const struct gpus *gpus, uint64_t set, char out[GPUS_VISIBLE_BYTES])
{
    size_t at = 0;
    out[0] = '\0';
    for (int32_t i = 0; i < gpus->n; i++) {
        if ((set >> gpus->gpu[i].number & 1u) != 0) {
            at += (size_t)snprintf(out + at, GPUS_VISIBLE_BYTES - at, "%s%s", at > 0 ? "," : "",
                                   gpus->gpu[i].visible);
        }
    }
}
