#include "models/program/row_filter.h"

#include <stddef.h>

#define ROW_FILTER(name) extern const struct row_filter row_filter_##name;
#include "models/program/row_filters.def"
#undef ROW_FILTER

#define ROW_FILTER(name) &row_filter_##name,
static const struct row_filter *const filters[] = {
#include "models/program/row_filters.def"
};
#undef ROW_FILTER

const struct row_filter *row_filter_of(const struct job *job)
{
    for (size_t f = 0; f < sizeof filters / sizeof *filters; f++) {
        if (filters[f]->share(job) < 1.0) {
            return filters[f];
        }
    }
    return NULL;
}

double row_filter_share(const struct job *job)
{
    const struct row_filter *filter = row_filter_of(job);
    return filter != NULL ? filter->share(job) : 1.0;
}
