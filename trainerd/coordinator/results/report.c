#include "trainerd/coordinator/results/report.h"

#include "protocol/job/job_keys.h"

#include <math.h>
#include <string.h>

json_t *report_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *key_value(const struct job *job, const struct job_key *key)
{
    const void *at = (const char *)job + key->offset;
    switch (key->type) {
    case JOB_TYPE_TEXT:
        return json_string(at);
    case JOB_TYPE_INT:
    case JOB_TYPE_SIZE:
        return json_integer(*(const int64_t *)at);
    case JOB_TYPE_REAL:
    case JOB_TYPE_REAL_OR_SAME:
        return job_is_same(key, *(const double *)at) ? json_string(JOB_SAME_TEXT) : json_real(*(const double *)at);
    case JOB_TYPE_BOOL:
        return json_boolean(*(const bool *)at);
    case JOB_TYPE_CHOICE:
        return json_string(key->choice[*(const int *)at].text);
    case JOB_TYPE_LATER:
        break;
    }
    return NULL;
}

json_t *report_job(const struct job *job)
{
    json_t *all = json_object();
    for (int i = 0; i < JOB_KEY_N; i++) {
        const struct job_key *key = &job_keys[i];
        json_t *value = key_value(job, key);
        if (value == NULL) {
            continue;
        }
        if (strcmp(key->section, JOB_TOP_SECTION) == 0) {
            json_object_set_new(all, key->name, value);
            continue;
        }
        if (json_object_get(all, key->section) == NULL) {
            json_object_set_new(all, key->section, json_object());
        }
        json_object_set_new(json_object_get(all, key->section), key->name, value);
    }
    return all;
}

json_t *report_dataset(const struct dataset *dataset)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:i, s:b, s:b, s:b, s:I, s:I, s:I, s:I}", "name", dataset->name, "nodes",
                     (json_int_t)dataset->n_node, "edges", (json_int_t)dataset->n_edge, "features",
                     (json_int_t)dataset->n_feature, "classes", (int)dataset->n_class, "multi_label", (int)dataset->multi_label,
                     "symmetric", (int)dataset->symmetric, "edge_weights", (int)dataset->weighted, "duplicate_edges",
                     (json_int_t)dataset->n_duplicate, "train_nodes", (json_int_t)dataset->n_split[DATASET_SPLIT_TRAIN],
                     "valid_nodes", (json_int_t)dataset->n_split[DATASET_SPLIT_VALID], "test_nodes",
                     (json_int_t)dataset->n_split[DATASET_SPLIT_TEST]);
}

json_t *report_partition(const struct job *job, const struct partition_quality *quality)
{
    json_t *all = json_pack("{s:i, s:s, s:I, s:I}", "parts", (int)job_n_part(job), "method",
                            job_choice_text("partition", "method", job->partition.method), "cut_edges",
                            (json_int_t)quality->n_cut, "halo_rows", (json_int_t)quality->n_halo);
    json_object_set_new(all, "halo_ratio", report_number(quality->halo_ratio));
    json_object_set_new(all, "imbalance_nodes", report_number(quality->imbalance_node));
    json_object_set_new(all, "imbalance_edges", report_number(quality->imbalance_edge));
    json_object_set_new(all, "imbalance_halo", report_number(quality->imbalance_halo));
    return all;
}

json_t *report_memory(const int64_t bytes[MEMORY_N])
{
    json_t *all = json_object();
    int64_t sum = 0;
    for (int i = 0; i < MEMORY_N; i++) {
        if (i != MEMORY_CONTEXT || bytes[i] > 0) {
            json_object_set_new(all, memory_category_name((enum memory_category)i), json_integer(bytes[i]));
        }
        sum += bytes[i];
    }
    json_object_set_new(all, "all", json_integer(sum));
    return all;
}
