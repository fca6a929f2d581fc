#include "protocol/wire/embedded.h"

int64_t embedded_count(const struct embedded *embedded)
{
    int64_t n = 0;
    for (int32_t i = 0; i < embedded->n_run; i++) {
        n += embedded->run[i].end - embedded->run[i].begin;
    }
    return n;
}

bool embedded_has(const struct embedded *embedded, int64_t column)
{
    int32_t i = 0;
    while (i < embedded->n_run && embedded->run[i].end <= column) {
        i++;
    }
    return i < embedded->n_run && embedded->run[i].begin <= column;
}

int64_t embedded_shared(const struct embedded *embedded, int64_t column)
{
    int64_t shared = column;
    for (int32_t i = 0; i < embedded->n_run && embedded->run[i].end <= column; i++) {
        shared -= embedded->run[i].end - embedded->run[i].begin;
    }
    return shared;
}

int64_t embedded_column(const struct embedded *embedded, int64_t shared)
{
    int64_t column = shared;
    for (int32_t i = 0; i < embedded->n_run && embedded->run[i].begin <= column; i++) {
        column += embedded->run[i].end - embedded->run[i].begin;
    }
    return column;
}
