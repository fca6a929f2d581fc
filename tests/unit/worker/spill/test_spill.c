#include "worker/spill/spill.h"

#include "protocol/base/memory.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHUNK SPILL_CHUNK

static struct spill *spill;

static void begin(void)
{
    folder_make();
    cr_assert_eq(spill_open(folder, &spill), STATUS_OK, "%s", status_reason());
}

static void end(void)
{
    spill_close(spill);
    folder_remove();
}

TestSuite(spill, .init = begin, .fini = end);

static unsigned char *take(int64_t n_bytes)
{
    unsigned char *at;
    cr_assert_eq(spill_take(spill, n_bytes, &at), STATUS_OK, "%s", status_reason());
    return at;
}

static void use(struct spill *in, const struct spill_range *range, int n)
{
    cr_assert_eq(spill_pin(in, range, n), STATUS_OK, "%s", status_reason());
}

static unsigned random_below(unsigned n)
{
    static unsigned state = 1;
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % n;
}

/* Ranges that overlap in any way, on borders of no chunk, read, changed and overwritten, some brought in ahead. */
Test(spill, what_was_written_is_what_is_read_however_often_it_had_to_go)
{
    enum { N_BYTES = 20 * 65536 + 777 };
    unsigned char *at[2] = {take(N_BYTES), take(N_BYTES)}, *mirror[2];
    for (int k = 0; k < 2; k++) {
        mirror[k] = calloc(N_BYTES, 1);
    }
    spill_limit(spill, 9 * CHUNK);
    for (int step = 0; step < 500; step++) {
        struct spill_range range[2];
        for (int i = 0; i < 2; i++) {
            int64_t first = random_below(N_BYTES), n = 1 + random_below(3 * CHUNK);
            range[i] = (struct spill_range){.at = at[i] + first,
                                            .n_bytes = n < N_BYTES - first ? n : N_BYTES - first,
                                            .access = (enum spill_access)random_below(3)};
        }
        if (random_below(2) == 0) {
            spill_prefetch(spill, range, 2);
        }
        use(spill, range, 2);
        for (int i = 0; i < 2; i++) {
            unsigned char *bytes = at[i] + ((const unsigned char *)range[i].at - at[i]);
            unsigned char *same = mirror[i] + (bytes - at[i]);
            if (range[i].access != SPILL_WRITE) {
                cr_assert_arr_eq(bytes, same, (size_t)range[i].n_bytes, "step %d", step);
            }
            if (range[i].access != SPILL_READ) {
                memset(bytes, step, (size_t)range[i].n_bytes);
                memset(same, step, (size_t)range[i].n_bytes);
            }
        }
        spill_unpin(spill, range, 2);
    }
    cr_expect_leq(memory_peak(MEMORY_PLACE_HOST, MEMORY_SPILL), 9 * CHUNK);
    spill_close(spill);
    spill = NULL;
    cr_expect_eq(memory_now(MEMORY_SPILL), 0);
    free(mirror[0]);
    free(mirror[1]);
}

Test(spill, an_array_that_is_read_and_overwritten_in_one_step_is_read_first)
{
    unsigned char *at = take(4 * CHUNK);
    spill_limit(spill, 0);
    struct spill_range range[] = {{at, 4 * CHUNK, SPILL_WRITE}, {at, 4 * CHUNK, SPILL_READ}};
    use(spill, range, 1);
    memset(at, 5, 4 * CHUNK);
    spill_unpin(spill, range, 1);
    spill_prefetch(spill, (struct spill_range[]){{take(CHUNK), CHUNK, SPILL_READ}}, 1);
    use(spill, range, 2);
    cr_expect_eq(at[0] + at[4 * CHUNK - 1], 10);
    spill_unpin(spill, range, 2);
}

