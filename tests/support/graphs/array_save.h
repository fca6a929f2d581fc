/* An array in a test's folder, for data sets made of .npy files. A failure ends the test. */
#ifndef TESTS_SUPPORT_ARRAY_SAVE_H
#define TESTS_SUPPORT_ARRAY_SAVE_H

#include "tests/support/graphs/npy_save.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>

static inline void array_save(const char *name, enum npy_type type, int rank, const int64_t *shape,
                              const void *values)
{
    cr_assert_eq(npy_save(folder_path(name), type, rank, shape, values), STATUS_OK, "%s", status_reason());
}

#endif
