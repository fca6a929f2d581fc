/* The format of fuzz_head's input, and its seeds. Knows nothing of the receivers of the messages. */
#ifndef TESTS_FUZZ_HEAD_INPUT_H
#define TESTS_FUZZ_HEAD_INPUT_H

#include "protocol/base/log.h"
#include "protocol/wire/message.h"
#include "worker/exchange/exchange.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { N_RANK = 3, N_DATA = 100 };

/* The first byte of an input: the stage of the worker. Records follow. */
enum stage { STAGE_NEW, STAGE_PLACED, STAGE_ANNOUNCED, STAGE_READY, STAGE_N };

/* A message in the input. */
struct record {
    uint8_t how;    /* bits of enum how */
    uint8_t n_head; /* with HOW_SHORT */
    uint8_t n_bytes[8];
    struct transport_head head;
} __attribute__((packed));

enum how {
    HOW_FLEET = 1,    /* to the fleet, else to the session */
    HOW_REPAIRED = 2, /* magic and attempt are made valid, since few inputs would pass their checks */
    HOW_SHORT = 4,    /* a head of another length */
    HOW_LATER = 8,    /* the body arrives after others */
    HOW_ARRIVE = 16,  /* the oldest outstanding body arrives */
    HOW_HANDLE = 32,  /* the receiver handles the command */
    HOW_WAIT = 64,    /* the worker waits for a payload meanwhile */
    HOW_SMALL = 128,  /* n_bytes below 256 */
};

static inline void head_seed_write(const char *corpus, enum stage stage, uint8_t how, uint64_t n_bytes,
                                   struct transport_head head)
{
    struct record record = {.how = (uint8_t)(how | HOW_REPAIRED | HOW_HANDLE), .head = head};
    memcpy(record.n_bytes, &n_bytes, sizeof n_bytes);
    char path[4096];
    snprintf(path, sizeof path, "%s/seed-%d-%d-%d-%d", corpus, (int)stage, how, head.kind, head.id);
    FILE *file = fopen(path, "wb");
    ASSERT(file != NULL);
    fputc(stage, file);
    for (int i = 0; i < 3; i++) {
        fwrite(&record, 1, sizeof record, file);
    }
    fclose(file);
}

/* A valid message of each kind, three times. */
static inline void head_seeds_write(const char *corpus)
{
    const struct transport_head payload = {.sender = 1,
                                           .kind = TRANSPORT_KIND_PAYLOAD,
                                           .id = 2,
                                           .epoch = 1,
                                           .total = 80,
                                           .phase = EXCHANGE_PHASE_FORWARD};
    struct transport_head fetch = payload;
    fetch.kind = TRANSPORT_KIND_FETCH;
    const struct transport_head part = {
        .sender = N_RANK, .kind = TRANSPORT_KIND_DATA, .id = MESSAGE_ID_part, .total = 50};
    const struct transport_head put = {
        .sender = N_RANK, .kind = TRANSPORT_KIND_DATA, .id = MESSAGE_ID_put, .total = 100};
    const struct transport_head order = {.sender = N_RANK, .kind = TRANSPORT_KIND_COMMAND, .id = MESSAGE_ID_part};
    const struct transport_head data = {.sender = 1, .kind = TRANSPORT_KIND_DATA, .total = N_DATA};
    const struct transport_head report = {.sender = 0, .kind = TRANSPORT_KIND_REPORT, .id = MESSAGE_ID_report};
    for (int how = 0; how <= HOW_LATER; how += HOW_LATER) {
        head_seed_write(corpus, STAGE_PLACED, (uint8_t)how, 40, payload);
        head_seed_write(corpus, STAGE_PLACED, HOW_WAIT | (uint8_t)how, 40, payload);
        head_seed_write(corpus, STAGE_PLACED, (uint8_t)how, 0, fetch);
        head_seed_write(corpus, STAGE_ANNOUNCED, (uint8_t)how, 25, part);
        head_seed_write(corpus, STAGE_READY, (uint8_t)how, 50, put);
        head_seed_write(corpus, STAGE_PLACED, (uint8_t)how, 12, order);
        head_seed_write(corpus, STAGE_NEW, HOW_FLEET | (uint8_t)how, 50, data);
        head_seed_write(corpus, STAGE_NEW, HOW_FLEET | (uint8_t)how, 30, report);
    }
}

#endif
