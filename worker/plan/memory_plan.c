#include "worker/plan/memory_plan.h"

#include "protocol/base/amounts.h"
#include "protocol/transport/transport.h"
#include "worker/plan/liveness.h"
#include "worker/plan/offload.h"
#include "worker/plan/recompute.h"

#include <stdlib.h>
#include <string.h>

#define ROW_ALIGN 16
#define WORKSPACE_ALIGN 64

/* Parts that run at a time: multiplications of one at most, what a draw and a logit cost of these, and bytes of
 * scratch that all take. */
#define PARTS_COST ((int64_t)1 << 19)
#define PARTS_DRAW_COST 8
#define PARTS_LOGIT_COST 32
#define PARTS_SCRATCH_BYTES ((int64_t)512 << 10)

static void rows_lay_out(const struct memory_plan_input *in, struct memory_plan *plan)
{
    plan->rows.begin = memory_alloc((size_t)in->n_own_part, sizeof *plan->rows.begin);
    for (int32_t i = 0; i < in->n_own_part; i++) {
        plan->rows.begin[i] = (struct memory_begin){.row = plan->rows.n_row,
                                                    .value = plan->rows.n_sparse_value,
                                                    .row_halo = plan->rows.n_row_halo,
                                                    .value_halo = plan->rows.n_value_halo,
                                                    .embedding = plan->rows.n_embedding};
        plan->rows.n_row_halo += round_up(in->own[i].n_own + in->own[i].n_halo, ROW_ALIGN);
        plan->rows.n_value_halo += round_up(in->own[i].n_feature_value + in->own[i].n_halo_value, ROW_ALIGN);
        plan->rows.n_row += round_up(in->own[i].n_own, ROW_ALIGN);
        plan->rows.n_sparse_value += round_up(in->own[i].n_feature_value + in->own[i].n_embedded, ROW_ALIGN);
        plan->rows.n_embedding += round_up(in->own[i].n_embedded * in->program->n_embedding, ROW_ALIGN);
    }
    plan->n_hop = in->own[0].halo->n_hop;
    plan->n_own_part = in->n_own_part;
    plan->rows.row_begin_hop = memory_alloc((size_t)plan->n_hop * (size_t)in->n_own_part,
                                            sizeof *plan->rows.row_begin_hop);
    for (int32_t hop = 0; hop < plan->n_hop; hop++) {
        int64_t *n_row = &plan->rows.n_row_hop[hop];
        for (int32_t i = 0; i < in->n_own_part; i++) {
            plan->rows.row_begin_hop[hop * (int64_t)in->n_own_part + i] = *n_row;
            *n_row += round_up(memory_plan_rows_own(&in->own[i], hop), ROW_ALIGN);
        }
        *n_row = larger(*n_row, ROW_ALIGN); /* an array has a place, though it may have no rows */
    }
}

/* Windows and chunks of fused chains. */
static void chains_lay_out(const struct memory_plan_input *in, struct memory_plan *plan)
{
    struct chain_rows *most = &plan->arena.chain;
    int64_t n_chunk = 0;
    for (int32_t i = 0; i < in->n_own_part; i++) {
        struct chain_rows rows = chain_rows(in->program, in->ops, in->own[i].n_own);
        rows.n_window = smaller(rows.n_window, round_up(in->own[i].n_own, ROW_ALIGN));
        most->n_window = larger(most->n_window, rows.n_window);
        most->n_chunk = rows.n_chunk > most->n_chunk ? rows.n_chunk : most->n_chunk;
        n_chunk += rows.n_chunk;
    }
    plan->arena.n_task = memory_plan_spills(in->job)
                             ? most->n_chunk
                             : chain_tasks(in->program, in->ops, plan->rows.n_row, n_chunk, most);
}

int64_t memory_plan_rows(const struct memory_plan *plan, int32_t hop)
{
    return hop < plan->n_hop         ? plan->rows.n_row_hop[hop]
           : hop == PROGRAM_HOP_HALO ? plan->rows.n_row_halo
                                     : plan->rows.n_row;
}

int64_t memory_plan_row_begin(const struct memory_plan *plan, int32_t hop, int32_t i)
{
    return hop < plan->n_hop         ? plan->rows.row_begin_hop[hop * (int64_t)plan->n_own_part + i]
           : hop == PROGRAM_HOP_HALO ? plan->rows.begin[i].row_halo
                                     : plan->rows.begin[i].row;
}

