/* exchange.codec and exchange.codec_backward over epochs: "int4, int8@50, fp32@150" is int4, from epoch 50 on int8,
 * from 150 on fp32.
 *
 * An epoch's codecs depend only on the job and the epoch's number, so a resumed job has the codecs of an undisturbed
 * one.
 */
#ifndef PROTOCOL_CODECS_H
#define PROTOCOL_CODECS_H

#include "protocol/job/job.h"

#include <stdbool.h>
#include <stdint.h>

/* From the most to the least precise one. */
#define JOB_CODEC_ENUM_ROW(list, name, text) JOB_CODEC_##name,
enum job_codec { JOB_CODEC_LIST(JOB_CODEC_ENUM_ROW, CODEC) JOB_CODEC_N };

#define JOB_CODECS_MOST 32

/* One codec after another, from epoch 0 on. */
struct job_codecs {
    int n;
    struct job_codecs_entry {
        int64_t epoch; /* the first; ascending */
        enum job_codec codec;
    } at[JOB_CODECS_MOST];
};

/* Read the text of either key; that of exchange.codec_backward is not "same".
 *
 *   errors  STATUS_CONFIG the mistake and the expected value; the text follows the key's name
 */
enum status job_codecs_read(const char *text, bool backward, struct job_codecs *out);

/* Of rows, or of gradients, of a checked job. */
struct job_codecs job_codecs(const struct job *job, bool backward);
enum job_codec job_codecs_at(const struct job_codecs *codecs, int64_t epoch);

/* "int4" */
const char *job_codec_text(enum job_codec codec);

#endif
