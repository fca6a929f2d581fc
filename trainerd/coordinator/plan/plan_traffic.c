#include "trainerd/coordinator/plan/plan_traffic.h"

#include "trainerd/base/figure.h"

#include <inttypes.h>

#define PRINT_WORKERS_MOST 8
#define PAIR_NUMBERS_MOST 4096 /* pairs × layers in JSON: programs that show a result read it as a whole */

/* Planned numbers, or counted ones of so many epochs and evaluations. */
struct source {
    const struct program *program;
    const struct plan *plan;
    const struct plan_measured *measured; /* NULL: planned */
};

/* The place of one number: what worker `to` received from worker `from`. */
struct place {
    int row;
    int32_t to, from;
};

static double number_at(const struct source *s, const struct place *at)
{
    size_t i = (size_t)at->row * (size_t)s->plan->n_worker + (size_t)at->from;
    if (s->measured == NULL) {
        return (double)s->plan->worker[at->to].traffic[i];
    }
    size_t n = (size_t)traffic_n_row(s->plan->n_layer) * (size_t)s->plan->n_worker;
    return (double)s->measured->table[(size_t)at->to * n + i];
}

/* Of all pairs. */
static double row_sum(const struct source *s, int row)
{
    double sum = 0.0;
    for (int32_t to = 0; to < s->plan->n_worker; to++) {
        for (int32_t from = 0; from < s->plan->n_worker; from++) {
            sum += number_at(s, &(struct place){row, to, from});
        }
    }
    return sum;
}

/* Per epoch, or per evaluation; whole where it is. */
static json_t *number_json(const struct source *s, int row, double bytes)
{
    if (s->measured == NULL) {
        return json_integer((json_int_t)bytes);
    }
    uint64_t n = traffic_row_evaluates(s->plan->n_layer, row) ? s->measured->head.n_evaluate
                                                              : s->measured->head.n_train;
    if (n == 0) {
        return json_null();
    }
    uint64_t all = (uint64_t)bytes;
    return all % n == 0 ? json_integer((json_int_t)(all / n)) : json_real(bytes / (double)n);
}

static const char *const what_names[TRAFFIC_N_WHAT] = {"forward", "backward", "evaluate"};

static json_t *layers_json(const struct source *s)
{
    json_t *all = json_array();
    for (int i = 0; i < s->program->n_op; i++) {
        int layer = program_layer(s->program, i);
        if (layer < 0) {
            continue;
        }
        json_t *one = json_pack("{s:i, s:s}", "op", i, "aggregate",
                                aggregate_defs[s->program->op[i].aggregate]->name);
        for (int what = 0; what < TRAFFIC_N_WHAT; what++) {
            int row = traffic_row(layer, (enum traffic_what)what);
            json_object_set_new(one, what_names[what], number_json(s, row, row_sum(s, row)));
        }
        json_array_append_new(all, one);
    }
    return all;
}

/* One pair's numbers, an array by layer each. */
static json_t *pair_json(const struct source *s, int32_t to, int32_t from)
{
    int n_layer = s->plan->n_layer;
    json_t *one = json_pack("{s:i, s:i}", "to", (int)to, "from", (int)from);
    for (int what = 0; what < TRAFFIC_N_WHAT; what++) {
        json_t *layers = json_array();
        for (int layer = 0; layer < n_layer; layer++) {
            const struct place at = {traffic_row(layer, (enum traffic_what)what), to, from};
            json_array_append_new(layers, number_json(s, at.row, number_at(s, &at)));
        }
        json_object_set_new(one, what_names[what], layers);
    }
    for (int evaluates = 0; evaluates < 2; evaluates++) {
        const struct place at = {traffic_row_sums(n_layer, evaluates), to, from};
        json_object_set_new(one, evaluates ? "reduce_evaluate" : "reduce", number_json(s, at.row, number_at(s, &at)));
    }
    return one;
}

static json_t *source_json(const struct source *s)
{
    int64_t n_worker = s->plan->n_worker;
    int n_layer = s->plan->n_layer, sums = traffic_row_sums(n_layer, 0), sums_evaluate = traffic_row_sums(n_layer, 1);
    json_t *all = json_pack("{s:o, s:o, s:o}", "layers", layers_json(s), "reduce",
                            number_json(s, sums, row_sum(s, sums)), "reduce_evaluate",
                            number_json(s, sums_evaluate, row_sum(s, sums_evaluate)));
    if (n_worker * n_worker * n_layer <= PAIR_NUMBERS_MOST) {
        json_t *pairs = json_array();
        for (int32_t to = 0; to < n_worker; to++) {
            for (int32_t from = 0; from < n_worker; from++) {
                if (to != from) {
                    json_array_append_new(pairs, pair_json(s, to, from));
                }
            }
        }
        json_object_set_new(all, "pairs", pairs);
    }
    return all;
}

json_t *plan_traffic_json(const struct program *program, const struct plan *plan)
{
    return source_json(&(struct source){.program = program, .plan = plan});
}

