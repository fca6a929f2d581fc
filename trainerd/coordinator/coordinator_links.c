/* What a prediction of links leaves beside its rows: scores of the pairs and partners of the nodes that it was asked
 * about. */
#include "partition/files/npy_header.h"
#include "protocol/base/memory.h"
#include "trainerd/coordinator/coordinator_state.h"
#include "trainerd/coordinator/score/partners.h"

static enum status array_write(struct coordinator *c, const char *name, enum npy_type type, int rank,
                               const int64_t *shape, void *values, size_t n_bytes)
{
    char header[256];
    size_t n_header = npy_header_write(type, rank, shape, header, sizeof header);
    struct iovec piece[] = {{header, n_header}, {values, n_bytes}};
    return dir_replace(&c->output.dir, name, piece, 2);
}

static enum status scores_write(struct coordinator *c, const struct decoder *decoder, const float *rows)
{
    const struct links_pairs *pairs = &c->asked.pairs;
    size_t n = (size_t)pairs->n;
    float *score;
    enum status status = memory_acquire(MEMORY_OTHER, n, sizeof *score, &score);
    if (status != STATUS_OK) {
        return status;
    }
    links_score(decoder, rows, pairs, score);
    status = array_write(c, "scores.npy", NPY_TYPE_F32, 1, &pairs->n, score, n * sizeof *score);
    memory_release(MEMORY_OTHER, score, n, sizeof *score);
    return status;
}

static enum status partners_write(struct coordinator *c, const struct decoder *decoder, const float *rows)
{
    const int64_t k = c->job.predict.best, shape[2] = {c->asked.n, k};
    size_t n = (size_t)shape[0] * (size_t)shape[1];
    int64_t *node = NULL;
    float *score = NULL;
    enum status status = memory_acquire(MEMORY_OTHER, n, sizeof *node, &node);
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, n, sizeof *score, &score);
    }
    if (status == STATUS_OK) {
        partners_find(decoder, rows, c->sizes.n_node, &c->asked, k, node, score);
        status = array_write(c, "partners.npy", NPY_TYPE_I64, 2, shape, node, n * sizeof *node);
    }
    if (status == STATUS_OK) {
        status = array_write(c, "partner_scores.npy", NPY_TYPE_F32, 2, shape, score, n * sizeof *score);
    }
    memory_release(MEMORY_OTHER, score, n, sizeof *score);
    memory_release(MEMORY_OTHER, node, n, sizeof *node);
    return status;
}

enum status coordinator_write_asked(struct coordinator *c, float *rows)
{
    struct decoder decoder;
    if (c->asked.pairs.end == NULL && c->asked.node == NULL) {
        return STATUS_OK;
    }
    enum status status = training_decoder_open(&c->training, &decoder);
    if (status == STATUS_OK && c->asked.pairs.end != NULL) {
        status = scores_write(c, &decoder, rows);
    }
    if (status == STATUS_OK && c->asked.node != NULL) {
        status = partners_write(c, &decoder, rows);
    }
    decoder_close(&decoder);
    return status;
}
