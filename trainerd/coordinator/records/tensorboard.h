/* The process that writes TensorBoard's files beside a training: python3 -m trainerd tensorboard, which reads
 * metrics.jsonl (D93). It ends when its standard input ends, also by the death of this process. */
#ifndef TRAINERD_TENSORBOARD_H
#define TRAINERD_TENSORBOARD_H

#include "protocol/base/status.h"
#include "protocol/files/dir.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct tensorboard {
    char python[PATH_MAX];
    pid_t process; /* 0: not started, or ended */
    int input;     /* our end of its standard input */
};

/* Find a Python that can write the files. errors  STATUS_NO_INPUT what is missing, and how to install it */
enum status tensorboard_find(struct tensorboard *tensorboard);

/* Start the process in the open folder of a run, which has a metrics.jsonl, with the job's canonical text.
 *
 *   owns    the caller: tensorboard_end
 *   errors  STATUS_PEER
 */
enum status tensorboard_begin(struct tensorboard *tensorboard, const struct dir *folder, const char *job_text);

/* Let it write what is left, and end; it is killed after 20 seconds. Without a process: nothing.
 *
 *   is_whole  all epochs are done
 *   failure   "", or what became of the process, if its files are not whole
 */
void tensorboard_end(struct tensorboard *tensorboard, bool is_whole, char *failure, size_t capacity);

#endif
