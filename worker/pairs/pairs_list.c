#include "worker/pairs/pairs_list.h"

#include <string.h>

size_t pairs_list_bytes(int64_t n_row, int64_t n_pair)
{
    return 2 * (size_t)n_row * sizeof(int64_t) + (size_t)n_pair * 4 * sizeof(uint32_t);
}

struct pairs_list pairs_list_in(void *memory, int64_t n_row, int64_t n_pair)
{
    struct pairs_list out = {.end = memory};
    out.rows = (uint32_t *)(void *)(out.end + 2 * n_row);
    out.places = out.rows + n_pair;
    out.numbers = out.places + n_pair;
    out.relations = out.numbers + n_pair;
    return out;
}

/* Heads' rows come first. */
static int64_t key_of(const struct pairs_item *item, bool by_other, int64_t n_row)
{
    return (pairs_is_tail(item->type) != by_other ? n_row : 0) + (by_other ? item->other : item->row);
}

void pairs_list_sort(const struct pairs_item *item, int64_t n, bool by_other, int64_t n_row, struct pairs_list *out)
{
    int64_t n_before = 0;
    memset(out->end, 0, 2 * (size_t)n_row * sizeof *out->end);
    for (int64_t i = 0; i < n; i++) {
        if (item[i].other != PAIRS_LEFT_OUT) {
            out->end[key_of(&item[i], by_other, n_row)]++;
        }
    }
    for (int64_t key = 0; key < 2 * n_row; key++) { /* now where each row's begin */
        int64_t n_here = out->end[key];
        out->end[key] = n_before;
        n_before += n_here;
        out->n_head = key < n_row ? n_before : out->n_head;
    }
    for (int64_t i = 0; i < n; i++) {
        if (item[i].other == PAIRS_LEFT_OUT) {
            continue;
        }
        int64_t at = out->end[key_of(&item[i], by_other, n_row)]++;
        out->rows[at] = by_other ? item[i].other : item[i].row;
        out->places[at] = by_other ? item[i].row : item[i].other;
        out->relations[at] = pairs_relation(item[i].type);
        out->numbers[at] = item[i].number;
    }
    out->n = n_before;
}
