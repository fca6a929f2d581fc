/* Any bytes as a file of users, and as a user's file of known hosts. */
#include "protocol/base/log.h"
#include "trainerd/ctl/base/known_hosts.h"
#include "trainerd/daemon/server/users.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct users users;
    struct known_hosts hosts;
    if (users_read((const char *)data, n_bytes, "users", &users) == STATUS_OK) {
        for (size_t i = 0; i < users.n_user; i++) {
            ASSERT(auth_is_user(users.user[i].name) && users_find(&users, users.user[i].name) == &users.user[i]);
            ASSERT(users.user[i].role < USER_ROLE_N && users.user[i].system[0] != '\0');
        }
        users_release(&users);
    }
    if (known_hosts_read((const char *)data, n_bytes, "hosts", &hosts) == STATUS_OK) {
        for (size_t i = 0; i < hosts.n_host; i++) {
            const struct known_host *host = &hosts.host[i];
            size_t n = strlen(host->fingerprint);
            ASSERT(n == 0 || n == 64 || strcmp(host->fingerprint, KNOWN_HOSTS_NO_TLS) == 0);
            ASSERT(host->secret_file[0] == '\0' || host->secret_file[0] == '/');
        }
        known_hosts_release(&hosts);
    }
    return 0;
}