json_t *plan_traffic_compared(const struct program *program, const struct plan *plan,
                              const struct plan_measured *measured)
{
    const struct source counted = {.program = program, .plan = plan, .measured = measured};
    return json_pack("{s:I, s:I, s:o, s:o}", "epochs", (json_int_t)measured->head.n_train, "evaluations",
                     (json_int_t)measured->head.n_evaluate, "planned", plan_traffic_json(program, plan), "measured",
                     source_json(&counted));
}

/* --- to people --- */

/* From each worker to each, in training; all layers and sums. */
static void pairs_print(const struct source *s, FILE *file)
{
    int32_t n_worker = s->plan->n_worker;
    fprintf(file, "\n%6s", "worker");
    for (int32_t from = 0; from < n_worker; from++) {
        fprintf(file, "    from %" PRId32, from);
    }
    fputc('\n', file);
    for (int32_t to = 0; to < n_worker; to++) {
        fprintf(file, "%6" PRId32, to);
        for (int32_t from = 0; from < n_worker; from++) {
            double sum = 0.0;
            for (int row = 0; row < traffic_n_row(s->plan->n_layer); row++) {
                sum += traffic_row_evaluates(s->plan->n_layer, row) ? 0.0
                                                                    : number_at(s, &(struct place){row, to, from});
            }
            fprintf(file, " %9s", to == from ? "-" : figure_bytes(sum).text);
        }
        fputc('\n', file);
    }
}

void plan_traffic_print(const struct plan_input *in, const struct plan *plan, FILE *file)
{
    const struct source s = {.program = in->program, .plan = plan};
    fprintf(file, "\n%6s %-12s %12s %12s %12s\n", "op", "payloads", "forward", "backward", "evaluation");
    for (int i = 0; i < in->program->n_op; i++) {
        int layer = program_layer(in->program, i);
        if (layer < 0) {
            continue;
        }
        fprintf(file, "%6d %-12s", i, aggregate_defs[in->program->op[i].aggregate]->name);
        for (int what = 0; what < TRAFFIC_N_WHAT; what++) {
            fprintf(file, " %12s", figure_bytes(row_sum(&s, traffic_row(layer, (enum traffic_what)what))).text);
        }
        fputc('\n', file);
    }
    fprintf(file, "%6s %-12s %12s %12s %12s\n", "", "sums", "",
            figure_bytes(row_sum(&s, traffic_row_sums(plan->n_layer, 0))).text,
            figure_bytes(row_sum(&s, traffic_row_sums(plan->n_layer, 1))).text);
    if (plan->n_worker > 1 && plan->n_worker <= PRINT_WORKERS_MOST) {
        pairs_print(&s, file);
    }
}

/* --- other exchanges --- */

/* "cover = true", as in the job file. */
static void exact_text(const struct plan_exact *exact, char *out, size_t n_bytes)
{
    size_t n = (size_t)snprintf(out, n_bytes, exact->plain ? "plain = true" : "");
#define X(key)                                                                                                       \
    if (!exact->plain && n < n_bytes) {                                                                              \
        n += (size_t)snprintf(out + n, n_bytes - n, "%s%s = %s", n > 0 ? ", " : "", #key,                            \
                              exact->key ? "true" : "false");                                                        \
    }
    PLAN_SWITCH_LIST(X)
#undef X
}

void plan_exact_print(const struct plan_input *in, const struct plan *plan, FILE *file)
{
    bool any = false;
    fprintf(file, "\n%-38s %11s %21s\n", "exchange, exact", "per epoch", "more per evaluation");
    for (int i = 0; i < PLAN_N_EXACT; i++) {
        const struct plan_exact *exact = &in->exact[i];
        char text[128];
        exact_text(exact, text, sizeof text);
        fprintf(file, "  %-36s %11s %21s%s%s\n", text, figure_bytes(exact->n_wire).text,
                figure_bytes(exact->n_wire_evaluate).text, exact->is_cheapest ? "  cheapest" : "",
                exact->is_in_use ? "  this job" : "");
        any = any || exact->is_in_use;
    }
    if (!any) {
        fprintf(file, "  %-36s %11s %21s\n", "this job", figure_bytes(plan->n_wire).text,
                figure_bytes(plan->n_wire_evaluate).text);
    }
}

json_t *plan_exact_json(const struct plan_exact *exact)
{
    json_t *all = json_array();
    for (int i = 0; i < PLAN_N_EXACT; i++) {
        json_t *exchange = json_pack("{s:b}", "plain", exact[i].plain);
#define X(key) json_object_set_new(exchange, #key, json_boolean(exact[i].key));
        PLAN_SWITCH_LIST(X)
#undef X
        json_array_append_new(all, json_pack("{s:o, s:I, s:I, s:b, s:b}", "exchange", exchange, "bytes_per_epoch",
                                             (json_int_t)exact[i].n_wire, "bytes_per_evaluation",
                                             (json_int_t)exact[i].n_wire_evaluate, "cheapest", exact[i].is_cheapest,
                                             "in_use", exact[i].is_in_use));
    }
    return all;
}
