/* Splits of npy folders: one or several, as numbers of nodes or as masks; where they come from. */
#include "tests/unit/partition/fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(dataset_splits, .init = folder_make, .fini = fixture_end);

/* Splits as fixture_small has them, of the six nodes. */
static const uint8_t small[] = {1, 1, 2, 3, 3, 0};

static void expect_split(int64_t index, const uint8_t *expected, int64_t n)
{
    struct job job = fixture_job();
    job.dataset.split = index;
    struct dataset dataset = fixture_loaded(&job);
    cr_assert_arr_eq(dataset.labels.split, expected, 6);
    cr_assert_eq(dataset.labels.splits.origin, DATASET_ORIGIN_GIVEN);
    cr_assert(dataset.labels.splits.index == index && dataset.labels.splits.n == n, "%ld of %ld",
              (long)dataset.labels.splits.index, (long)dataset.labels.splits.n);
}

static void bad(int64_t index, enum status status, const char *where, const char *expected)
{
    struct job job = fixture_job();
    job.dataset.split = index;
    fixture_refused(&job, status, where, expected);
}

static void mask_write(const char *name, const char *shape, const char *bytes, size_t n)
{
    char dict[128];
    snprintf(dict, sizeof dict, "{'descr': '|b1', 'fortran_order': False, 'shape': %s}", shape);
    fixture_header(name, dict, bytes, n);
}

Test(dataset_splits, numbers_of_several_splits_have_a_row_each)
{
    static const uint8_t second[] = {2, 1, 0, 1, 3, 3};
    fixture_small();
    expect_split(0, small, 1);
    fixture_i64("train_idx.npy", 2, (int64_t[]){2, 2}, (int64_t[]){0, 1, 1, 3});
    fixture_i64("valid_idx.npy", 2, (int64_t[]){2, 2}, (int64_t[]){2, -1, 0, -1});
    fixture_i64("test_idx.npy", 2, (int64_t[]){2, 2}, (int64_t[]){3, 4, 4, 5});
    expect_split(0, small, 2);
    expect_split(1, second, 2);
    bad(2, STATUS_CONFIG, "dataset.split = 2", "has 2 splits, expected 0 to 1");
}

Test(dataset_splits, shorter_ones_of_several_are_filled_up)
{
    static const uint8_t second[] = {0, 1, 2, 3, 1, 0};
    fixture_small();
    fixture_i64("test_idx.npy", 1, (int64_t[]){1}, (int64_t[]){3});
    fixture_i64("train_idx.npy", 2, (int64_t[]){2, 3}, (int64_t[]){0, 1, 4, 1, 4, -1});
    expect_split(1, second, 2);
}

Test(dataset_splits, a_file_with_one_split_holds_for_all)
{
    static const uint8_t second[] = {1, 0, 2, 3, 1, 0};
    fixture_small();
    fixture_i64("test_idx.npy", 1, (int64_t[]){1}, (int64_t[]){3});
    fixture_i64("train_idx.npy", 2, (int64_t[]){2, 2}, (int64_t[]){1, 0, 0, 4});
    expect_split(1, second, 2);
}

/* As numpy.argwhere and torch.nonzero give them, in either order. */
Test(dataset_splits, a_column_of_numbers_is_one_split)
{
    static const char *const orders[] = {"False", "True"};
    static const struct {
        const char *name;
        int64_t n, node[2];
    } files[] = {{"train_idx.npy", 2, {0, 1}}, {"valid_idx.npy", 1, {2}}, {"test_idx.npy", 2, {3, 4}}};
    fixture_small();
    for (int order = 0; order < 2; order++) {
        for (int f = 0; f < 3; f++) {
            char dict[128];
            snprintf(dict, sizeof dict, "{'descr': '<i8', 'fortran_order': %s, 'shape': (%d, 1)}", orders[order],
                     (int)files[f].n);
            fixture_header(files[f].name, dict, files[f].node, (size_t)files[f].n * sizeof *files[f].node);
            expect_split(0, small, 1);
        }
    }
    bad(1, STATUS_CONFIG, "dataset.split = 1", "has one split, expected 0");
}

Test(dataset_splits, that_lie_the_other_way_round_or_train_on_one_node_are_refused_with_the_shape)
{
    static const char *const names[] = {"test_idx.npy", "valid_idx.npy", "train_idx.npy"};
    const int64_t nodes[] = {0, 1, 2, 3, 4, 5};
    fixture_small();
    for (int i = 0; i < 3; i++) {
        char where[64];
        snprintf(where, sizeof where, "%s: has shape [3, 2], which is 3 splits of 2 nodes at most", names[i]);
        fixture_i64(names[i], 2, (int64_t[]){3, 2}, nodes);
        bad(0, STATUS_DATA, where,
            "expected no more splits than nodes, as [splits, nodes], or [nodes] for one split");
    }
    fixture_i64("train_idx.npy", 2, (int64_t[]){2, 2}, (int64_t[]){0, 1, 1, -1});
    fixture_i64("valid_idx.npy", 1, (int64_t[]){1}, (int64_t[]){2});
    fixture_i64("test_idx.npy", 1, (int64_t[]){2}, (int64_t[]){3, 4});
    expect_split(0, small, 2);
    bad(1, STATUS_DATA, "train_idx.npy: has shape [2, 2], and split 1 of these has 1 training node:",
        "expected two at least, as [splits, nodes]");
    fixture_header("train_idx.npy", "{'descr': '|b1', 'fortran_order': False, 'shape': (2, 6)}",
                   "\1\1\0\0\0\0\1\1\0\0\0\0", 12);
    bad(0, STATUS_DATA, "train_idx.npy: holds bool", "expected node numbers");
}

