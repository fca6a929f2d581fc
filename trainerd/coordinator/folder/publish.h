/* A complete run's files become the results in its home (output.dir), in place of an older run's.
 *
 * A journal, HOME/.publish, says which run's files they are, and is on the disk before the first one is moved: a
 * process that dies in between leaves it to the next start of any job on that folder, which completes it. Meanwhile
 * there is no result.json. Files that are no results (result_files.h) stay, and a run's folder with one stays, too.
 * The caller has HOME open and locked.
 */
#ifndef TRAINERD_PUBLISH_H
#define TRAINERD_PUBLISH_H

#include "protocol/base/status.h"
#include "trainerd/coordinator/folder/result_files.h"

#include <limits.h>
#include <stddef.h>

/* Write the journal: the files of HOME/<run>, all on the disk, become the results.
 * errors  STATUS_CREATE, STATUS_IO: there is no journal, the older results are whole */
enum status publish_begin(const struct dir *home, const char *run);

/* Do what the journal says, and remove it with the run's folder; without one, nothing.
 * errors  STATUS_DATA it is damaged; STATUS_CREATE it is another user's; STATUS_IO: the next call goes on from
 *         there */
enum status publish_finish(const struct dir *home);

/* What a journal says: the name of the run's folder in its home, and its files, result.json the last. */
struct publish_journal {
    char run[NAME_MAX + 1];
    struct result_files files;
};

/* Check the n bytes of a journal, which are changed; `home` is for messages.
 *
 *   owns    the caller owns *out, after failures too: result_files_release of its files
 *   errors  STATUS_DATA with the line and what was expected
 */
enum status publish_decode(char *text, size_t n, const char *home, struct publish_journal *out);

#endif
