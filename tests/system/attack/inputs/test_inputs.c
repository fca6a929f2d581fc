/* Hostile inputs through the doors of real programs: each ends with a documented exit code and a line that says what
 * is wrong and where, or is answered, and leaves what was there before.
 *
 * ATTACK_SEED gives another seed; TEST_THOROUGH makes 1000 inputs and more.
 */
#include "tests/support/process/folder.h"
#include "tests/system/attack/campaign.h"
#include "tests/system/attack/inputs/door.h"
#include "tests/system/attack/inputs/invocation.h"
#include "tests/system/attack/processes.h"
#include "tests/system/attack/talk.h"
#include "tests/system/attack/target.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct {
    const char *name;
    int n;
    void (*try)(void);
} doors[] = {
#define X(name, n) {#name, n, door_##name},
    DOOR_LIST(X)
#undef X
};

Test(attack, inputs)
{
    if (!users_make()) {
        cr_skip_test("only root can start a daemon that users share");
    }
    int n_input = 0;
    campaign_begin("inputs");
    processes_begin();
    door_files_begin();
    door_jobs_begin();
    target_start(NULL);
    for (size_t i = 0; i < sizeof doors / sizeof *doors; i++) {
        int n = campaign_is_thorough() ? doors[i].n : doors[i].n / 10;
        for (int k = 0; k < n; k++) {
            campaign_step(n_input++);
            campaign_note("%s", doors[i].name);
            doors[i].try();
        }
    }
    users_expect_untouched();
    target_expect_no_bug();
    HOLDS(strstr(talk_http("/metrics"), "HTTP/1.1 200") != NULL, "no metrics");
    target_end();
    processes_expect_none();
    fprintf(stderr, "attack: %d inputs, %d refused by programs, seed %llu\n", n_input, invocation_n_refused(),
            (unsigned long long)campaign_seed());
    cr_assert_geq(invocation_n_refused(), n_input / 3, "%d", invocation_n_refused());
    cr_assert_geq(n_input, campaign_is_thorough() ? 1000 : 100);
    folder_remove();
}
