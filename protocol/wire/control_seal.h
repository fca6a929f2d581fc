/* Sealed frames of a control socket, once its worker has joined: a body is followed by its tag, and the head, whose
 * length counts both, is authenticated with it. Frames of each direction are numbered, so one that is changed, left
 * out or sent again is found.
 */
#ifndef PROTOCOL_CONTROL_SEAL_H
#define PROTOCOL_CONTROL_SEAL_H

#include "protocol/transport/seal.h"
#include "protocol/wire/control.h"

/* One end. Zeroed: frames are plain. */
struct control_seal {
    struct seal_key *out, *in;
    uint64_t n_out, n_in;
};

/* From the next frame on, both ways: those of this rank's worker.
 *
 *   owns  release with control_seal_release
 */
void control_seal_start(struct control_seal *seal, const struct seal_secret *secret, uint32_t rank, bool is_worker);
void control_seal_release(struct control_seal *seal);

/* Seal a frame of n bytes, with space for SEAL_TAG_BYTES behind it. Returns its bytes then: n where frames are
 * plain. */
size_t control_seal_frame(struct control_seal *seal, void *frame, size_t n_bytes);

/* Open a frame of the decoder's in its place, where frames are sealed. errors  STATUS_PEER it is not the other end's
 * next one */
enum status control_seal_take(struct control_seal *seal, struct control_frame *frame);

#endif
