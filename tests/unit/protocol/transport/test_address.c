#include "protocol/transport/address.h"

#include <criterion/criterion.h>
#include <string.h>

static void check(const char *text, const char *host, const char *port)
{
    struct address address;
    cr_assert_eq(address_parse(text, "workers.listen", &address), STATUS_OK, "%s", status_reason());
    cr_assert_str_eq(address.host, host);
    cr_assert_str_eq(address.port, port);
}

Test(address, host_and_port_come_apart)
{
    check("127.0.0.1:0", "127.0.0.1", "0");
    check("node-7.cluster:65535", "node-7.cluster", "65535");
    check("[::1]:7000", "::1", "7000");
}

Test(address, what_is_not_host_and_port_is_refused_by_name)
{
    const char *const bad[] = {"", "host", ":7000", "host:", "host:65536", "host:-1", "host:7x", "::1:7000", "[]:1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct address address;
        cr_assert_eq(address_parse(bad[i], "workers.listen", &address), STATUS_CONFIG, "'%s'", bad[i]);
        cr_assert(strstr(status_reason(), "workers.listen") != NULL && strstr(status_reason(), "HOST:PORT") != NULL,
                  "%s", status_reason());
    }
}
