/* Slurm's commands as texts: sbatch's arguments, script and answer; squeue's lines.
 *
 * Pure functions. Slurm's job is told from others by its comment, which says of which store, job and attempt it is.
 */
#ifndef TRAINERD_DAEMON_SLURM_TEXT_H
#define TRAINERD_DAEMON_SLURM_TEXT_H

#include "protocol/base/status.h"
#include "trainerd/base/texts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLURM_NUMBER_MOST INT64_C(0xffffffff)
#define SLURM_COMMENT_BYTES 96
#define SLURM_NAME_BYTES 32
#define SLURM_OPTIONS_MOST 64

/* --- what is told --- */

/* daemon.slurm_options in its words, which lie in `copy`.
 *
 *   shapes  copy strlen(text) + 1 bytes · words SLURM_OPTIONS_MOST
 *   errors  STATUS_CONFIG a word that is no --name or --name=value; an option that the daemon gives itself
 */
enum status slurm_options_read(const char *text, char *copy, char **words, size_t *n_out);

/* The comment of an attempt's job. store_id: of the store that has the job */
void slurm_comment(const char *store_id, int64_t job, int32_t attempt, char out[SLURM_COMMENT_BYTES]);

/* A job for sbatch. */
struct slurm_request {
    const char *sbatch;   /* the program's path */
    char *const *options; /* n_option words of daemon.slurm_options */
    size_t n_option;
    const char *comment, *name;
    const char *folder, *log; /* where it runs; what its output is appended to */
    int32_t n_task, n_cpu;    /* workers; cores of each */
    int64_t memory;           /* bytes of each task */
    bool has_gpus;            /* one for each task */
    int64_t n_minute;         /* its time limit; 0: the partition's */
    int32_t priority;         /* below 0: as Slurm's --nice. Above, Slurm's own priorities decide */
};

/* sbatch's arguments, NULL last. The job is held, and Slurm never requeues it. owns  the caller: texts_free */
char **slurm_arguments(const struct slurm_request *request);

/* The script: runs the program with these arguments and `input` on standard input. The caller frees it. */
char *slurm_script(const char *program, char *const *argv, const char *input);

/* --- what is printed --- */

/* sbatch --parsable's answer. errors  STATUS_DATA no number of a job */
enum status slurm_number_read(const char *text, int64_t *out);

#define SLURM_LOOK_FORMAT "%A|%T|%r|%k" /* of squeue */

enum slurm_state {
    SLURM_STATE_WAITS,
    SLURM_STATE_HELD, /* by its owner, or not released yet */
    SLURM_STATE_RUNS, /* or is about to begin, or to end */
    SLURM_STATE_ENDED
};

/* A job as squeue shows it. */
struct slurm_look {
    int64_t number, job;
    int32_t attempt;
    enum slurm_state state;
    char name[SLURM_NAME_BYTES];    /* of its state, as Slurm calls it */
    char why[2 * SLURM_NAME_BYTES]; /* why it waits */
};

/* Call `each` for every line that is a job of this store. Comments may have line breaks: other lines are skipped.
 *
 *   errors  STATUS_DATA a line with this store's comment that is not a job otherwise
 */
enum status slurm_looks_read(const char *text, size_t n, const char *store_id,
                             void (*each)(void *context, const struct slurm_look *look), void *context);

#endif
