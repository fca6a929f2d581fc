/* Writes TensorBoard's event files: records of length, checksum, protocol-buffer bytes, checksum. Knows no metrics.
 *
 * A file is FOLDER/events.out.tfevents.<seconds since 1970>.<host>.<pid>.<n>; a resumed job begins another file in
 * the same folder.
 * source  tensorflow/core/util/events_writer.cc, tensorflow/core/lib/io/record_writer.cc, event.proto, summary.proto
 */
#ifndef TRAINERD_TENSORBOARD_H
#define TRAINERD_TENSORBOARD_H

#include "protocol/base/status.h"
#include "protocol/files/dir.h"

#include <stdint.h>

#define TENSORBOARD_MOST 40 /* scalars of one record */

struct tensorboard;

struct tensorboard_scalar {
    const char *tag;
    double value; /* left out where not finite */
};

/* Make a file in the open folder.
 *
 *   owns    the caller owns *out: tensorboard_close
 *   errors  STATUS_CREATE, STATUS_IO
 */
enum status tensorboard_open(const struct dir *folder, struct tensorboard **out);
/* NULL is allowed. */
void tensorboard_close(struct tensorboard *tensorboard);

/* One record: scalars (n_scalar, at most TENSORBOARD_MOST) of a step. NULL: nothing. errors  STATUS_IO */
enum status tensorboard_write(struct tensorboard *tensorboard, int64_t step, double time_s,
                              const struct tensorboard_scalar *scalars, int n_scalar);

/* A setting of the run, for TensorBoard's table of hyperparameters. */
struct tensorboard_hparam {
    const char *name;
    enum { TENSORBOARD_NUMBER, TENSORBOARD_TEXT, TENSORBOARD_BOOL } kind;
    double number; /* of a bool: 0 or 1 */
    const char *text;
};

/* The run begins with these settings / has ended. Readers take a folder's first. NULL: nothing. errors  STATUS_IO */
enum status tensorboard_begin(struct tensorboard *tensorboard, double time_s,
                              const struct tensorboard_hparam *hparams, int n_hparam);
enum status tensorboard_end(struct tensorboard *tensorboard, double time_s);

/* Steps from this one on are written again: readers discard those that they have. NULL: nothing. errors  STATUS_IO */
enum status tensorboard_restart(struct tensorboard *tensorboard, int64_t step);

#endif
