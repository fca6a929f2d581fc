/* Weights of rows in the loss by their class (train.class_weights): balanced, or from a file.
 *
 * Uses labels and training nodes. The loss (models/device/device.h) applies the weights.
 */
#ifndef PARTITION_CLASS_WEIGHTS_H
#define PARTITION_CLASS_WEIGHTS_H

#include "partition/graph/dataset.h"

/* Set labels.class_weights and .loss_weight of an otherwise loaded dataset, as in the job; nothing for a prediction.
 *
 *   balanced  one label: n / (C · n_c) of n training nodes, n_c of them of class c, C classes with training nodes; 1
 *             for others. Several labels: of label c's positives, negatives / positives among the training nodes that
 *             have it; 1 where there are no positives
 *   errors    STATUS_NO_INPUT no such file · STATUS_DATA its shape or dtype, a weight that is not finite or negative
 *             (file and class), weights of 0 for all training nodes · STATUS_NOMEM
 *   cost      one read of each training node's labels
 *   source    sklearn.utils.class_weight.compute_class_weight; torch.nn.BCEWithLogitsLoss, pos_weight
 */
enum status class_weights_build(const struct job *job, struct dataset *dataset);

#endif
