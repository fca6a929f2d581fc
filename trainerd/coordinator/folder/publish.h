/* A complete run's files become the results in its home (output.dir), in place of an older run's.
 *
 * A journal, HOME/.publish, names the run's folder, and is on the disk before anything changes: a process that dies
 * in between leaves it to the next start of any job on that folder, which completes it. Meanwhile there is no
 * result.json. The files get second names in the home, older ones without a successor are removed, and at last the
 * run's folder is: until then it has all that a step needs. Files that are no results (result_files.h) stay, and a
 * run's folder with one stays, too. The caller has HOME open and locked.
 */
#ifndef TRAINERD_PUBLISH_H
#define TRAINERD_PUBLISH_H

#include "protocol/base/status.h"
#include "protocol/files/dir.h"

/* Write the journal: the files of HOME/<run>, all on the disk, become the results.
 * errors  STATUS_CREATE, STATUS_IO: there is no journal, the older results are whole */
enum status publish_begin(const struct dir *home, const char *run);

/* Do what the journal says, and remove it with the run's folder; without one, nothing.
 * errors  STATUS_DATA it is damaged; STATUS_CREATE it is another user's; STATUS_IO: the next call goes on from
 *         there */
enum status publish_finish(const struct dir *home);

#endif