Test(spill, what_is_forgotten_is_not_written_and_its_neighbours_keep_their_bytes)
{
    unsigned char *at = take(3 * CHUNK), *other = take(3 * CHUNK);
    spill_limit(spill, 0);
    const struct spill_range all = {at, 3 * CHUNK, SPILL_UPDATE};
    use(spill, &all, 1);
    memset(at, 1, 3 * CHUNK);
    spill_unpin(spill, &all, 1);
    const struct spill_range push = {other, 3 * CHUNK, SPILL_READ};
    use(spill, &push, 1);
    spill_unpin(spill, &push, 1);
    /* The middle chunk lies in it whole; half of the others does not. */
    const struct spill_range middle = {at + CHUNK / 2, 2 * CHUNK, SPILL_UPDATE};
    use(spill, &middle, 1);
    memset(at + CHUNK / 2, 2, 2 * CHUNK);
    spill_unpin(spill, &middle, 1);
    spill_discard(spill, middle.at, middle.n_bytes);
    use(spill, &push, 1);
    spill_unpin(spill, &push, 1);
    use(spill, &all, 1);
    cr_expect_eq(at[0], 1);
    cr_expect_eq(at[CHUNK / 2], 2);
    cr_expect_eq(at[CHUNK], 1, "what was forgotten was written all the same");
    cr_expect_eq(at[3 * CHUNK - 1], 1);
    spill_unpin(spill, &all, 1);
}

Test(spill, ranges_of_no_spill_and_no_spill_at_all_are_passed_over)
{
    char mine[10];
    const struct spill_range range[] = {{mine, sizeof mine, SPILL_UPDATE}, {NULL, 7, SPILL_READ}};
    use(spill, range, 2);
    spill_unpin(spill, range, 2);
    spill_prefetch(spill, range, 2);
    use(NULL, range, 2);
    spill_unpin(NULL, range, 2);
    spill_prefetch(NULL, range, 2);
    spill_discard(NULL, mine, sizeof mine);
}

/* Touch bytes in a child: did it live? */
static bool can_touch(const volatile unsigned char *at)
{
    pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO);
        _exit(*at == 3 ? 0 : 1);
    }
    int how = 0;
    cr_assert_eq(waitpid(child, &how, 0), child);
    return WIFEXITED(how) && WEXITSTATUS(how) == 0;
}

Test(spill, what_is_not_in_memory_cannot_be_touched_by_mistake)
{
    unsigned char *at = take(CHUNK), *other = take(CHUNK);
    spill_limit(spill, 0);
    const struct spill_range range = {at, CHUNK, SPILL_UPDATE}, push = {other, CHUNK, SPILL_READ};
    cr_expect_not(can_touch(at));
    use(spill, &range, 1);
    at[0] = 3;
    cr_expect(can_touch(at));
    spill_unpin(spill, &range, 1);
    use(spill, &push, 1);
    cr_expect_not(can_touch(at));
}

Test(spill, what_is_left_goes_before_what_was_used_earlier)
{
    unsigned char *at[] = {take(CHUNK), take(CHUNK), take(CHUNK)};
    spill_limit(spill, 2 * CHUNK);
    for (int k = 0; k < 3; k++) {
        const struct spill_range range = {at[k], CHUNK, SPILL_UPDATE};
        use(spill, &range, 1);
        memset(at[k], 3, CHUNK);
        spill_unpin(spill, &range, 1);
        if (k == 1) {
            spill_leave(spill, &range, 1);
        }
    }
    cr_expect(can_touch(at[0]));
    cr_expect_not(can_touch(at[1]));
    const struct spill_range left = {at[1], CHUNK, SPILL_READ};
    use(spill, &left, 1);
    cr_expect_eq(at[1][CHUNK - 1], 3);
    spill_unpin(spill, &left, 1);
    cr_expect_eq(spill_touched(spill, (struct spill_range[]){{at[0] + 1, 2, SPILL_READ}, {&left, 9, SPILL_READ}}, 2),
                 CHUNK);
}

Test(spill, the_folder_holds_no_file_while_it_is_used)
{
    take(CHUNK);
    cr_expect_eq(rmdir(folder), 0, "%s", strerror(errno));
    cr_assert_eq(mkdir(folder, 0700), 0);
}
