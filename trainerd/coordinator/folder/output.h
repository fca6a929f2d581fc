/* The folder that a run writes to (run_folder.h), open: used by one run at a time, without incomplete files.
 *
 * Files other than metrics.jsonl are written under a temporary name and renamed once they are on the disk. Knows
 * names of files, not their contents.
 */
#ifndef TRAINERD_OUTPUT_H
#define TRAINERD_OUTPUT_H

#include "protocol/base/status.h"
#include "protocol/files/dir.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct output {
    struct dir dir; /* open and locked */
    int metrics;    /* metrics.jsonl, open for appending; -1 when closed */
    int64_t n_metrics_bytes;
};

/* The path under which users find a job's results: output.dir, or runs/<name>. errors  STATUS_CONFIG too long */
enum status output_dir(const char *dir, const char *name, char out[PATH_MAX]);

/* Could this folder be made or used? Makes nothing. errors  STATUS_CREATE */
enum status output_check(const char *dir);

/* Lock a folder for one run. Nothing with a result's name in it is a link. errors  STATUS_CREATE also: it has one */
enum status output_lock(const struct dir *dir);

/* Open a run's folder beneath an open one, whatever the path to that leads to meanwhile, or by its path (`folder`
 * NULL), and lock it.
 *
 *   owns    the caller owns *out: output_close
 *   errors  STATUS_CREATE not a folder, a link, not writable, or in use by another job
 */
enum status output_open(const struct dir *folder, const char *name, struct output *out);

/* Unlock. `keep` false: also remove an empty metrics.jsonl. */
void output_close(struct output *output, bool keep);

/* Before the first epoch: remove result.json of an earlier attempt and, unless this one resumes it, its other result
 * files; checkpoint/ is then renamed to checkpoint.old/, or removed when it is empty. Of an older checkpoint.old/
 * checkpoints are removed, and it stays where it holds something else. errors  STATUS_CREATE, STATUS_IO */
enum status output_clear(struct output *output, bool resume);

/* The path of a file in the folder: "<dir>/<name>". errors  STATUS_CREATE too long */
enum status output_path(const struct output *output, const char *name, char out[PATH_MAX]);

/* Make metrics.jsonl, of the first n_bytes of an older one (0 for a new job), in its place.
 *
 *   errors  STATUS_DATA it is shorter than that; STATUS_CREATE, STATUS_IO
 */
enum status output_metrics_open(struct output *output, int64_t n_bytes);

/* Shorten the open metrics.jsonl to n_bytes, of those it has. errors  STATUS_IO */
enum status output_metrics_cut(struct output *output, int64_t n_bytes);

/* Append one line, newline included; a line that does not fit on the disk is truncated away. errors  STATUS_IO */
enum status output_metrics_append(struct output *output, const char *line, size_t n_bytes);

/* The lines so far are on the disk when this returns. errors  STATUS_IO */
enum status output_metrics_sync(struct output *output);

#endif
