#include "protocol/transport/neighbour.h"

#include <criterion/criterion.h>
#include <string.h>

Test(neighbour, a_process_and_itself_wake_each_other)
{
    struct neighbour self;
    neighbour_self(true, &self);
    cr_assert_eq(strncmp(self.memory, "ipc:[", 5), 0, "%s", self.memory);
    cr_assert_eq(strncmp(self.network, "net:[", 5), 0, "%s", self.network);
    cr_assert(!neighbour_sleeps(&self, &self));
}

Test(neighbour, two_sleep_where_they_share_memory_and_no_network)
{
    struct neighbour one = {"ipc:[1]", "net:[1]"}, other = {"ipc:[1]", "net:[2]"};
    cr_assert(neighbour_sleeps(&one, &other) && neighbour_sleeps(&other, &one));
    strcpy(other.memory, "ipc:[2]");
    cr_assert(!neighbour_sleeps(&one, &other), "they share no memory");
    neighbour_self(false, &other);
    cr_assert(!neighbour_sleeps(&one, &other) && !neighbour_sleeps(&other, &one), "one may not share any");
    struct neighbour none = other;
    strcpy(none.network, "net:[2]");
    cr_assert(!neighbour_sleeps(&none, &other), "neither may");
}