int64_t memory_plan_values(const struct memory_plan *plan, int32_t hop)
{
    return hop == PROGRAM_HOP_HALO ? plan->rows.n_value_halo : plan->rows.n_sparse_value;
}

int64_t memory_plan_value_begin(const struct memory_plan *plan, int32_t hop, int32_t i)
{
    return hop == PROGRAM_HOP_HALO ? plan->rows.begin[i].value_halo : plan->rows.begin[i].value;
}

int64_t memory_plan_rows_own(const struct memory_plan_part *own, int32_t hop)
{
    return hop < own->halo->n_hop ? part_halo_own(own->halo, hop)
                                  : own->n_own + (hop == PROGRAM_HOP_HALO ? own->n_halo : 0);
}

/* The op's own scratch on the largest part that needs it, on a window, or on merged parts. */
static int64_t op_scratch(const struct memory_plan_input *in, const struct memory_plan *plan, const struct op *op)
{
    int64_t most = 0, n_most = chain_takes_scratch(in->program, op) ? plan->arena.chain.n_window : INT64_MAX;
    bool returns = op->kind == OP_KIND_AGGREGATE && program_is_lossy(in->program) &&
                   !program_reads_stored(in->program, op); /* of payload rows gradients are made, too */
    for (int32_t i = 0; i < in->n_own_part; i++) {
        const struct part_rows received = part_halo_received(in->own[i].halo, PART_DIRECTION_IN, PROGRAM_HOP_ALL);
        int64_t payload = returns ? part_rows_most(&received) : 0;
        bool halo = in->program->value[op->out].hop == PROGRAM_HOP_HALO;
        int64_t n = smaller(larger(in->own[i].n_own, payload) + (halo ? in->own[i].n_halo : 0), n_most);
        most = larger(most, (int64_t)op_workspace(in->program, op, in->ops, n));
    }
    if (memory_plan_merges(plan, in->program, op)) {
        most = larger(most, (int64_t)op_workspace(in->program, op, in->ops, plan->rows.n_row));
    }
    return round_up(most, WORKSPACE_ALIGN);
}

/* Own parts that run at a time, one by each thread, each with n_scratch bytes: small ones, of n_cost multiplications
 * in all. */
static int32_t parts_at_once(const struct memory_plan_input *in, int64_t n_scratch, int64_t n_cost)
{
    bool small = in->ops->unified && !memory_plan_spills(in->job) && n_cost <= PARTS_COST * in->n_own_part;
    int64_t n_most = small ? smaller(in->n_own_part, PARTS_SCRATCH_BYTES / larger(n_scratch, 1)) : 1;
    return (int32_t)larger(n_most, 1);
}

/* Products of sparse features and their dropout; others share their work among threads in a part. */
static int32_t op_parts(const struct memory_plan_input *in, const struct op *op, int64_t n_scratch)
{
    const struct value *out = &in->program->value[op->out];
    bool takes = (op->kind == OP_KIND_LINEAR || op->kind == OP_KIND_ACTIVATE) &&
                 in->program->value[op->in[0]].is_sparse;
    int64_t n_value = 0;
    for (int32_t i = 0; i < in->n_own_part; i++) {
        n_value += in->own[i].n_feature_value + in->own[i].n_embedded;
    }
    return takes ? parts_at_once(in, n_scratch, n_value * (out->is_sparse ? PARTS_DRAW_COST : out->width)) : 1;
}

/* Of all of an aggregate's passes: columns of its widest payload and bytes of the largest one's row as it travels,
 * and likewise of the rows that one is made of. */
struct widest {
    int64_t payload, asked;
    int64_t payload_bytes, asked_bytes;
};

static void pass_add(const struct program *program, const struct op *op, const struct halo_pass *pass,
                     struct widest *w)
{
    int64_t asked = 0;
    for (int k = 0; k < pass->n_ask; k++) {
        asked += halo_ask_width(program, op, pass, k);
    }
    w->payload = larger(w->payload, halo_payload_width(program, op, pass));
    w->asked = larger(w->asked, asked);
    w->payload_bytes = larger(w->payload_bytes, halo_row_bytes_most(program, op, pass, true));
    w->asked_bytes = larger(w->asked_bytes, halo_ask_bytes_most(program, op, pass, true));
}

static struct widest widest_of(const struct program *program, const struct op *op)
{
    const struct halo_pass *backward = aggregate_backward(program, op->aggregate);
    struct widest w = {0};
    pass_add(program, op, &aggregate_defs[op->aggregate]->forward, &w);
    for (int k = 0; k < OP_N_BACKWARD; k++) {
        pass_add(program, op, &backward[k], &w);
    }
    return w;
}

