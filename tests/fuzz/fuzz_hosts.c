/* Any bytes as a file of hosts. */
#include "protocol/base/log.h"
#include "trainerd/coordinator/machines/hosts.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct hosts hosts;
    if (hosts_read((const char *)data, n_bytes, "hosts", &hosts) == STATUS_OK) {
        ASSERT(hosts.n_host >= 1 && hosts.n_slot >= hosts.n_host && hosts.n_slot <= HOSTS_SLOTS_MOST);
        ASSERT(hosts_of_rank(&hosts, (uint32_t)hosts.n_slot - 1) == &hosts.host[hosts.n_host - 1]);
        for (int64_t i = 0; i < hosts.n_host; i++) {
            ASSERT(hosts.host[i].name[0] != '-' && strpbrk(hosts.host[i].name, " '\"$`;&|<>(){}\\\n") == NULL);
        }
        hosts_release(&hosts);
    }
    return 0;
}
