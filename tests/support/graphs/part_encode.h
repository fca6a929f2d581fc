/* One part of a partition, encoded by an encoder of its own. */
#ifndef TESTS_PART_ENCODE_H
#define TESTS_PART_ENCODE_H

#include "partition/part/part.h"

static inline enum status part_encode(const struct dataset *dataset, const struct partition *partition, int32_t part,
                                      void **bytes_out, size_t *n_out)
{
    struct part_encoder *encoder;
    enum status status = part_encoder_open(dataset, partition, &encoder);
    if (status == STATUS_OK) {
        status = part_encoder_encode(encoder, part, bytes_out, n_out);
        part_encoder_close(encoder);
    }
    return status;
}

#endif