/* Of the largest payload between parts of this rank, or with all others. */
static int64_t most_packed(const struct memory_plan_input *in, const struct part_rows rows, bool all)
{
    int64_t most = 0;
    for (int32_t k = 0; k < rows.pairs->n_pair; k++) {
        bool packed = all || in->rank_of_part[rows.pairs->pair[k].part] == in->rank;
        most = packed ? larger(most, part_rows_at(&rows, k)) : most;
    }
    return most;
}

static bool scatters(const struct memory_plan_input *in)
{
    return in->dedup != NULL && in->dedup->scatters;
}

/* Rows of the largest payload that scratch has: of parts of this rank, which have no slots, and any that is decoded
 * or picked out of deduplicated rows. `diagonal`: of own rows, too. */
static int64_t payload_rows(const struct memory_plan_input *in, bool diagonal)
{
    int64_t rows = 0;
    bool all = program_codes(in->program) || scatters(in);
    int n_direction = program_codes(in->program) ? 2 : 1; /* exact gradients go the other way, too */
    for (int32_t i = 0; i < in->n_own_part; i++) {
        rows = larger(rows, diagonal ? in->own[i].n_own : 0);
        for (int t = HALO_DIRECTION_IN; t < n_direction; t++) {
            const struct part_halo *own = in->own[i].halo;
            rows = larger(rows, most_packed(in, halo_rows_in(own, (enum halo_direction)t, PROGRAM_HOP_ALL), all));
            rows = larger(rows, most_packed(in, halo_rows_out(own, (enum halo_direction)t, PROGRAM_HOP_ALL), all));
        }
    }
    return rows;
}

/* Scratch with all that lies behind an op's own. */
static struct memory_workspace scratch_plan(const struct memory_plan_input *in, const struct memory_plan *plan,
                                            const struct op *op)
{
    struct memory_workspace out = {.n_scratch = op_scratch(in, plan, op)};
    out.n_part = op_parts(in, op, out.n_scratch);
    out.n_scratch *= out.n_part;
    bool packs = op->kind == OP_KIND_AGGREGATE && !program_reads_stored(in->program, op) &&
                 (program_is_lossy(in->program) || aggregate_returns(in->program, op->aggregate) || scatters(in));
    if (!packs) {
        return out;
    }
    const struct memory_sample *s = &plan->payloads.sample;
    struct widest w = widest_of(in->program, op);
    int64_t rows = payload_rows(in, op->aggregate == AGGREGATE_KIND_MAX),
            wire = larger(w.payload_bytes, w.asked_bytes);
    out.packed_at = out.wire_at = out.n_scratch;
    out.asked_at = out.asked_wire_at = out.packed_at +
                                       round_up(rows * w.payload * (int64_t)sizeof(float), WORKSPACE_ALIGN);
    out.sample_at = out.asked_at + round_up(rows * w.asked * (int64_t)sizeof(float), WORKSPACE_ALIGN);
    out.n_scratch = out.sample_at + 2 * s->n_number_bytes + s->n_block_bytes;
    out.n_scratch += program_is_lossy(in->program) ? s->n_transposed_bytes : 0;
    if (program_codes(in->program)) { /* what is asked for is read before what is made of it is written */
        out.wire_at = out.asked_wire_at = out.n_scratch;
        out.n_scratch += round_up(rows * wire, WORKSPACE_ALIGN);
    }
    return out;
}

/* Payloads of one halo pass: their part of its op's workspace, and their bytes. Training moves the rows that count;
 * evaluation, and what runs once, all. */
