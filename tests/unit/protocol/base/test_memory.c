#include "protocol/base/memory.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HUGE ((size_t)2 << 20)

Test(memory, blocks_of_every_size_are_zeroed_and_aligned)
{
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, HUGE - 1, HUGE, HUGE + 1, 3 * HUGE + 7};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *block = NULL;
        cr_assert_eq(memory_acquire(MEMORY_OTHER, sizes[i], 1, &block), STATUS_OK, "%s", status_reason());
        cr_assert_not_null(block);
        cr_assert_eq((uintptr_t)block % (sizes[i] >= HUGE ? HUGE : 64), 0, "%zu", sizes[i]);
        for (size_t b = 0; b < sizes[i]; b++) {
            cr_assert(block[b] == 0);
        }
        memset(block, 0xff, sizes[i]);
        memory_release(MEMORY_OTHER, block, sizes[i], 1);
    }
    cr_assert_eq(memory_now(MEMORY_OTHER), 0);
}

Test(memory, bytes_alive_and_their_peak_are_counted_by_category_and_in_all)
{
    void *a = NULL, *b = NULL, *c = NULL;
    cr_assert_eq(memory_acquire(MEMORY_FEATURES, 1000, 4, &a), STATUS_OK);
    cr_assert_eq(memory_acquire(MEMORY_PAYLOADS, HUGE, 2, &b), STATUS_OK);
    cr_assert_eq(memory_now(MEMORY_FEATURES), 4000);
    cr_assert_eq(memory_now(MEMORY_N), 4000 + 2 * (int64_t)HUGE);
    memory_release(MEMORY_PAYLOADS, b, HUGE, 2);
    cr_assert_eq(memory_acquire(MEMORY_FEATURES, 500, 4, &c), STATUS_OK);
    cr_assert_eq(memory_now(MEMORY_N), 6000);
    cr_assert_eq(memory_peak(MEMORY_PLACE_HOST, MEMORY_FEATURES), 6000);
    cr_assert_eq(memory_peak(MEMORY_PLACE_HOST, MEMORY_PAYLOADS), 2 * (int64_t)HUGE);
    cr_assert_eq(memory_peak(MEMORY_PLACE_HOST, MEMORY_N), 4000 + 2 * (int64_t)HUGE);
    memory_release(MEMORY_FEATURES, a, 1000, 4);
    memory_release(MEMORY_FEATURES, c, 500, 4);
    memory_release(MEMORY_FEATURES, NULL, 500, 4);
    cr_assert_eq(memory_now(MEMORY_N), 0);
}

Test(memory, a_size_that_overflows_or_that_no_machine_has_is_refused_with_the_number)
{
    void *block = &block;
    /* The product is 4 when its high bits are lost. */
    cr_assert_eq(memory_acquire(MEMORY_ACTIVATIONS, SIZE_MAX / 4 + 2, 4, &block), STATUS_NOMEM);
    cr_assert_not_null(strstr(status_reason(), "x 4 bytes for activations"), "%s", status_reason());
    cr_assert_eq(memory_acquire(MEMORY_STRUCTURE, (size_t)1 << 46, 2, &block), STATUS_NOMEM);
    cr_assert_not_null(strstr(status_reason(), "70368744177664 x 2 bytes for structure"), "%s", status_reason());
    cr_assert_eq(block, &block);
    cr_assert_eq(memory_now(MEMORY_N), 0);
}

Test(memory, a_shrunk_block_keeps_its_beginning)
{
    static const size_t cases[][2] = {{100, 10}, {5 * HUGE, 10}, {5 * HUGE, 3 * HUGE}, {100, 100}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char *block = NULL;
        size_t n = cases[i][0], n_new = cases[i][1];
        cr_assert_eq(memory_acquire(MEMORY_OTHER, n, 1, &block), STATUS_OK);
        memset(block, 7, n);
        cr_assert_eq(memory_shrink(MEMORY_OTHER, &block, n, n_new, 1), STATUS_OK, "%s", status_reason());
        cr_assert_eq(memory_now(MEMORY_OTHER), (int64_t)n_new);
        for (size_t b = 0; b < n_new; b++) {
            cr_assert(block[b] == 7);
        }
        memory_release(MEMORY_OTHER, block, n_new, 1);
    }
}

Test(memory, every_allocation_is_counted_as_a_call)
{
    void *block = NULL;
    int64_t before = memory_n_call();
    cr_assert_eq(memory_acquire(MEMORY_OTHER, 8, 1, &block), STATUS_OK);
    free(memory_alloc(0, 0));
    cr_assert_eq(memory_n_call(), before + 2);
    memory_release(MEMORY_OTHER, block, 8, 1);
    cr_assert_eq(memory_n_call(), before + 2);
}

Test(memory, the_resident_set_grows_with_what_is_touched)
{
    char *block = NULL;
    size_t n = 64 * HUGE;
    int64_t before = memory_resident();
    cr_assert_gt(before, 0);
    cr_assert_eq(memory_acquire(MEMORY_OTHER, n, 1, &block), STATUS_OK);
    memset(block, 1, n);
    cr_assert_geq(memory_resident() - before, (int64_t)n / 2);
    cr_assert_geq(memory_resident_peak(), memory_resident() - (int64_t)HUGE);
    memory_release(MEMORY_OTHER, block, n, 1);
    cr_assert_leq(memory_resident() - before, (int64_t)n / 2);
    cr_assert_geq(memory_resident_peak() - before, (int64_t)n / 2);
}

Test(memory, a_small_size_that_cannot_be_had_ends_the_process_as_out_of_memory)
{
    pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO);
        /* Through a volatile, so that the compiler does not see the impossible size. */
        volatile size_t huge = SIZE_MAX / 2;
        free(memory_alloc(huge, 1));
        _exit(0);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status));
#if !defined(__SANITIZE_ADDRESS__)
    cr_assert_eq(WEXITSTATUS(status), 71);
#endif
}

Test(memory, categories_have_names)
{
    cr_assert_str_eq(memory_category_name(MEMORY_STRUCTURE), "structure");
    cr_assert_str_eq(memory_category_name(MEMORY_OTHER), "other");
    cr_assert_str_eq(memory_category_name(MEMORY_N), "all");
}
