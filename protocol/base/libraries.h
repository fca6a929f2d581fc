/* Vendor libraries that change the bits of a job on GPUs, and their versions as one number each. Workers report their
 * versions; checkpoints and result.json hold those of all workers. */
#ifndef PROTOCOL_LIBRARIES_H
#define PROTOCOL_LIBRARIES_H

#include <stdint.h>
#include <stdio.h>

enum library {
    LIBRARY_BLAS,   /* cuBLAS: wide products */
    LIBRARY_SPARSE, /* cuSPARSE: sums over neighbours, with model.kernel = "cusparse" */
    LIBRARY_N
};

#define LIBRARY_UNKNOWN 0u /* changes no bits: another device, or not used by the job; or not recorded */
#define LIBRARY_NONE 1u    /* not available: the device uses its own kernels */
#define LIBRARY_MOST 1000000u
#define LIBRARY_TEXT_BYTES 48

/* Versions of one worker. */
struct library_versions {
    uint32_t of[LIBRARY_N];
};

/* Of all workers, the least and the greatest version of each. */
struct library_range {
    uint32_t least, most;
};

struct library_ranges {
    struct library_range of[LIBRARY_N];
};

/* The library's name in messages, and in result.json. */
static inline const char *library_name(enum library library)
{
    return library == LIBRARY_BLAS ? "cuBLAS" : "cuSPARSE";
}

static inline const char *library_key(enum library library)
{
    return library == LIBRARY_BLAS ? "cublas" : "cusparse";
}

struct library_text {
    char of[LIBRARY_TEXT_BYTES];
};

/* "13.0.2" of 130002; "none", "unknown". */
static inline struct library_text library_version_text(uint32_t version)
{
    struct library_text out = {"unknown"}, none = {"none"};
    if (version > LIBRARY_NONE) {
        snprintf(out.of, 16, "%u.%u.%u", version / 10000u % 100u, version / 100u % 100u, version % 100u);
    }
    return version == LIBRARY_NONE ? none : out;
}

/* "13.0.2", or where workers differ "none to 13.0.2". */
static inline struct library_text library_range_text(struct library_range range)
{
    struct library_text out = library_version_text(range.least);
    if (range.least != range.most) {
        snprintf(out.of, sizeof out.of, "%.16s to %.16s", library_version_text(range.least).of,
                 library_version_text(range.most).of);
    }
    return out;
}

static inline struct library_ranges library_ranges_make(const struct library_versions *worker, uint32_t n_worker)
{
    struct library_ranges out;
    for (int l = 0; l < LIBRARY_N; l++) {
        struct library_range *range = &out.of[l];
        range->least = range->most = n_worker > 0 ? worker[0].of[l] : LIBRARY_UNKNOWN;
        for (uint32_t w = 1; w < n_worker; w++) {
            uint32_t version = worker[w].of[l];
            range->least = version < range->least ? version : range->least;
            range->most = version > range->most ? version : range->most;
        }
    }
    return out;
}

#endif
