#include "protocol/wire/control_seal.h"

void control_seal_start(struct control_seal *seal, const struct seal_secret *secret, uint32_t rank, bool is_worker)
{
    struct seal_key *to_worker = seal_key_make(secret, SEAL_TO_WORKER, rank);
    struct seal_key *to_coordinator = seal_key_make(secret, SEAL_TO_COORDINATOR, rank);
    control_seal_release(seal);
    *seal = (struct control_seal){.out = is_worker ? to_coordinator : to_worker,
                                  .in = is_worker ? to_worker : to_coordinator};
}

void control_seal_release(struct control_seal *seal)
{
    seal_key_free(seal->out);
    seal_key_free(seal->in);
    *seal = (struct control_seal){0};
}

size_t control_seal_frame(struct control_seal *seal, void *frame, size_t n_bytes)
{
    if (seal->out == NULL) {
        return n_bytes;
    }
    uint8_t *body = (uint8_t *)frame + CONTROL_HEAD_BYTES;
    size_t n_body = n_bytes - CONTROL_HEAD_BYTES;
    control_head(frame, control_id(frame), n_body + SEAL_TAG_BYTES);
    const struct seal_message message = {.sequence = seal->n_out++, .beside = frame, .n_beside = CONTROL_HEAD_BYTES};
    seal_close(seal->out, &message, body, n_body, body, body + n_body);
    return n_bytes + SEAL_TAG_BYTES;
}

enum status control_seal_take(struct control_seal *seal, struct control_frame *frame)
{
    if (seal->in == NULL) {
        return STATUS_OK;
    }
    uint8_t head[CONTROL_HEAD_BYTES], *body = (uint8_t *)(uintptr_t)frame->body;
    control_head(head, frame->id, frame->n_bytes);
    const struct seal_message message = {.sequence = seal->n_in, .beside = head, .n_beside = sizeof head};
    if (frame->n_bytes < SEAL_TAG_BYTES || !seal_open(seal->in, &message, body, frame->n_bytes - SEAL_TAG_BYTES,
                                                      body + frame->n_bytes - SEAL_TAG_BYTES, body)) {
        return status_fail(STATUS_PEER, "a frame '%s' of %u bytes is not sealed by this job's key as number %llu",
                           message_name(frame->id), frame->n_bytes, (unsigned long long)seal->n_in);
    }
    seal->n_in++;
    frame->n_bytes -= SEAL_TAG_BYTES;
    return STATUS_OK;
}
