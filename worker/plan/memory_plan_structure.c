/* What of a plan comes from the parts themselves: their bytes and features, and what is made of their blocks. */
#include "protocol/base/amounts.h"
#include "worker/plan/memory_plan.h"
#include "worker/rows/part_hop.h"
#include "worker/rows/part_remap.h"

int64_t memory_plan_features(const struct memory_plan_input *in, int32_t i)
{
    const struct memory_plan_part *own = &in->own[i];
    int64_t width = in->program->value[0].width, n_row = own->n_own + own->n_halo;
    int64_t n_value = own->n_feature_value + own->n_halo_value + own->n_embedded;
    return in->sparse_features ? (n_row + 1) * 8 + n_value * 8 : n_row * width * 4;
}

int64_t memory_plan_expanded(const struct memory_plan_input *in, int32_t i)
{
    const struct value *features = &in->program->value[0];
    int64_t n_row = in->own[i].n_own + in->own[i].n_halo;
    return in->sparse_features && !features->is_sparse ? n_row * features->width * (int64_t)sizeof(float) : 0;
}

static int n_direction(const struct memory_plan_part *own)
{
    return own->halo->symmetric ? 1 : PART_DIRECTION_N;
}

/* Directions that some step walks: forward goes over in-edges alone. */
static int n_walked(const struct memory_plan_input *in, const struct memory_plan_part *own)
{
    return in->program->forward_only ? 1 : n_direction(own);
}

bool memory_plan_has_pair(const struct memory_plan_input *in, const struct memory_plan_part *own,
                          enum part_direction d, bool local)
{
    const struct part_pairs *pairs = &own->halo->pairs[d];
    for (int32_t k = 0; k < pairs->n_pair; k++) {
        bool near = in->rank_of_part[pairs->pair[k].part] == in->rank && !memory_plan_spills(in->job) &&
                    !program_is_lossy(in->program);
        if (k != pairs->own && near == local) {
            return true;
        }
    }
    return false;
}

int64_t memory_plan_remap(const struct memory_plan_input *in, const struct memory_plan_part *own,
                          enum part_direction d)
{
    bool shares = in->dedup != NULL && !in->dedup->scatters, in_place = false;
    for (int i = 0; i < in->program->n_op; i++) {
        const struct op *op = &in->program->op[i];
        in_place = in_place || (op->kind == OP_KIND_AGGREGATE && !aggregate_returns(in->program, op->aggregate));
    }
    bool wanted = (in_place && memory_plan_has_pair(in, own, d, true)) ||
                  (shares && memory_plan_has_pair(in, own, d, false));
    return wanted && part_remap_copies(in->program, d)
               ? part_remap_bytes(&own->halo->pairs[d], shares && in->dedup->covers, own->weighted)
               : 0;
}

/* What lies in files when parts are spilled: the encoded parts, and what is made of them edge by edge or value by
 * value. */
static void parts_plan(const struct memory_plan_input *in, struct memory_plan *plan)
{
    for (int32_t i = 0; i < in->n_own_part; i++) {
        const struct memory_plan_part *own = &in->own[i];
        int64_t features = memory_plan_features(in, i);
        plan->bytes[MEMORY_FEATURES] += memory_plan_put(plan, MEMORY_SITE_LENT, MEMORY_FEATURES, features) +
                                        memory_plan_expanded(in, i);
        plan->bytes[MEMORY_STRUCTURE] += memory_plan_put(plan, MEMORY_SITE_LENT, MEMORY_STRUCTURE,
                                                         own->n_bytes - features);
        for (int d = 0; d < n_walked(in, own); d++) {
            int64_t remapped = memory_plan_remap(in, own, (enum part_direction)d);
            plan->bytes[MEMORY_STRUCTURE] += memory_plan_put(plan, MEMORY_SITE_LENT, MEMORY_STRUCTURE, remapped);
        }
    }
}

static void copy_add(const struct part_hop_sizes *sizes, int64_t *copy_out, int64_t *places_out)
{
    *places_out += part_pairs_bytes(sizes->n_pair, 0);
    *copy_out += part_hop_copy_bytes(sizes);
}

/* What training walks of an own part's blocks at one hop, besides the blocks themselves; merged: transposed ones are
 * not walked; *copy_out: edges picked out; *places_out: bytes of where the blocks of these lie, to be added. */
