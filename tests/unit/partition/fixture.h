/* Small datasets on disk for the tests of this room: arrays, tables, archives in the test's folder. */
#ifndef TESTS_UNIT_PARTITION_FIXTURE_H
#define TESTS_UNIT_PARTITION_FIXTURE_H

#include "partition/files/npy.h"
#include "partition/graph/dataset.h"
#include "tests/support/process/folder.h"

#include <stddef.h>

/* The end of each test (.fini): release what was loaded, and remove the folder. */
void fixture_end(void);

/* A job on the folder with every key at its default. */
struct job fixture_job(void);

void fixture_bytes(const char *name, const void *bytes, size_t n);
char *fixture_read(const char *name, size_t *n_out); /* free() it */
void fixture_remove(const char *name);
void fixture_i64(const char *name, int rank, const int64_t *shape, const int64_t *values);
void fixture_f32(const char *name, int rank, const int64_t *shape, const float *values);
void fixture_gz(const char *name, const char *text);

/* A .npy with this header dict and these bytes, format 1.0. */
void fixture_header(const char *name, const char *dict, const void *bytes, size_t n);

/* An archive of .npy files that lie in the folder: n pairs of file and member name. */
void fixture_zip(const char *name, const char *const (*members)[2], size_t n);

/* Six nodes in a path 0-1-2-3-4-5 (each edge both ways), three feature columns, classes 0 1 0 1 0 -1, train 0 1, valid 2,
 * test 3 4. Format npy. */
void fixture_small(void);

/* Load the job and expect it to go well. The dataset is the fixture's, until the test's end. */
struct dataset fixture_loaded(const struct job *job);

/* The same, for what the loader says of it: lines of the log, valid until the next call. */
const char *fixture_remarks(const struct job *job);

/* Load the job and expect failure: `status`, and a reason that holds both texts. */
void fixture_refused(const struct job *job, enum status status, const char *where, const char *expected);

bool has_edge(const struct dataset *d, uint32_t from, uint32_t to);

#endif