static void payloads_plan(const struct memory_plan_input *in, enum step_phase phase, const struct step *step,
                          struct memory_plan *plan)
{
    const struct op *op = &in->program->op[step->op];
    if (step->stored) { /* of which backward makes gradients over blocks transposed */
        plan->workspace[step->op][STEP_WORKSPACE_BACKWARD].sample_at =
            plan->workspace[step->op][STEP_WORKSPACE_FORWARD].n_scratch;
        plan->workspace[step->op][step->backward].n_scratch += step->halo->transposed
                                                                   ? plan->payloads.sample.n_transposed_bytes
                                                                   : 0;
        return;
    }
    int32_t hop = phase == STEP_PHASE_TRAIN ? halo_list_hop(in->dedup, in->program, op, step->halo) : PROGRAM_HOP_ALL;
    struct memory_payloads r = memory_plan_payloads(plan, in->job, in->program, step, hop);
    struct memory_workspace *workspace = &plan->workspace[step->op][step->backward];
    plan->payloads.n_fetch_slot = (int32_t)larger(plan->payloads.n_fetch_slot, r.n_fetch_slot);
    plan->payloads.n_pack_slot = (int32_t)larger(plan->payloads.n_pack_slot, r.n_pack_slot);
    plan->payloads.n_ask_slot = (int32_t)larger(plan->payloads.n_ask_slot, r.n_ask_slot);
    workspace->n_fetch = larger(workspace->n_fetch, round_up(r.n_fetch_bytes, WORKSPACE_ALIGN));
    workspace->n_pack = larger(workspace->n_pack, round_up(r.n_pack_bytes, WORKSPACE_ALIGN));
    workspace->n_ask = larger(workspace->n_ask, r.n_ask_slot * r.n_ask_slot_bytes);
    memory_plan_traffic(in, phase, step, hop, plan);
}

static void workspaces_plan(const struct memory_plan_input *in, struct memory_plan *plan)
{
    const struct program *program = in->program;
    plan->workspace = memory_alloc((size_t)program->n_op, sizeof *plan->workspace);
    memory_plan_traffic_begin(in, plan);
    for (int i = 0; i < program->n_op; i++) {
        plan->workspace[i][STEP_WORKSPACE_FORWARD] = plan->workspace[i][STEP_WORKSPACE_BACKWARD] = scratch_plan(
            in, plan, &program->op[i]);
    }
    for (int phase = 0; phase < STEP_PHASE_N; phase++) {
        const struct step_list *list = &plan->steps.phase[phase];
        for (int s = 0; s < list->n_step; s++) {
            if (list->step[s].kind == STEP_KIND_HALO) {
                payloads_plan(in, (enum step_phase)phase, &list->step[s], plan);
            }
        }
    }
    int64_t score = 0;
    for (int32_t i = 0; i < in->n_own_part; i++) {
        score = larger(score, (int64_t)DEVICE_BYTES(in->ops, LOSS, in->own[i].n_own));
    }
    const bool sequential = in->links != NULL || program->labels >= 0; /* the first part counts drawn labels */
    const int64_t n_cost = plan->rows.n_row * program->value[program->logits].width * PARTS_LOGIT_COST;
    score = round_up(score, WORKSPACE_ALIGN);
    plan->loss_workspace.n_part = sequential ? 1 : parts_at_once(in, score, n_cost);
    plan->loss_workspace.n_scratch = score * plan->loss_workspace.n_part;
    memory_plan_links(in, plan);
}

int64_t memory_workspace_bytes(const struct memory_workspace *workspace)
{
    return workspace->n_scratch + workspace->n_fetch + workspace->n_pack + workspace->n_ask;
}

int64_t memory_plan_at(const struct memory_plan *plan, const struct program *program, enum step_array array,
                       int index, int k)
{
    int slot = liveness_slot(program, array, index, k);
    return slot >= 0 ? plan->arena.at[slot] : -1;
}

int64_t memory_plan_window_at(const struct memory_plan *plan, const struct program *program,
                              const struct step_operand *operand)
{
    int slot = liveness_slot(program, operand->array, operand->index, operand->k);
    return slot >= 0 ? plan->arena.window_at[slot] : -1;
}

int64_t memory_plan_class_weights(const struct job *job, const struct program *program)
{
    bool any = !program->forward_only && strcmp(job->train.class_weights, "none") != 0;
    return any ? program->value[program->logits].width * (int64_t)sizeof(float) : 0;
}