static int64_t hop_bytes(const struct memory_plan_input *in, const struct memory_plan_part *own, int32_t hop,
                         bool merged, int64_t *copy_out, int64_t *places_out)
{
    const struct part_halo *halo = own->halo;
    int64_t n_bytes = 0, n_target = memory_plan_rows_own(own, hop);
    int32_t before = program_hop_before(hop);
    *copy_out = *places_out = 0;
    bool walked = part_hop_used(in->program, PART_DIRECTION_IN, hop), covers = in->dedup != NULL && in->dedup->covers;
    if (walked) {
        n_bytes += (int64_t)DEVICE_BYTES(in->ops, BLOCKS, halo->pairs[PART_DIRECTION_IN].n_pair, n_target,
                                         halo->n_edge_hop[PART_DIRECTION_IN][hop]);
    }
    if (walked && covers && part_hop_travels(in->program, PART_DIRECTION_IN, hop)) {
        const struct part_rows listed = halo_rows_out(halo, HALO_DIRECTION_OUT, hop);
        const struct part_hop_sizes sizes = {.n_pair = listed.pairs->n_pair,
                                             .n_edge = halo->n_edge_hop[PART_DIRECTION_IN][hop],
                                             .n_row = n_target,
                                             .n_listed = part_rows_all(&listed),
                                             .weighted = own->weighted};
        copy_add(&sizes, copy_out, places_out);
    }
    if (!merged && part_hop_used(in->program, PART_DIRECTION_OUT, hop)) {
        const struct part_rows listed = halo_rows_out(halo, HALO_DIRECTION_IN, before);
        struct part_hop_sizes sizes = {.n_pair = listed.pairs->n_pair,
                                       .n_edge = part_hop_edges(in->program, own->implied_loops,
                                                                halo->n_edge_hop[PART_DIRECTION_OUT][hop], n_target),
                                       .n_row = memory_plan_rows_own(own, before),
                                       .n_listed = part_rows_all(&listed),
                                       .typed = in->program->n_relation > 0,
                                       .weighted = own->weighted || in->program->n_relation > 0};
        n_bytes += (int64_t)DEVICE_BYTES(in->ops, BLOCKS, sizes.n_pair, sizes.n_row, sizes.n_edge);
        copy_add(&sizes, copy_out, places_out);
    }
    return n_bytes;
}

int64_t memory_plan_copies(const struct memory_plan_input *in, int32_t i, int64_t *most_out)
{
    int64_t sum = 0, copy, places;
    *most_out = 0;
    for (int32_t hop = 0; hop < in->own[i].halo->n_hop; hop++) {
        hop_bytes(in, &in->own[i], hop, false, &copy, &places);
        *most_out = larger(*most_out, copy);
        sum += copy;
    }
    return sum;
}

/* Scales of own rows, and of payload rows where some come from other ranks; places of blocks, and the device's own
 * schedules of them. */
static int64_t blocks_bytes(const struct memory_plan_input *in, const struct memory_plan_part *own, bool scaled,
                            struct memory_plan *plan)
{
    int64_t n_scale = own->n_own, n_bytes = 0;
    for (int d = 0; d < n_walked(in, own); d++) {
        const struct part_pairs *pairs = &own->halo->pairs[d];
        const struct part_rows received = part_halo_received(own->halo, (enum part_direction)d, PROGRAM_HOP_ALL);
        bool as_they_are = in->dedup == NULL || in->dedup->scatters;
        bool travel = as_they_are && memory_plan_has_pair(in, own, (enum part_direction)d, false),
             stored = own->n_halo > 0 && d == PART_DIRECTION_IN;
        n_scale += travel || stored ? part_rows_all(&received) : 0;
        int64_t places = part_pairs_bytes(pairs->n_pair, own->halo->n_hop);
        n_bytes += memory_plan_put(plan, MEMORY_SITE_HOST, MEMORY_STRUCTURE, places);
        n_bytes += (int64_t)DEVICE_BYTES(in->ops, BLOCKS, pairs->n_pair, own->n_own, own->n_edge);
    }
    int64_t scales = scaled ? n_scale * (int64_t)sizeof(float) : 0;
    return n_bytes + memory_plan_put(plan, MEMORY_SITE_LENT, MEMORY_STRUCTURE, scales);
}

