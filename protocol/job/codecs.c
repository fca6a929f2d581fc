#include "protocol/job/codecs.h"

#include "protocol/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_ROW(list, name, text) text,
static const char *const texts[JOB_CODEC_N] = {JOB_CODEC_LIST(TEXT_ROW, CODEC)};

#define EPOCH_MOST 100000000 /* train.epochs' */

const char *job_codec_text(enum job_codec codec)
{
    return texts[codec];
}

/* A text that is read: one codec, or several with commas between them. */
struct reading {
    const char *text;
    bool backward, alone;
};

static enum status unknown(const struct reading *reading, const char *entry, size_t n)
{
    char expect[128];
    size_t at = 0;
    for (int c = 0; c < JOB_CODEC_N; c++) {
        at += (size_t)snprintf(expect + at, sizeof expect - at, "%s%s", c > 0 ? ", " : "", texts[c]);
    }
    const char *same = reading->backward ? ", or \"same\" alone" : "";
    if (reading->alone) { /* blanks around it, too: "same" is not read with them */
        return status_fail(STATUS_CONFIG, "is \"%.80s\"; expected one of %s, or several as \"int4, int8@50\"%s",
                           reading->text, expect, same);
    }
    if (n == 0) {
        return status_fail(STATUS_CONFIG, "has an empty entry; expected one of %s before and behind each comma",
                           expect);
    }
    return status_fail(STATUS_CONFIG, "has \"%.*s\"; expected one of %s%s", n < 80 ? (int)n : 80, entry, expect,
                       same);
}

/* The epoch behind the @; false: no whole number in range. */
static bool epoch_read(const char *text, size_t n, int64_t *out)
{
    if (n == 0 || n > 9 || strspn(text, "0123456789") < n) {
        return false;
    }
    *out = strtoll(text, NULL, 10);
    return *out <= EPOCH_MOST;
}

/* One "int8" or "int8@50" of n bytes. */
static enum status entry_read(const struct reading *reading, const char *text, size_t n, struct job_codecs *out)
{
    const char *at = memchr(text, '@', n);
    size_t n_name = at != NULL ? (size_t)(at - text) : n, c = 0;
    int n_shown = n < 80 ? (int)n : 80;
    while (c < JOB_CODEC_N && (strlen(texts[c]) != n_name || memcmp(texts[c], text, n_name) != 0)) {
        c++;
    }
    if (c == JOB_CODEC_N) {
        return unknown(reading, text, n);
    }
    if (out->n == JOB_CODECS_MOST) {
        return status_fail(STATUS_CONFIG, "has more than %d codecs; expected at most that many", JOB_CODECS_MOST);
    }
    struct job_codecs_entry *entry = &out->at[out->n];
    *entry = (struct job_codecs_entry){.codec = (enum job_codec)c};
    if (out->n == 0 && at != NULL) {
        return status_fail(STATUS_CONFIG,
                           "%s \"%.*s\" first; expected the codec of epoch 0, without @, as \"fp32, int8@50\"",
                           reading->alone ? "is" : "has", n_shown, text);
    }
    if (out->n > 0 && (at == NULL || !epoch_read(at + 1, n - n_name - 1, &entry->epoch))) {
        return status_fail(STATUS_CONFIG,
                           "has \"%.*s\" behind another; expected its first epoch, as in %s@50 (at most %d)", n_shown,
                           text, texts[c], EPOCH_MOST);
    }
    if (out->n > 0 && entry->epoch <= out->at[out->n - 1].epoch) {
        return status_fail(STATUS_CONFIG, "has \"%.*s\" behind epoch %" PRId64 "; expected epochs that ascend",
                           n_shown, text, out->at[out->n - 1].epoch);
    }
    out->n++;
    return STATUS_OK;
}

enum status job_codecs_read(const char *text, bool backward, struct job_codecs *out)
{
    const struct reading reading = {text, backward, strchr(text, ',') == NULL};
    *out = (struct job_codecs){0};
    enum status status = STATUS_OK;
    for (const char *end; status == STATUS_OK; text = end + 1) {
        text += strspn(text, " \t");
        end = text + strcspn(text, ",");
        size_t n = (size_t)(end - text);
        while (n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\t')) {
            n--;
        }
        status = entry_read(&reading, text, n, out);
        if (*end == '\0') {
            break;
        }
    }
    return status;
}

struct job_codecs job_codecs(const struct job *job, bool backward)
{
    bool same = strcmp(job->exchange.codec_backward, "same") == 0;
    struct job_codecs out;
    bool own = backward && !same;
    enum status status = job_codecs_read(own ? job->exchange.codec_backward : job->exchange.codec, own, &out);
    ASSERT(status == STATUS_OK);
    return out;
}

enum job_codec job_codecs_at(const struct job_codecs *codecs, int64_t epoch)
{
    int k = codecs->n - 1;
    while (k > 0 && epoch < codecs->at[k].epoch) {
        k--;
    }
    return codecs->at[k].codec;
}