static int64_t parameters_bytes(const struct memory_plan_input *in, struct memory_plan *plan)
{
    bool trains = !in->program->forward_only;
    int64_t one = in->program->n_weight * (int64_t)sizeof(float);
    plan->reduced.n_gradient_bytes = (trains ? one : 0) + MEMORY_PLAN_N_SUM * (int64_t)sizeof(double);
    plan->reduced.n_reduced_bytes = plan->reduced.n_gradient_bytes;
    for (int i = 0; i < in->program->n_op; i++) {
        const struct op *op = &in->program->op[i];
        const struct global_def *global = op_defs[op->kind]->global;
        int64_t n_bytes = global != NULL ? global->n_sum(in->program, op) * (int64_t)sizeof(double) : 0;
        plan->reduced.n_global_bytes = larger(plan->reduced.n_global_bytes, n_bytes);
        plan->reduced.n_reduced_bytes += n_bytes * (in->program->value[op->out].needs_grad ? 2 : 1);
        plan->reduced.n_reduced_evaluate += program_rows_differ(in->program) && op_keeps_statistics(op) ? n_bytes : 0;
    }
    int64_t bytes = one + in->n_own_part * plan->reduced.n_gradient_bytes +
                    memory_plan_class_weights(in->job, in->program);
    if (trains && in->rank == 0) {
        bytes += one; /* the best weights so far */
    }
    bytes += in->n_own_part * plan->reduced.n_global_bytes;
    if (in->n_rank > 1) {
        bytes += plan->reduced.n_gradient_bytes +
                 plan->reduced.n_global_bytes; /* another rank's branch of the tree */
    }
    if (!trains) {
        return bytes + plan->rows.n_embedding * (int64_t)sizeof(float);
    }
    bool adam = in->job->train.optimizer != JOB_OPTIMIZER_SGD;
    int64_t n_moment = adam ? 2 : in->job->train.momentum > 0;
    int64_t n_more = n_moment + (in->job->exchange.guard_every > 0); /* the approximate gradient */
    /* Embeddings: present, gradient, and best on every rank. */
    return bytes + n_more * one + (3 + n_more) * plan->rows.n_embedding * (int64_t)sizeof(float);
}

bool memory_plan_spills(const struct job *job)
{
    return job->memory.spill[0] != '\0';
}

/* What is copied aside for the coordinator: the weights in the arena, one part's embeddings or logits; or what
 * opening features takes. */
static int64_t aside_bytes(const struct memory_plan_input *in)
{
    const struct program *program = in->program;
    int64_t most = program->n_weight;
    for (int32_t i = 0; i < in->n_own_part; i++) {
        most = larger(most, in->own[i].n_own * program->value[program->logits].width);
        most = larger(most, program->kept >= 0 ? in->own[i].n_own * program->value[program->kept].width : 0);
        most = larger(most, in->own[i].n_embedded * program->n_embedding);
    }
    return larger(most * (int64_t)sizeof(float), memory_plan_csr_host(in));
}

/* Events of a phase's steps. A step has its own, one for each part's work and wait for the disk, and what its
 * reduction waits for; a halo pass four for each pair of parts (wait, pack, spill and read again) and one for each
 * further piece. */
static int64_t trace_events(const struct memory_plan_input *in, const struct memory_plan *plan,
                            const struct step_list *list)
{
    int64_t n = 0, n_pair = 0;
    for (int32_t i = 0; i < in->n_own_part; i++) {
        n_pair += halo_n_pair(in->own[i].halo);
    }
    for (int s = 0; s < list->n_step; s++) {
        const struct step *step = &list->step[s];
        n += 2 + 2 * in->n_own_part + in->n_part + in->n_rank;
        if (step->kind == STEP_KIND_HALO) {
            struct memory_payloads r = memory_plan_payloads(plan, in->job, in->program, step, PROGRAM_HOP_ALL);
            const struct halo_route_totals *halo = memory_plan_halo(plan, step->halo->direction, PROGRAM_HOP_ALL);
            n += 4 * n_pair + halo->sent.n_row * r.n_row_bytes / MEMORY_PACK_BYTES;
        }
    }
    return n;
}

/* What is copied aside and sealed, a step's numbers, and what is counted and traced. */
static void other_plan(const struct memory_plan_input *in, struct memory_plan *plan)
{
    int64_t sealed = in->seals ? (int64_t)TRANSPORT_SEAL_BYTES : 0;
    int64_t on_host = sealed + aside_bytes(in) + trace_bytes(&plan->trace) + traffic_bytes(in->program, in->n_rank);
    plan->bytes[MEMORY_OTHER] = memory_plan_put(plan, MEMORY_SITE_HOST, MEMORY_OTHER, on_host) +
                                memory_plan_put(plan, MEMORY_SITE_PINNED, MEMORY_OTHER,
                                                sizeof(struct trainer_shared)) +
                                (int64_t)sizeof(struct device_now);
}