/* Places of an own part's payloads in the spill. */
static int64_t places_bytes(const struct memory_plan_input *in, const struct memory_plan_part *own)
{
    return memory_plan_spills(in->job) ? halo_n_pair(own->halo) * HALO_DIRECTION_N * (int64_t)sizeof(int64_t) : 0;
}

/* Sums that own parts make for others: their rows' ends, edges and weights. */
static int64_t sums_bytes(const struct memory_plan_input *in, enum part_direction d, int32_t hop)
{
    int64_t n_bytes = 0, each = (int64_t)(sizeof(uint32_t) + (in->own[0].weighted ? sizeof(float) : 0));
    for (int32_t i = 0; in->dedup->covers && i < in->n_own_part; i++) {
        const struct part_sums *sums = part_sums_at(in->dedup, d, in->own[i].halo->part, hop);
        int64_t listed = sums->n_row * (int64_t)sizeof(uint32_t); /* counted among the rows that others take */
        n_bytes += (sums->n_row + PART_DEDUP_N_SIDE * (int64_t)in->n_rank) * (int64_t)sizeof(int64_t) +
                   sums->n_edge * each - listed;
    }
    return n_bytes;
}

/* Rows that own parts take from other ranks, each part's by itself. */
static int64_t received_rows(const struct memory_plan_input *in, enum part_direction d)
{
    int64_t n = 0;
    for (int32_t i = 0; i < in->n_own_part; i++) {
        const struct part_rows received = part_halo_received(in->own[i].halo, d, PROGRAM_HOP_ALL);
        for (int32_t k = 0; k < received.pairs->n_pair; k++) {
            n += in->rank_of_part[received.pairs->pair[k].part] != in->rank ? part_rows_at(&received, k) : 0;
        }
    }
    return n;
}

/* Deduplicated rows of which each part picks its own: which rows others take, and where in what came each part's
 * are; of a sample likewise, with its counts and places (sample_dedup.h). */
static int64_t scatter_bytes(const struct memory_plan_input *in, struct memory_plan *plan)
{
    int64_t counts = part_dedup_bytes(in->n_part, in->n_rank, plan->n_hop, in->own[0].halo->symmetric), n_bytes = 0,
            sent = 0;
    const struct halo_route_totals *in_edges = memory_plan_halo(plan, HALO_DIRECTION_IN, PROGRAM_HOP_ALL);
    const int64_t each = sizeof(uint32_t);
    for (int d = 0; d < n_direction(&in->own[0]); d++) {
        enum halo_direction direction = d == PART_DIRECTION_IN ? HALO_DIRECTION_IN : HALO_DIRECTION_OUT;
        sent += memory_plan_halo(plan, direction, PROGRAM_HOP_ALL)->sent.n_row * each;
        n_bytes += received_rows(in, (enum part_direction)d) * each;
    }
    if (in->program->lossy.samples) {
        n_bytes += (in_edges->sent.n_row + received_rows(in, PART_DIRECTION_IN)) * each;
        counts += part_dedup_bytes(in->n_part, in->n_rank, plan->n_hop, true) + in_edges->received.most_row * each;
    }
    return memory_plan_put(plan, MEMORY_SITE_HOST, MEMORY_STRUCTURE, counts) +
           memory_plan_put(plan, MEMORY_SITE_LENT, MEMORY_STRUCTURE, sent) +
           memory_plan_put(plan, MEMORY_SITE_PINNED, MEMORY_STRUCTURE, n_bytes);
}

/* One direction's list of rows that own parts share, or each hop's: the node ids and scales of those that come, and
 * with the lists lent, which own ones others take. */
static int64_t lists_bytes(const struct memory_plan_input *in, struct memory_plan *plan, enum part_direction d,
                           bool scaled)
{
    enum halo_direction direction = d == PART_DIRECTION_IN ? HALO_DIRECTION_IN : HALO_DIRECTION_OUT;
    bool mirrored = d == PART_DIRECTION_OUT && in->own[0].halo->symmetric, covers = in->dedup->covers;
    uint32_t hops = covers ? memory_plan_hops(in->program, d, plan->n_hop) : 0;
    int64_t n_bytes = 0, lent = 0;
    for (int32_t hop = 0; hop <= plan->n_hop; hop++) {
        if (hop < plan->n_hop ? (hops >> hop & 1) != 0 : !mirrored) {
            const struct halo_route_totals *list = memory_plan_halo(plan, direction, hop);
            lent += list->sent.n_row * (int64_t)sizeof(uint32_t);
            n_bytes += list->received.n_row * (int64_t)(sizeof(uint32_t) + (scaled ? sizeof(float) : 0));
            n_bytes += sums_bytes(in, d, hop);
        }
    }
    return memory_plan_put(plan, MEMORY_SITE_LENT, MEMORY_STRUCTURE, lent) +
           memory_plan_put(plan, MEMORY_SITE_PINNED, MEMORY_STRUCTURE, n_bytes);
}

