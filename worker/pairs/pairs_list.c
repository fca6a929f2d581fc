#include "worker/pairs/pairs_list.h"

#include <string.h>

size_t pairs_list_bytes(int64_t n_row, int64_t n_pair)
{
    return (size_t)n_row * sizeof(int64_t) + (size_t)n_pair * (3 * sizeof(uint32_t) + sizeof(uint16_t));
}

struct pairs_list pairs_list_in(void *memory, int64_t n_row, int64_t n_pair)
{
    struct pairs_list out = {.end = memory};
    out.rows = (uint32_t *)(void *)(out.end + n_row);
    out.places = out.rows + n_pair;
    out.numbers = out.places + n_pair;
    out.types = (uint16_t *)(void *)(out.numbers + n_pair);
    return out;
}

void pairs_list_sort(const struct pairs_item *item, int64_t n, bool by_other, int64_t n_row, struct pairs_list *out)
{
    int64_t n_before = 0;
    memset(out->end, 0, (size_t)n_row * sizeof *out->end);
    for (int64_t i = 0; i < n; i++) {
        if (item[i].other != PAIRS_LEFT_OUT) {
            out->end[by_other ? item[i].other : item[i].row]++;
        }
    }
    for (int64_t r = 0; r < n_row; r++) { /* now where each row's begin */
        int64_t n_here = out->end[r];
        out->end[r] = n_before;
        n_before += n_here;
    }
    for (int64_t i = 0; i < n; i++) {
        if (item[i].other == PAIRS_LEFT_OUT) {
            continue;
        }
        uint32_t row = by_other ? item[i].other : item[i].row;
        int64_t at = out->end[row]++;
        out->rows[at] = row;
        out->places[at] = by_other ? item[i].row : item[i].other;
        out->types[at] = (uint16_t)item[i].type;
        out->numbers[at] = item[i].number;
    }
    out->n = n_before;
}
