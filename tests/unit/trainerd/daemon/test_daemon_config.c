#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "trainerd/daemon/daemon_config.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(daemon_config, .init = folder_make, .fini = folder_remove);

static struct daemon_config config;

static enum status load(const char *text)
{
    folder_write("trainerd.toml", text);
    return daemon_config_load(folder_path("trainerd.toml"), NULL, 0, &config);
}

Test(daemon_config, what_is_not_given_has_its_default)
{
    expect_done(load(""));
    cr_assert_eq(config.max_restarts, 3);
    cr_assert_eq(config.kill_s, 30.0);
    cr_assert_eq(config.max_frame, 1 << 20);
    cr_assert_str_eq(config.listen, "");
}

Test(daemon_config, every_kind_of_value_is_read)
{
    expect_done(
        load("[daemon]\nlisten = \"unix:/run/x\"\nslots = 7\nmemory = \"20GiB\"\nkill_s = 5\nmax_frame = 4096\n"));
    cr_assert_str_eq(config.listen, "unix:/run/x");
    cr_assert_eq(config.slots, 7);
    cr_assert_eq(config.memory, INT64_C(20) << 30);
    cr_assert_eq(config.kill_s, 5.0);
    cr_assert_eq(config.max_frame, 4096);
}

Test(daemon_config, gpus_are_a_number_or_as_many_as_there_are)
{
    static const char *const set[] = {"gpus=4", "gpus=auto", "gpus=\"auto\""};
    static const int64_t expected[] = {4, DAEMON_IS_AUTO, DAEMON_IS_AUTO};
    expect_done(load("[daemon]\ngpus = \"auto\"\n"));
    cr_assert_eq(config.gpus, DAEMON_IS_AUTO);
    for (int i = 0; i < 3; i++) {
        expect_done(daemon_config_load(folder_path("trainerd.toml"), &set[i], 1, &config));
        cr_assert_eq(config.gpus, expected[i], "%s", set[i]);
    }
}

Test(daemon_config, settings_stand_over_the_file_in_their_order)
{
    folder_write("trainerd.toml", "[daemon]\nslots = 7\n");
    const char *const set[] = {"slots=8", "daemon.slots=9", "memory=1GiB", "state=/var/lib/x y", "backoff_s=0.5"};
    expect_done(daemon_config_load(folder_path("trainerd.toml"), set, 5, &config));
    cr_assert_eq(config.slots, 9);
    cr_assert_eq(config.memory, 1 << 30);
    cr_assert_str_eq(config.state, "/var/lib/x y");
    cr_assert_eq(config.backoff_s, 0.5);
}

Test(daemon_config, the_file_that_it_describes_is_every_key_at_its_default)
{
    struct daemon_config defaults;
    char *text = NULL;
    size_t n = 0;
    FILE *file = open_memstream(&text, &n);
    daemon_config_describe(file);
    fclose(file);
    daemon_config_defaults(&defaults);
    expect_done(load(text));
    cr_assert_eq(memcmp(&config, &defaults, sizeof config), 0);
    cr_assert_not_null(strstr(text, "\nmax_unread = "));
    char kept[16384] = "";
    file = fopen("configs/daemon/trainerd.toml", "r");
    cr_assert_not_null(file, "configs/daemon/trainerd.toml is not there: tests run in the repository's root");
    kept[fread(kept, 1, sizeof kept - 1, file)] = '\0';
    fclose(file);
    cr_assert_str_eq(kept, text, "configs/daemon/trainerd.toml is of other keys: make docs writes it");
    free(text);
}

Test(daemon_config, a_mistake_is_named_with_its_place_and_what_was_expected)
{
    static const struct {
        const char *text, *words[3];
    } cases[] = {
        {"[daemon]\nslot = 1\n", {"trainerd.toml:2:1", "unknown key 'slot'", "did you mean 'slots'?"}},
        {"[daemon]\nentirely_other = 1\n", {"trainerd.toml:2:1", "'entirely_other'", "--describe-daemon"}},
        {"[daemon]\nslots = -1\n", {"trainerd.toml:2:1", "daemon.slots", "a whole number from 0 to 1000000"}},
        {"[daemon]\nslots = \"many\"\n", {"trainerd.toml:2:1", "daemon.slots", "a whole number"}},
        {"[daemon]\ngpus = \"all\"\n",
         {"trainerd.toml:2:1", "daemon.gpus", "a whole number from 0 to 64, or \"auto\""}},
        {"[daemon]\ngpus = -1\n", {"trainerd.toml:2:1", "daemon.gpus", "a whole number from 0 to 64, or \"auto\""}},
        {"[daemon]\nslots = \"auto\"\n", {"trainerd.toml:2:1", "daemon.slots", "a whole number"}},
        {"[daemon]\nkill_s = nan\n", {"trainerd.toml:2:1", "daemon.kill_s", "a number from 0.1 to 86400.0"}},
        {"[daemon]\nlisten = 7\n", {"trainerd.toml:2:1", "daemon.listen", "a text"}},
        {"[daemon]\nmemory = \"lots\"\n", {"trainerd.toml:2:1", "daemon.memory", "\"1GiB\""}},
        {"[deamon]\nslots = 1\n", {"trainerd.toml:1:", "'deamon'", "[daemon]"}},
        {"slots = 1\n", {"trainerd.toml:1:1", "'slots'", "[daemon]"}},
        {"[daemon]\nslots = \n", {"trainerd.toml:2:", "", ""}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_eq(load(cases[i].text), STATUS_CONFIG, "%s", cases[i].text);
        for (int word = 0; word < 3; word++) {
            expect_reason(cases[i].words[word]);
        }
    }
}

Test(daemon_config, all_mistakes_are_told_at_once)
{
    cr_assert_eq(load("[daemon]\nslot = 1\nkill_s = soon\nlisten = = 1\ngpus = -1\n"), STATUS_CONFIG);
    static const char *const words[] = {"trainerd.toml:2:1: unknown key 'slot'", "\n",
                                        "trainerd.toml:3:1: daemon.kill_s",
                                        "trainerd.toml:4:10: ", "trainerd.toml:5:1: daemon.gpus"};
    for (int i = 0; i < 5; i++) {
        cr_expect_not_null(strstr(status_reason(), words[i]), "%s: %s", words[i], status_reason());
    }
}

Test(daemon_config, a_bad_setting_is_named)
{
    static const char *const settings[] = {"slots", "slot=1", "slots=x", "slots=1\nkill_s=1"};
    static const char *const words[] = {"--set slots: expected key=value", "did you mean 'slots'?", "daemon.slots",
                                        "daemon.slots"};
    folder_write("trainerd.toml", "");
    for (int i = 0; i < 4; i++) {
        enum status status = daemon_config_load(folder_path("trainerd.toml"), &settings[i], 1, &config);
        cr_assert_eq(status, i == 0 ? STATUS_USAGE : STATUS_CONFIG, "%s", settings[i]);
        expect_reason(words[i]);
    }
}

Test(daemon_config, a_file_that_is_asked_for_must_be_there)
{
    expect_fails(daemon_config_load(folder_path("none.toml"), NULL, 0, &config), STATUS_NO_INPUT, "none.toml");
}
