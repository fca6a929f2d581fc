#include "worker/plan/stale_list.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"

#include <stdlib.h>

int stale_list_find(const struct stale_list *list, int op, enum halo_direction direction)
{
    for (int p = 0; p < list->n; p++) {
        if (list->payload[p].op == op && list->payload[p].direction == direction) {
            return p;
        }
    }
    return -1;
}

/* A pass of this step reads the payload. */
static void reader_add(const struct program *program, const struct step *step, enum halo_direction direction,
                       struct stale_list *out)
{
    const struct op *op = &program->op[step->op];
    int p = stale_list_find(out, step->op, direction);
    if (p < 0) {
        p = out->n++;
        out->payload[p] = (struct stale_payload){.op = step->op,
                                                 .direction = direction,
                                                 .hop = halo_pass_hop(program, op, step->halo),
                                                 .n_row_bytes = halo_row_bytes_most(program, op, step->halo, true),
                                                 .first_pass = step->pass};
    }
    out->payload[p].last_pass = step->pass;
}

void stale_list_build(const struct program *program, const struct step_list *train, struct stale_list *out)
{
    *out = (struct stale_list){0};
    if (!program->lossy.stale) {
        return;
    }
    out->payload = memory_alloc(2 * (size_t)program->n_op, sizeof *out->payload); /* rows and gradients */
    for (int s = 0; s < train->n_step; s++) {
        const struct step *step = &train->step[s];
        if (step->kind != STEP_KIND_HALO || step->stored) {
            continue;
        }
        ASSERT(step->halo->direction != HALO_DIRECTION_OUT);
        reader_add(program, step, step->halo->direction, out);
        if (step->halo->n_ask > 0) { /* rows that gradients are made of are those that forward used */
            reader_add(program, step, HALO_DIRECTION_IN, out);
        }
    }
}

void stale_list_release(struct stale_list *list)
{
    free(list->payload);
    *list = (struct stale_list){0};
}

int64_t stale_part_bytes(const struct stale_payload *payload, const struct part_halo *own)
{
    const struct part_rows received = halo_rows_in(own, payload->direction, payload->hop);
    return part_rows_all(&received) * payload->n_row_bytes;
}

int64_t stale_sent_bytes(const struct stale_list *list, const struct halo_owners *owners)
{
    int64_t n_bytes = 0;
    for (int p = 0; p < list->n; p++) {
        const struct stale_payload *payload = &list->payload[p];
        n_bytes += halo_routes_total(owners, payload->direction, payload->hop).sent.n_row * payload->n_row_bytes;
    }
    return n_bytes;
}

int64_t stale_list_floats(const struct stale_list *list, const struct part_halo *own)
{
    int64_t n_bytes = 0;
    for (int p = 0; p < list->n; p++) {
        n_bytes += stale_part_bytes(&list->payload[p], own);
    }
    return n_bytes / (int64_t)sizeof(float);
}

int64_t stale_list_places(const struct stale_list *list, const struct part_halo *own)
{
    return list->n * halo_n_pair(own) * (int64_t)(2 * sizeof(int64_t));
}
