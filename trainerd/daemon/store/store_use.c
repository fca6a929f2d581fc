/* What users have used of the machine: a fact of each user, saved with the change that adds to it. */
#include "trainerd/daemon/store/store_state.h"

#include "protocol/base/log.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define NAME "use "

enum status store_use_save(struct store *store, const struct store_use *use)
{
    char name[64], value[STORE_FACT_BYTES];
    snprintf(name, sizeof name, NAME "%u", (unsigned)use->uid);
    snprintf(value, sizeof value, "%.17g %.3f", use->used, use->at);
    return store_fact_save(store, name, value);
}

enum status store_uses(struct store *store, void (*each)(void *context, const struct store_use *use), void *context)
{
    sqlite3_stmt *statement = store_bind(store, STORE_USES, "");
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *value = store_text(statement, 1);
        struct store_use use;
        int64_t uid = -1;
        bool is_use = sscanf(store_text(statement, 0), NAME "%" SCNd64, &uid) == 1 && uid >= 0 && uid < UINT32_MAX &&
                      sscanf(value, "%lf %lf", &use.used, &use.at) == 2 && isfinite(use.used) && isfinite(use.at) &&
                      use.used >= 0.0;
        if (is_use) {
            use.uid = (uid_t)uid;
            each(context, &use);
        } else {
            log_warn("'%s': a user's use is '%.40s', expected two numbers; it is skipped", store->path, value);
        }
    }
    return store_end(store, statement, code, "read what users have used");
}
