/* What of a plan lies in files, and how much of it has to be in memory at one time: the most that one step uses of
 * one part. */
#include "protocol/base/amounts.h"
#include "worker/plan/memory_plan.h"
#include "worker/spill/spill.h"

struct spilling {
    const struct memory_plan_input *in;
    struct memory_plan *plan;
    int64_t least;
};

/* Of own part i. */
static int64_t operand_bytes(const struct spilling *s, const struct step_operand *o, int32_t i)
{
    const struct program *program = s->in->program;
    const struct memory_plan_part *own = &s->in->own[i];
    bool halo = o->hop == PROGRAM_HOP_HALO;
    int64_t n = own->n_own + (halo ? own->n_halo : 0),
            n_value = own->n_feature_value + (halo ? own->n_halo_value : 0);
    switch (o->array) {
    case STEP_ARRAY_VALUE:
        return program->value[o->index].is_sparse ? (n_value + own->n_embedded) * (int64_t)sizeof(float)
                                                  : n * step_operand_row_bytes(program, o);
    case STEP_ARRAY_GRAD:
    case STEP_ARRAY_FRESH:
        return memory_plan_rows_own(own, o->hop) * step_operand_row_bytes(program, o);
    case STEP_ARRAY_SAVED:
        return n * step_operand_row_bytes(program, o);
    case STEP_ARRAY_STATISTICS: {
        const struct op *op = &program->op[o->index];
        return op_defs[op->kind]->global->n_statistics(program, op) * (int64_t)sizeof(double);
    }
    case STEP_ARRAY_WORKSPACE:
        return memory_workspace_bytes(o->index < 0 ? &s->plan->loss_workspace : &s->plan->workspace[o->index][o->k]);
    case STEP_ARRAY_CSR:
        return (n + 1) * 8 + (n_value + 2 * own->n_embedded) * 4;
    case STEP_ARRAY_NODE:
        return n * 4;
    case STEP_ARRAY_LABELS:
        return n * (1 + 4 * program->value[program->logits].width);
    case STEP_ARRAY_BLOCKS:
        return own->n_bytes - memory_plan_features(s->in, i);
    case STEP_ARRAY_SENDING: {
        const struct part_rows sent = part_halo_sent(own->halo, (enum part_direction)o->index, PROGRAM_HOP_ALL);
        return part_rows_all(&sent) * 4;
    }
    default:
        return 0; /* never in a file */
    }
}

/* Bytes in files that a step, or the fused chain that begins with it, pins (while payloads are packed, or while it
 * runs): arrays of one part, or those that all parts share. Steps of a chain that touch one array pin it once. */
static int64_t step_bytes(const struct spilling *s, const struct step *first, bool packing, bool dedup, int32_t i)
{
    int64_t seen[CHAIN_N_STEP * STEP_N_OPERAND], n_bytes = 0;
    int n_seen = 0, n_step = step_span(first);
    for (const struct step *step = first; step < first + n_step; step++) {
        for (int k = 0; k < step->n_operand; k++) {
            const struct step_operand *o = &step->operand[k];
            bool used = packing ? o->packing : o->running;
            if (!used || (o->array == STEP_ARRAY_WORKSPACE) != dedup ||
                memory_plan_window_at(s->plan, s->in->program, o) >= 0) {
                continue;
            }
            int64_t at = memory_plan_at(s->plan, s->in->program, o->array, o->index, o->k);
            bool there = false;
            for (int j = 0; j < n_seen; j++) {
                there = there || (at >= 0 && seen[j] == at);
            }
            seen[n_seen++] = at;
            n_bytes += there ? 0 : spill_pinned_bytes(operand_bytes(s, o, i));
        }
    }
    return n_bytes;
}

/* What one part needs, and the next part, whose arrays are prefetched. `pinned`: around it, for all parts. */
static void step_count(struct spilling *s, const struct step *step, bool packing, int64_t pinned)
{
    int64_t before = 0;
    pinned += step_bytes(s, step, packing, true, 0);
    for (int32_t i = 0; i < s->in->n_own_part; i++) {
        int64_t now = step_bytes(s, step, packing, false, i);
        s->least = larger(s->least, pinned + before + now);
        before = now;
    }
}

/* Rows of all payloads, and of the largest. */
struct sizes {
    int64_t n, most;
};

