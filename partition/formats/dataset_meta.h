/* meta.json beside a folder of arrays: the sizes that it may contain. All other contents are free text. Also
 * class_names.json. */
#ifndef PARTITION_DATASET_META_H
#define PARTITION_DATASET_META_H

#include "protocol/base/status.h"

#include <stdint.h>

/* Counts are 0 if neither the file nor the folder has them. */
struct dataset_meta {
    int64_t n_node, n_class;
    int64_t n_feature;  /* columns, if "features" is a number */
    int64_t n_relation; /* relations, also those without an edge, and without the inverse ones that the job adds */
    char name[128];     /* "" for none */
    char path[2048];    /* of the file, for messages */
    char *class_names;  /* a JSON list of n_class texts; NULL: not given, or more than DATASET_CLASS_NAMES_BYTES */
    void *root;
};

/* Read folder/meta.json and folder/class_names.json; NaN and Infinity, which Python writes, count as missing.
 *
 *   owns    the caller owns *out: dataset_meta_close
 *   errors  STATUS_DATA not a JSON object, or list of texts (line, column), a count out of range, other numbers of
 *           classes · STATUS_IO
 */
enum status dataset_meta_open(const char *folder, struct dataset_meta *out);
void dataset_meta_close(struct dataset_meta *meta);

/* Columns of node type `type`'s features: "features": {"<type>": {"features": n}}. 0: not given. errors
 * STATUS_DATA */
enum status dataset_meta_type_features(const struct dataset_meta *meta, int64_t type, int64_t *out);

#endif
