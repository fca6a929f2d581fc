/* Decoders of jobs of links, with drawn weights. */
#ifndef TESTS_SUPPORT_DECODERS_H
#define TESTS_SUPPORT_DECODERS_H

#include "models/program/program.h"
#include "trainerd/coordinator/score/decoder.h"

#include <stdint.h>

struct test_decoder {
    struct program program;
    struct decoder decoder;
};

/* task.decoder, a name or a text, over rows of `width` columns; weight i is `weight`(i). A failure ends the test. */
void test_decoder_open(const char *decoder, int n_layer, int64_t width, int32_t n_relation,
                       float (*weight)(int64_t i), struct test_decoder *out);
void test_decoder_close(struct test_decoder *decoder);

/* The weights of its parameter number `index`. */
const float *test_decoder_weight(const struct test_decoder *decoder, int index);

#endif
