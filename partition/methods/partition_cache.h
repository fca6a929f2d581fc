/* Partitions saved by content: the same graph is partitioned once for the same options.
 *
 * A file's name is the hash of all that a partition depends on. The cache never fails a job: a file that cannot be
 * read or written, or that does not fit, is reported once as a warning and not used. Independent of methods.
 */
#ifndef PARTITION_PARTITION_CACHE_H
#define PARTITION_PARTITION_CACHE_H

#include "partition/part/partition.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/uio.h>

/* Raised by every change of methods, order or file that gives another partition for the same key. */
#define PARTITION_CACHE_VERSION 5

/* "auto" does not cache smaller graphs: partitioning them takes less than a second. */
#define PARTITION_CACHE_EDGES_LEAST 200000

struct partition_cache {
    char folder[PATH_MAX]; /* "": no cache */
    char path[PATH_MAX];
    char key[33];
};

/* The path of this partition: job->partition.cache is "off", a folder, or "auto" for $XDG_CACHE_HOME/trainerd or else
 * ~/.cache/trainerd.
 *
 *   owner  n_node if the parts come with the job (method = file), and then part of the key; else NULL
 *   cost   reads the edges once, to hash them
 */
void partition_cache_find(const struct dataset *dataset, const struct job *job, int32_t n_part, const int32_t *owner,
                          struct partition_cache *out);

/* Fill owner, part_begin and order of an acquired partition. false: no file, or no valid one; owner is then unchanged
 * and part_begin zero. */
bool partition_cache_load(const struct partition_cache *cache, struct partition *partition);

void partition_cache_save(const struct partition_cache *cache, const struct partition *partition);

/* --- any file of the cache --- */

/* The folder of partition.cache; false: no folder, or the graph is too small to be cached. */
bool partition_cache_folder(const struct dataset *dataset, const struct job *job, char out[PATH_MAX]);

/* Set the key, and the path in cache->folder, of a file, from these n bytes of text; folder becomes "" if the path is
 * too long. */
void partition_cache_name(const char *text, size_t n, const char *suffix, struct partition_cache *cache);

/* Open it to read; -1: it does not exist, or cannot be opened, with a warning that names `what` ("partition"). */
int partition_cache_open(const struct partition_cache *cache, const char *what);

/* Write it, unless another job writes to that folder at this moment; a warning names `what` if it is not saved. */
void partition_cache_write(const struct partition_cache *cache, const struct iovec *piece, int n_piece,
                           const char *what);

#endif