/* All of them, and how many rows each has. */
static int64_t shared_bytes(const struct memory_plan_input *in, struct memory_plan *plan, bool scaled)
{
    if (in->dedup == NULL) {
        return 0;
    }
    if (in->dedup->scatters) {
        return scatter_bytes(in, plan);
    }
    bool mirrors = part_dedup_mirrors(in->own[0].halo->symmetric, in->dedup->covers, plan->n_hop);
    int64_t counts = part_dedup_bytes(in->n_part, in->n_rank, plan->n_hop, mirrors), n_bytes = 0;
    counts += in->dedup->covers ? part_sums_bytes(in->n_part, plan->n_hop, mirrors) : 0;
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        n_bytes += lists_bytes(in, plan, (enum part_direction)d, scaled);
    }
    return memory_plan_put(plan, MEMORY_SITE_HOST, MEMORY_STRUCTURE, counts) + n_bytes;
}

/* Of sparse features by column, for the linear maps that read them: of own rows, of halo rows, too. *host_out: bytes
 * of the host while the larger of the two is made. */
static int64_t features_bytes(const struct memory_plan_input *in, const struct memory_plan_part *own,
                              int64_t *host_out)
{
    const struct program *program = in->program;
    int64_t n_col = program_n_shared(program), n_bytes = 0;
    *host_out = 0;
    bool both = memory_plan_maps_own(in->job, program, in->n_rank) && program_maps_sparse(program, PROGRAM_HOP_HALO);
    if (both || program_maps_sparse(program, PROGRAM_HOP_ALL)) {
        n_bytes += (int64_t)DEVICE_BYTES(in->ops, CSR, own->n_own, n_col, own->n_feature_value);
        *host_out = (int64_t)DEVICE_BYTES(in->ops, CSR_HOST, own->n_own, n_col, own->n_feature_value);
    }
    if (program_maps_sparse(program, PROGRAM_HOP_HALO)) {
        int64_t n_row = own->n_own + own->n_halo, n_value = own->n_feature_value + own->n_halo_value;
        n_bytes += (int64_t)DEVICE_BYTES(in->ops, CSR, n_row, n_col, n_value);
        *host_out = larger(*host_out, (int64_t)DEVICE_BYTES(in->ops, CSR_HOST, n_row, n_col, n_value));
    }
    return n_bytes;
}

int64_t memory_plan_csr_host(const struct memory_plan_input *in)
{
    int64_t most = 0;
    for (int32_t i = 0; in->sparse_features && in->program->value[0].is_sparse && i < in->n_own_part; i++) {
        int64_t one;
        features_bytes(in, &in->own[i], &one);
        most = larger(most, one);
    }
    return most;
}

/* Structure of own part i: what is made of its blocks. */
static int64_t part_bytes(const struct memory_plan_input *in, int32_t i, bool scaled, struct memory_plan *plan)
{
    const struct memory_plan_part *own = &in->own[i];
    bool spills = memory_plan_spills(in->job);
    int64_t n_bytes = memory_plan_stored_schedules(in, own) + blocks_bytes(in, own, scaled, plan);
    int64_t spilled = places_bytes(in, own), copy, places;
    n_bytes += memory_plan_put(plan, MEMORY_SITE_HOST, MEMORY_STRUCTURE, spilled);
    if (in->program->lossy.samples) {
        int64_t lists = (halo_n_received(own->halo) + halo_n_sent(own->halo)) * (int64_t)sizeof(uint32_t),
                counts = halo_n_drawn(own->halo) * (int64_t)sizeof(uint32_t);
        n_bytes += memory_plan_put(plan, MEMORY_SITE_PINNED, MEMORY_STRUCTURE, lists) +
                   memory_plan_put(plan, MEMORY_SITE_HOST, MEMORY_STRUCTURE, counts);
    }
    for (int32_t hop = 0; hop < own->halo->n_hop; hop++) {
        n_bytes += hop_bytes(in, own, hop, (plan->merged.alone >> hop & 1) != 0, &copy, &places);
        n_bytes += memory_plan_put(plan, MEMORY_SITE_HOST, MEMORY_STRUCTURE, places) +
                   memory_plan_put(plan, MEMORY_SITE_LENT, MEMORY_STRUCTURE, spills ? 0 : copy);
    }
    return n_bytes;
}

