#include "protocol/wire/worker_state.h"

#include <stddef.h>

#define STATE(number, name, scope, is_set, section, text)                                                            \
    [number] = {(enum worker_state)(number), WORKER_STATE_SCOPE_##scope, (is_set) != 0, section, text},
const struct worker_state_row worker_state_rows[WORKER_STATE_END] = {
#include "protocol/wire/worker_state.def"
};
#undef STATE

const struct worker_state_row *worker_state_row(uint32_t what)
{
    return what < WORKER_STATE_END && worker_state_rows[what].what != 0 ? &worker_state_rows[what] : NULL;
}
