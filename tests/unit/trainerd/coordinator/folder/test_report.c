/* Facts of a job in words, as the console and the plan print them. */
#include "trainerd/coordinator/folder/report.h"

#include <criterion/criterion.h>

Test(report, a_split_of_several_is_named_by_its_number_and_theirs)
{
    struct dataset dataset = {
        .labels = {.splits = {.origin = DATASET_ORIGIN_GIVEN, .index = 3, .n = 18}, .n_split = {4, 1, 2, 3}}};
    cr_expect_str_eq(report_splits(&dataset).text,
                     "split 3 of 18 given with the data, counted from 0: 1 train, 2 valid, 3 test, 4 in no split");
    dataset.labels.splits.n = 1;
    cr_expect_str_eq(report_splits(&dataset).text,
                     "split given with the data: 1 train, 2 valid, 3 test, 4 in no split");
}