/* The most of own part i's blocks with the parts that it shares edges with. Training adds loops to blocks of a hop,
 * which else have fewer edges. */
static void library_most(const struct memory_plan_input *in, const struct device_sums *sums, int32_t i,
                         struct device_sum_sizes *most_io)
{
    const struct memory_plan_part *own = &in->own[i];
    for (int d = 0; d < n_walked(in, own); d++) {
        const struct part_pairs *pairs = &own->halo->pairs[d];
        for (int32_t k = 0; k < pairs->n_pair; k++) {
            int64_t n_row = part_pair_rows(pairs, k), n_edge = part_pair_edges(pairs, k);
            bool adds_loops = k == pairs->own && own->implied_loops && own->halo->n_hop > 0;
            n_edge += adds_loops ? own->n_own : 0;
            most_io->n_row = larger(most_io->n_row, n_row);
            most_io->n_edge = larger(most_io->n_edge, n_edge);
            most_io->n_listed = larger(most_io->n_listed, k != pairs->own ? n_row : 0);
            most_io->n_anywhere = larger(most_io->n_anywhere, pairs->n_pair > 1 || own->halo->n_hop > 0 ? n_edge : 0);
            most_io->n_col = larger(most_io->n_col, k != pairs->own ? part_pair_cols(pairs, k) : 0);
            most_io->n_unweighted = larger(most_io->n_unweighted, own->weighted ? 0 : n_edge);
            for (int w = 0; w < sums->n_width; w++) {
                size_t n_buffer = in->ops->sums_buffer(in->device, sums->n_node, n_row, n_edge, sums->width[w]);
                most_io->n_buffer = larger(most_io->n_buffer, (int64_t)n_buffer);
            }
        }
    }
}

/* What sums over neighbours by a library take (model.kernel). */
static int64_t library_bytes(const struct memory_plan_input *in, struct memory_plan *plan)
{
    struct device_sums sums;
    if (in->job->model.kernel == JOB_KERNEL_OWN) {
        return 0;
    }
    program_sums(in->program, in->n_node, &sums);
    for (int32_t i = 0; i < in->n_own_part; i++) {
        library_most(in, &sums, i, &plan->sums);
    }
    for (int t = 0; t < HALO_DIRECTION_N; t++) { /* what comes for several parts at once */
        const struct halo_route_totals *list = memory_plan_halo(plan, (enum halo_direction)t, PROGRAM_HOP_ALL);
        plan->sums.n_col = larger(plan->sums.n_col, list->received.most_row);
    }
    return (int64_t)in->ops->sums_bytes(&sums, &plan->sums);
}

/* Structure: the encoded parts without their features, and what is made of their blocks. */
void memory_plan_structure(const struct memory_plan_input *in, struct memory_plan *plan)
{
    const struct program *program = in->program;
    bool scaled = false;
    for (int i = 0; i < program->n_op; i++) {
        bool aggregates = program->op[i].kind == OP_KIND_AGGREGATE;
        scaled = scaled || (aggregates && aggregate_defs[program->op[i].aggregate]->scale != NULL);
    }
    if (!memory_plan_spills(in->job)) {
        parts_plan(in, plan);
    }
    plan->bytes[MEMORY_STRUCTURE] +=
        memory_plan_merged(in, scaled, plan) + shared_bytes(in, plan, scaled) + library_bytes(in, plan) +
        memory_plan_put(plan, MEMORY_SITE_HOST, MEMORY_STRUCTURE, plan->payloads.n_route_bytes);
    for (int32_t i = 0; i < in->n_own_part; i++) {
        if (in->sparse_features && program->value[0].is_sparse) {
            int64_t on_host;
            plan->bytes[MEMORY_FEATURES] += features_bytes(in, &in->own[i], &on_host);
        }
        plan->bytes[MEMORY_STRUCTURE] += part_bytes(in, i, scaled, plan);
    }
}