/* Of the rows that own parts send in this direction. */
static struct sizes sizes_of(const struct memory_plan_input *in, enum halo_direction direction)
{
    struct sizes out = {0};
    for (int32_t i = 0; i < in->n_own_part; i++) {
        const struct part_rows rows = halo_rows_out(in->own[i].halo, direction, PROGRAM_HOP_ALL);
        out.n += part_rows_all(&rows);
        out.most = larger(out.most, part_rows_most(&rows));
    }
    return out;
}

static void halo_count(struct spilling *s, const struct step *step)
{
    const struct memory_plan_input *in = s->in;
    const struct op *op = &in->program->op[step->op];
    if (step->stored) {
        step_count(s, step, false,
                   spill_pinned_bytes(memory_workspace_bytes(&s->plan->workspace[step->op][step->backward])));
        return;
    }
    int64_t row_bytes = halo_row_bytes_most(in->program, op, step->halo, step->lossy);
    const struct sizes payload = sizes_of(in, step->halo->direction),
                       asked = sizes_of(in, HALO_DIRECTION_IN); /* what others may ask for */
    int64_t ask_bytes = memory_plan_payloads(s->plan, in->job, in->program, step, PROGRAM_HOP_ALL).n_ask_row_bytes;
    s->plan->spill.n_payload = larger(s->plan->spill.n_payload, payload.n * row_bytes);
    s->plan->spill.n_asked = larger(s->plan->spill.n_asked, asked.n * ask_bytes);
    /* The pass's workspace, the payload in use and the next one, what it is made of, and the pieces that are being
     * sent. */
    int64_t largest = payload.most * larger(row_bytes, ask_bytes),
            piece = largest < MEMORY_PACK_BYTES ? largest : MEMORY_PACK_BYTES;
    int64_t workspace = memory_workspace_bytes(&s->plan->workspace[step->op][step->backward]);
    int64_t pinned = spill_pinned_bytes(workspace) + 2 * spill_pinned_bytes(payload.most * row_bytes) +
                     (ask_bytes > 0 ? spill_pinned_bytes(asked.most * ask_bytes) : 0) +
                     s->plan->payloads.n_pack_slot * spill_pinned_bytes(piece);
    step_count(s, step, true, pinned);
    int64_t gathered = 0; /* another part's rows, while a payload is packed from them */
    for (int32_t i = 0; i < in->n_own_part; i++) {
        gathered = larger(gathered, step_bytes(s, step, true, false, i));
    }
    step_count(s, step, false, pinned + gathered);
}

static void steps_count(struct spilling *s)
{
    for (int phase = 0; phase < STEP_PHASE_N; phase++) {
        const struct step_list *list = &s->plan->steps.phase[phase];
        for (int k = 0; k < list->n_step; k += step_span(&list->step[k])) {
            if (list->step[k].kind == STEP_KIND_HALO) {
                halo_count(s, &list->step[k]);
            } else {
                step_count(s, &list->step[k], false, 0);
            }
        }
    }
}

/* The files hold whole chunks. */
void memory_plan_spill(const struct memory_plan_input *in, struct memory_plan *plan)
{
    struct spilling s = {.in = in, .plan = plan};
    steps_count(&s);
    plan->spill.n_bytes = round_up(plan->arena.n_bytes, SPILL_CHUNK) + round_up(plan->spill.n_payload, SPILL_CHUNK) +
                          round_up(plan->spill.n_asked, SPILL_CHUNK);
    for (int32_t i = 0; i < in->n_own_part; i++) {
        int64_t expanded = memory_plan_expanded(in, i);
        int64_t copy, copies = memory_plan_copies(in, i, &copy);
        plan->spill.n_bytes += round_up(in->own[i].n_bytes, SPILL_CHUNK) + round_up(expanded, SPILL_CHUNK) +
                               in->own[i].halo->n_hop * round_up(copies, SPILL_CHUNK);
        s.least = larger(s.least, round_up(in->own[i].n_bytes, SPILL_CHUNK) +
                                      round_up(larger(expanded, copy), SPILL_CHUNK)); /* while it is made ready */
    }
    plan->spill.n_least = s.least < plan->spill.n_bytes ? s.least : plan->spill.n_bytes;
    int64_t own = in->job->memory.limit > 0 ? MEMORY_PROCESS_RESIDENT : 0; /* the budget of a machine is without */
    int64_t left = memory_plan_budget(in) - memory_plan_total(plan) - own;
    left = left < plan->spill.n_bytes ? left : plan->spill.n_bytes;
    plan->bytes[MEMORY_SPILL] = larger(left, plan->spill.n_least);
}