/* Steps that are recomputed, stored and fetched come later: there are a few for each op at most. */
static struct trace_limits trace_plan(const struct memory_plan_input *in, const struct memory_plan *plan)
{
    const struct step_list *train = &plan->steps.phase[STEP_PHASE_TRAIN],
                           *evaluate = &plan->steps.phase[STEP_PHASE_EVALUATE];
    int64_t n_again = 4 * (int64_t)in->program->n_op * (in->ops->unified ? 1 : 2 + OP_N_SAVED);
    if (!in->job->output.trace) {
        return (struct trace_limits){0};
    }
    struct trace_limits limits = {.n_step = smaller(train->n_step + evaluate->n_step + n_again, TRACE_STEPS_MOST),
                                  .n_event = trace_events(in, plan, train) + trace_events(in, plan, evaluate) +
                                             n_again * (2 + 2 * in->n_own_part)};
    limits.n_event = larger(smaller(limits.n_event, TRACE_EVENTS_MOST), limits.n_step);
    return limits;
}

bool memory_plan_recomputes(const struct memory_plan *plan, int op)
{
    const struct step_list *train = &plan->steps.phase[STEP_PHASE_TRAIN];
    for (int s = 0; s < train->n_step; s++) {
        if (train->step[s].recomputed && train->step[s].op == op) {
            return true;
        }
    }
    return false;
}

/* The arena is one piece: what the largest workspace has of payloads, and the rest. */
static void arena_share(const struct program *program, struct memory_plan *plan)
{
    int64_t payloads = memory_workspace_bytes(&plan->loss_workspace) - plan->loss_workspace.n_scratch;
    for (int i = 0; i < program->n_op; i++) {
        for (int k = 0; k < STEP_WORKSPACE_N; k++) {
            payloads = larger(payloads,
                              memory_workspace_bytes(&plan->workspace[i][k]) - plan->workspace[i][k].n_scratch);
        }
    }
    plan->bytes[MEMORY_PAYLOADS] = payloads + plan->payloads.n_kept_bytes;
    plan->bytes[MEMORY_ACTIVATIONS] = plan->arena.n_bytes - payloads;
    plan->bytes[MEMORY_ACTIVATIONS] += memory_plan_put(plan, MEMORY_SITE_PINNED, MEMORY_ACTIVATIONS,
                                                       plan->homes.n_bytes);
}

/* Where all memory is the host's, nothing is gained. */
static enum job_offload offloads(const struct memory_plan_input *in)
{
    bool may = !in->ops->unified && !in->program->forward_only;
    return may ? (enum job_offload)in->job->memory.offload : JOB_OFFLOAD_NEVER;
}

void memory_plan_build(const struct memory_plan_input *in, struct memory_plan *out)
{
    *out = (struct memory_plan){.apart = !in->ops->unified};
    rows_lay_out(in, out);
    chains_lay_out(in, out);
    memory_plan_halos(in, out);
    step_lists_lower(in->program, &out->steps);
    out->payloads.sample = memory_plan_sample(in);
    memory_plan_merge(in, out);
    workspaces_plan(in, out);
    memory_plan_structure(in, out);
    memory_plan_buffers(in, out);
    out->bytes[MEMORY_PARAMETERS] = parameters_bytes(in, out);
    memory_plan_traffic_sums(in, out);
    out->trace = trace_plan(in, out);
    other_plan(in, out);
    enum job_recompute how = in->program->forward_only ? JOB_RECOMPUTE_NEVER
                                                       : (enum job_recompute)in->job->memory.recompute;
    memory_plan_device(in, out);
    int64_t left = memory_plan_budget(in) - memory_plan_total(out);
    recompute_plan(in->program, how, left, out);
    if (!memory_plan_spills(in->job)) {
        offload_plan(in->program, offloads(in), left, out);
        memory_plan_epilogues(in, out);
        arena_share(in->program, out);
        return;
    }
    if (how == JOB_RECOMPUTE_AUTO && out->arena.n_bytes > left) {
        recompute_plan(in->program, JOB_RECOMPUTE_NEVER, left,
                       out); /* what does not fit is spilled anyway: recomputing saves nothing */
    }
    memory_plan_spill(in, out);
}

void memory_plan_release(struct memory_plan *plan)
{
    stale_list_release(&plan->payloads.stale);
    feedback_list_release(&plan->payloads.feedback);
    free(plan->payloads.halo);
    free(plan->rows.begin);
    free(plan->rows.row_begin_hop);
    free(plan->arena.at);
    free(plan->arena.window_at);
    free(plan->workspace);
    free(plan->wire.traffic);
    free(plan->wire.stage);
    step_lists_release(&plan->steps);
    free(plan->arena.ending);
    free(plan->homes.home);
    *plan = (struct memory_plan){0};
}