Test(dataset_splits, masks_are_read_where_there_are_no_numbers)
{
    static const uint8_t second[] = {2, 1, 0, 0, 3, 3};
    fixture_small();
    fixture_remove("train_idx.npy");
    fixture_remove("valid_idx.npy");
    fixture_remove("test_idx.npy");
    mask_write("train_mask.npy", "(6,)", "\1\1\0\0\0\0", 6);
    mask_write("val_mask.npy", "(6,)", "\0\0\1\0\0\0", 6);
    mask_write("test_mask.npy", "(6,)", "\0\0\0\1\1\0", 6);
    expect_split(0, small, 1);
    bad(1, STATUS_CONFIG, "dataset.split = 1", "has one split, expected 0");
    mask_write("train_mask.npy", "(6, 2)", "\1\0\1\1\0\0\0\0\0\0\0\0", 12);
    mask_write("val_mask.npy", "(6, 2)", "\0\1\0\0\1\0\0\0\0\0\0\0", 12);
    mask_write("test_mask.npy", "(6, 2)", "\0\0\0\0\0\0\1\0\1\1\0\1", 12);
    expect_split(0, small, 2);
    expect_split(1, second, 2);
    fixture_i64("train_idx.npy", 1, (int64_t[]){1}, (int64_t[]){1});
    static const uint8_t mixed[] = {0, 1, 2, 3, 3, 0};
    expect_split(0, mixed, 2);
}

Test(dataset_splits, masks_that_do_not_fit_are_refused)
{
    fixture_small();
    fixture_remove("train_idx.npy");
    mask_write("train_mask.npy", "(5,)", "\1\1\0\0\0", 5);
    bad(0, STATUS_DATA, "train_mask.npy", "expected");
    mask_write("train_mask.npy", "(2, 6)", "\1\1\0\0\0\0\1\1\0\0\0\0", 12);
    bad(0, STATUS_DATA, "train_mask.npy: has shape [2, 6]", "transpose it");
    fixture_i64("train_mask.npy", 1, (int64_t[]){6}, (int64_t[]){0, 1, 4, 0, 0, 0});
    bad(0, STATUS_DATA, "train_mask.npy: node 2 has 4", "expected 0 or 1 in a mask");
    mask_write("train_mask.npy", "(6,)", "\1\1\1\0\0\0", 6);
    bad(0, STATUS_DATA, "valid_idx.npy: entry 0: node 2 is in the train split already",
        "expected training nodes to be in no other split");
}

Test(dataset_splits, nodes_may_be_validation_and_test_nodes_at_once_with_a_remark)
{
    static const uint8_t both[] = {1, 1, 4, 4, 2, 3};
    struct job job = fixture_job();
    fixture_small();
    fixture_i64("valid_idx.npy", 1, (int64_t[]){3}, (int64_t[]){4, 2, 3});
    fixture_remove("test_idx.npy");
    mask_write("test_mask.npy", "(6,)", "\0\0\1\1\0\1", 6);
    expect_split(0, both, 1);
    struct dataset dataset = fixture_loaded(&job);
    const int64_t n[] = {0, 2, 3, 3, 2};
    cr_assert_arr_eq(dataset.labels.n_split, n, sizeof n);
    const char *log = fixture_remarks(&job);
    cr_assert(strstr(log, "of 3 validation and 3 test nodes 2 are both: the test metric is biased") != NULL, "%s",
              log);
    fixture_i64("valid_idx.npy", 1, (int64_t[]){2}, (int64_t[]){2, 2});
    bad(0, STATUS_DATA, "valid_idx.npy: entry 1: node 2 is listed twice", "expected once");
    fixture_i64("valid_idx.npy", 1, (int64_t[]){2}, (int64_t[]){2, 1});
    bad(0, STATUS_DATA, "valid_idx.npy: entry 1: node 1 is in the train split already", "in no other split");
}

Test(dataset_splits, files_with_different_numbers_of_splits_are_refused)
{
    fixture_small();
    fixture_i64("train_idx.npy", 2, (int64_t[]){2, 2}, (int64_t[]){1, 0, 0, 1});
    fixture_i64("test_idx.npy", 2, (int64_t[]){3, 3}, (int64_t[]){3, -1, -1, 4, -1, -1, 5, -1, -1});
    bad(0, STATUS_DATA, "test_idx.npy: has 3 splits", "expected 2, as many as the file before it");
    fixture_i64("train_idx.npy", 2, (int64_t[]){0, 2}, NULL);
    bad(0, STATUS_DATA, "train_idx.npy: has no split", "expected at least one");
}
