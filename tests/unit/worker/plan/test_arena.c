#include "worker/plan/arena.h"

#include <criterion/criterion.h>

static struct life life_of(int64_t n_bytes, int first, int last)
{
    struct life life = {.n_bytes = n_bytes};
    life_begin(&life, first);
    life_touch(&life, last);
    return life;
}

Test(arena, lives_meet_where_they_share_a_time)
{
    struct life a = life_of(1, 2, 4), b = life_of(1, 5, 6), c = life_of(1, 4, 4);
    cr_expect_not(life_meets(&a, &b));
    cr_expect(life_meets(&a, &c));
    life_begin(&a, 6);
    cr_expect(life_meets(&a, &b));
    cr_expect(life_meets(&b, &a));
}

Test(arena, what_lies_between_two_spans_of_a_life_may_take_its_place)
{
    struct life again = life_of(64, 0, 1), between = life_of(64, 2, 3);
    life_begin(&again, 4);
    struct life *both[] = {&again, &between};
    cr_expect_eq(arena_place(both, 2), 64);
    life_touch(&between, 4);
    cr_expect_eq(arena_place(both, 2), 128);
    cr_expect_neq(again.at, between.at);
}

Test(arena, a_joined_life_is_alive_whenever_either_was)
{
    struct life a = life_of(1, 0, 1), b = life_of(1, 4, 5), gap = life_of(1, 2, 3);
    life_join(&a, &b);
    cr_expect_eq(a.n_span, 2);
    cr_expect(life_meets(&a, &b));
    cr_expect_not(life_meets(&a, &gap));
    life_join(&a, &gap);
    cr_expect(life_meets(&a, &gap));
    struct life touching = life_of(1, 5, 7);
    int n = a.n_span;
    life_join(&a, &touching);
    cr_expect_eq(a.n_span, n, "spans that touch are one");
}

Test(arena, a_life_of_more_spans_than_there_is_room_for_grows_over_the_gaps)
{
    struct life many = {.n_bytes = 1};
    for (int t = 0; t < 4 * LIFE_N_SPAN; t += 2) {
        life_begin(&many, t);
    }
    for (int t = 0; t < 4 * LIFE_N_SPAN; t += 2) {
        struct life one = life_of(1, t, t);
        cr_expect(life_meets(&many, &one), "dead at %d", t);
        struct life merged = life_of(1, 1000, 1000);
        life_join(&merged, &many);
        cr_expect(life_meets(&merged, &one), "dead at %d once joined", t);
    }
}

/* No moment needs more than 256 bytes, and so does no placement. */
Test(arena, places_are_searched_until_gaps_are_used)
{
    struct life life[] = {life_of(128, 0, 2), life_of(192, 3, 5), life_of(64, 2, 3),
                          life_of(128, 1, 1), life_of(64, 4, 6),  life_of(192, 6, 7)};
    struct life *all[6];
    for (int i = 0; i < 6; i++) {
        all[i] = &life[i];
    }
    cr_expect_eq(arena_place(all, 6), 256);
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < i; k++) {
            bool apart = life[i].at + life[i].n_bytes <= life[k].at || life[k].at + life[k].n_bytes <= life[i].at;
            cr_expect(apart || !life_meets(&life[i], &life[k]), "%d and %d", i, k);
        }
    }
    cr_expect_eq(arena_place(all, 0), 0);
}
