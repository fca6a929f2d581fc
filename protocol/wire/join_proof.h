/* Proof of a job's token, in both directions, over a control socket that other processes may read and send to:
 * neither the token nor anything that can be replayed travels.
 *
 *   coordinator → worker  challenge: its nonce
 *   worker → coordinator  hello: its nonce, and all that the coordinator is to know, with a proof
 *   coordinator → worker  welcome, and a peer for each other worker, with proofs
 *
 * A proof is the last field of its frame: HMAC-SHA-512-256, keyed by the token, of the frame's id, both nonces and
 * the body before the proof. So no address of a process without the token reaches UCX, which such bytes can abort.
 * What follows on that socket is not proven.
 */
#ifndef PROTOCOL_JOIN_PROOF_H
#define PROTOCOL_JOIN_PROOF_H

#include "protocol/wire/message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JOIN_NONCE_BYTES 32
#define JOIN_PROOF_BYTES 32

struct join_nonces {
    uint8_t coordinator[JOIN_NONCE_BYTES], worker[JOIN_NONCE_BYTES];
};

void join_nonce(uint8_t out[JOIN_NONCE_BYTES]); /* random */

/* The other side's nonce. errors  STATUS_PEER another number of bytes */
enum status join_nonce_take(struct message_span from, uint8_t out[JOIN_NONCE_BYTES]);

/* A proof yet to be made, for the last field of a message. */
struct message_span join_proof_blank(void);

/* Write the proof into a whole frame of the control socket, over the blank one. */
void join_prove(const char *token, const struct join_nonces *nonces, void *frame, size_t n_bytes);

/* Does a frame end with its proof? Compares in constant time. */
bool join_is_proven(const char *token, const struct join_nonces *nonces, unsigned id, const void *body,
                    size_t n_bytes);

#endif
