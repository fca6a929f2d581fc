/* The names of all operations of struct device_ops, once: prototypes and tables of every device come from here. */
#ifndef MODELS_DEVICE_LIST_H
#define MODELS_DEVICE_LIST_H

#include "models/device/device.h"

#include <math.h>

/* clang-format off */
#define DEVICE_OP_LIST(X) \
    X(open) X(close) X(acquire) X(release) X(borrow) X(giveback) \
    X(copy) X(move) X(fill_zero) X(mark) X(follow) X(passed) X(wait) X(poll) X(chunks_run) \
    X(block_open) X(block_close) X(csr_open) X(csr_close) X(bytes) \
    X(linear) X(linear_backward_weight) X(column_sum) X(dot) X(chunks_add) \
    X(csr_forward) X(csr_backward) X(csr_dropout) X(csr_dense) \
    X(activate_forward) X(activate_backward) X(bias_add) X(axpby) X(columns_copy) X(max_forward) X(max_backward) \
    X(inverse_norm) X(inverse_norm_backward) X(rows_multiply) X(rows_dot) \
    X(layer_norm_forward) X(layer_norm_backward) \
    X(batch_norm_statistics) X(batch_norm_begin) X(batch_norm_forward) X(batch_norm_sums) X(batch_norm_backward) \
    X(aggregate_sum) X(aggregate_max) X(aggregate_max_backward) \
    X(attention_forward) X(attention_finish) \
    X(attention_backward_begin) X(attention_backward_query) X(attention_backward_source) \
    X(head_dot) X(head_dot_backward_input) X(head_mean) \
    X(tile_rows) X(tile_edges) \
    X(relation_sum) X(relation_dot) X(swap_axes) \
    X(rows_gather) X(rows_add) X(rows_collect) X(rows_round) X(rows_encode) X(rows_decode) \
    X(block_sample) X(block_transpose) \
    X(loss) X(link_loss) X(pair_scores) X(pair_gradients) \
    X(pair_losses) X(labels_append) X(draw_count) X(doubles_merge) X(floats_compare) \
    X(squares_add) X(clip_factor) X(step)
/* clang-format on */

/* The current key of a draw. */
static inline struct random_key device_key(const struct random_key *key, const struct device_now *now)
{
    struct random_key out = *key;
    out.epoch = now != NULL ? now->epoch : key->epoch;
    return out;
}

/* d mean loss / d loss: the factor of gradients of single rows. */
static inline float device_loss_scale(const struct device_scoring *how)
{
    return (float)(1.0 / (how->now->n_loss_row > 0.0 ? how->now->n_loss_row : 1.0));
}

/* Known labels of a row. */
static inline int64_t device_labels_known(const struct device_labels *how, int64_t r)
{
    int64_t n = how->labels != NULL;
    for (int64_t k = 0; how->labels == NULL && k < how->c; k++) {
        n += !isnan(how->label_rows[r * how->c + k]);
    }
    return n;
}

/* Declares <device>_<op> with the type of the table's field. */
#define DEVICE_OP_PROTOTYPE(device_name, op) __typeof__(*((struct device_ops *)0)->op) device_name##_##op

#endif
