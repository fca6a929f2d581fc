#include "protocol/wire/embedded.h"

#include <criterion/criterion.h>

static const struct embedded_run runs[] = {{0, 2}, {5, 6}, {9, 12}};

Test(embedded, columns_between_runs_are_numbered_without_them_and_back)
{
    const struct embedded embedded = {3, runs};
    const int64_t shared[] = {2, 3, 4, 6, 7, 8, 12, 13};
    cr_assert_eq(embedded_count(&embedded), 6);
    for (int64_t i = 0; i < 8; i++) {
        cr_assert_eq(embedded_shared(&embedded, shared[i]), i);
        cr_assert_eq(embedded_column(&embedded, i), shared[i]);
        cr_assert_not(embedded_has(&embedded, shared[i]));
    }
    const int64_t own[] = {0, 1, 5, 9, 10, 11};
    for (int i = 0; i < 6; i++) {
        cr_assert(embedded_has(&embedded, own[i]));
    }
}

Test(embedded, without_runs_all_columns_are_shared)
{
    const struct embedded none = {.n_run = 0};
    cr_assert_eq(embedded_count(&none), 0);
    cr_assert(embedded_shared(&none, 7) == 7 && embedded_column(&none, 7) == 7 && !embedded_has(&none, 7));
}
