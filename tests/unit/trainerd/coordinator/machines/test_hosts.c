/* Files of hosts: what they say, and what is wrong with them, by line. */
#include "tests/support/process/folder.h"
#include "trainerd/coordinator/machines/hosts.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(hosts, .init = folder_make, .fini = folder_remove);

static struct hosts hosts;

static void read_hosts(const char *text)
{
    cr_assert_eq(hosts_read(text, strlen(text), "hosts", &hosts), STATUS_OK, "%s", status_reason());
}

static void expect_refused(const char *text, const char *reason)
{
    cr_assert_eq(hosts_read(text, strlen(text), "hosts", &hosts), STATUS_CONFIG, "%s", text);
    cr_expect_str_eq(status_reason(), reason);
}

Test(hosts, a_line_has_a_host_and_maybe_slots_and_a_port)
{
    read_hosts("# machines\n\nnode1 slots=2\r\n  ann@node2.example.org\tport=2222 # near\nfe80::1%eth0");
    cr_assert_eq(hosts.n_host, 3);
    cr_assert_eq(hosts.n_slot, 4);
    cr_expect_str_eq(hosts.host[0].name, "node1");
    cr_expect_str_eq(hosts.host[1].name, "ann@node2.example.org");
    cr_expect(hosts.host[1].port == 2222 && hosts.host[1].n_slot == 1 && hosts.host[0].port == 0);
    cr_expect_str_eq(hosts.host[2].name, "fe80::1%eth0");
    hosts_release(&hosts);
}

Test(hosts, ranks_fill_the_slots_of_hosts_in_their_order)
{
    static const char *const want[] = {"a", "a", "b", "c", "c", "c"};
    read_hosts("a slots=2\nb\nc slots=3\n");
    for (uint32_t rank = 0; rank < 6; rank++) {
        cr_expect_str_eq(hosts_of_rank(&hosts, rank)->name, want[rank], "rank %u", rank);
    }
    hosts_release(&hosts);
}

Test(hosts, a_bad_line_is_named_with_its_number_and_what_was_expected)
{
    expect_refused("", "hosts has no host, expected one in each line, as: node1 slots=2");
    expect_refused("# none\n\n", "hosts has no host, expected one in each line, as: node1 slots=2");
    expect_refused("a\nb slot=2\n", "hosts:2: unknown word 'slot=2' after the host, expected slots=N or port=N");
    expect_refused("a slots=0", "hosts:1: slots is '0', expected a whole number from 1 to 65536");
    expect_refused("a slots=+2", "hosts:1: slots is '+2', expected a whole number from 1 to 65536");
    expect_refused("a slots=", "hosts:1: slots is '', expected a whole number from 1 to 65536");
    expect_refused("a port=65536", "hosts:1: port is '65536', expected a whole number from 1 to 65535");
    expect_refused("a slots=65536\nb", "hosts:2: more than 65536 slots in all");
}

/* What would be an option of ssh, or more than a word to a shell. */
Test(hosts, a_name_that_is_no_host_is_refused)
{
    static const char *const wrong[] = {
        "-oProxyCommand=x", "a;b", "a$(b)", "a'b", "@a", "a@", "a@b@c", "a@-b", "a/b", "a\\b", "h\xc3\xb6st"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cr_assert_eq(hosts_read(wrong[i], strlen(wrong[i]), "hosts", &hosts), STATUS_CONFIG, "%s", wrong[i]);
        cr_expect_not_null(strstr(status_reason(), "is no host: expected a name or an address"), "%s",
                           status_reason());
    }
}

Test(hosts, bytes_that_are_no_text_and_endless_lines_are_refused)
{
    char line[5000];
    memset(line, 'a', sizeof line);
    cr_assert_eq(hosts_read(line, sizeof line, "hosts", &hosts), STATUS_CONFIG);
    cr_expect_str_eq(status_reason(), "hosts:1: expected a line of text, of at most 1023 bytes");
    cr_assert_eq(hosts_read("a\nb\0c\n", 6, "hosts", &hosts), STATUS_CONFIG);
    cr_expect_str_eq(status_reason(), "hosts:2: expected a line of text, of at most 1023 bytes");
    line[256] = '\0';
    expect_refused(line,
                   "hosts:1: 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' is "
                   "no host: expected a name or an address, as node1 or ann@node1");
}

Test(hosts, a_file_is_read_whole_and_one_that_is_not_there_is_named)
{
    folder_write("file", "a\nb slots=2");
    cr_assert_eq(hosts_load(folder_path("file"), &hosts), STATUS_OK, "%s", status_reason());
    cr_expect_eq(hosts.n_slot, 3);
    hosts_release(&hosts);
    cr_assert_eq(hosts_load(folder_path("none"), &hosts), STATUS_NO_INPUT);
    cr_expect_not_null(strstr(status_reason(), "workers.hosts: "), "%s", status_reason());
}
