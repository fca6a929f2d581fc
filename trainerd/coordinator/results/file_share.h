/* A file that two runs have: a copy where it grows, a second name of it where it is never changed. */
#ifndef TRAINERD_FILE_SHARE_H
#define TRAINERD_FILE_SHARE_H

#include "protocol/status.h"

/* Copy a plain file, up to its present end, to the disk, in place of what has that name. errors  STATUS_NO_INPUT, STATUS_DATA, STATUS_IO */
enum status file_copy(const char *from, const char *to);

/* Give a file that no process changes a second name, or copy it where the file system has none. errors  as above */
enum status file_share(const char *from, const char *to);

#endif
