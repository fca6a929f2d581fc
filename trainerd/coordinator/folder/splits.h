/* Splits that were drawn, as files beside a job's results: so that others can have the same ones. */
#ifndef TRAINERD_SPLITS_H
#define TRAINERD_SPLITS_H

#include "partition/graph/dataset.h"
#include "protocol/base/status.h"
#include "protocol/files/dir.h"

#include <stdint.h>

struct splits {
    int64_t n_node;
    int64_t n_split[4]; /* nodes by enum dataset_split */
    uint8_t *split;     /* n_node; NULL: nothing was drawn */
};

/* Copy the splits of a dataset that drew them; of others, nothing.
 *
 *   owns    the caller owns *out: splits_release
 *   errors  STATUS_NOMEM
 *   cost    a byte for each node
 */
enum status splits_keep(const struct dataset *dataset, struct splits *out);
void splits_release(struct splits *splits);

/* Write drawn_train_idx.npy, drawn_valid_idx.npy and drawn_test_idx.npy, int64, ascending; none where nothing was
 * drawn. A data folder has other names, so that one that is also an output folder loses nothing.
 * errors  STATUS_CREATE, STATUS_IO */
enum status splits_save(const struct splits *splits, const struct dir *dir);

#endif
