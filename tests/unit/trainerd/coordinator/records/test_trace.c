#include "trainerd/coordinator/fleet/fleet_state.h"

#include <criterion/criterion.h>

Test(trace, a_clock_read_within_the_round_trip_is_taken_for_the_same_clock)
{
    cr_expect_eq(fleet_clock_offset(10.0, 10.5, 10.25), 0.0);
    cr_expect_eq(fleet_clock_offset(10.0, 10.5, 10.0), 0.0);
    cr_expect_eq(fleet_clock_offset(10.0, 10.5, 10.5), 0.0);
}

Test(trace, another_machines_clock_is_put_on_the_middle_of_the_round_trip)
{
    cr_expect_eq(fleet_clock_offset(10.0, 10.5, 1000.25), -990.0);
    cr_expect_eq(fleet_clock_offset(10.0, 10.5, 4.25) + 4.25, 10.25);
}
