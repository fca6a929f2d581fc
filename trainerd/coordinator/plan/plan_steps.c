#include "trainerd/coordinator/plan/plan_steps.h"

#include "trainerd/base/figure.h"
#include "worker/plan/liveness.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- from a plan --- */

/* Of a fused chain its windows, at its first step; scratch of single steps lies in them. */
static int64_t step_workspace(const struct memory_plan *plan, const struct step *step, bool is_fused)
{
    const struct step_operand *windows = step_operand(step, OP_ROLE_WINDOWS);
    const struct step_operand *workspace = windows != NULL ? windows : step_operand(step, OP_ROLE_WORKSPACE);
    if (workspace == NULL || (is_fused && windows == NULL)) {
        return 0;
    }
    return memory_workspace_bytes(workspace->index < 0 ? &plan->loss_workspace
                                                       : &plan->workspace[workspace->index][workspace->k]);
}

void plan_steps_build(const struct memory_plan_input *in, const struct memory_plan *plan, struct plan_worker *out)
{
    int64_t *alive = memory_alloc((size_t)plan->steps.n_time, sizeof *alive);
    out->step = memory_alloc((size_t)plan->steps.n_time, sizeof *out->step);
    out->n_arena = plan->arena.n_bytes;
    liveness_load(in->program, plan, alive);
    const struct step_list *lists[] = {&plan->steps.phase[STEP_PHASE_STATIC], step_lists_timed(&plan->steps)};
    for (int i = 0; i < 2; i++) {
        const struct step_list *list = lists[i];
        bool is_static = i == 0, all = is_static || in->program->forward_only;
        int chain_begin = 0, chain_end = 0;
        for (int s = 0; s < list->n_step; s++) {
            const struct step *step = &list->step[s];
            bool is_fused = s < chain_end;
            chain_begin = is_fused ? chain_begin : s;
            chain_end = is_fused ? chain_end : s + step->n_chain;
            struct plan_step *one = &out->step[out->n_step];
            *one = (struct plan_step){.is_static = is_static,
                                      .evaluates = !is_static && in->program->forward_only,
                                      .is_fused = is_fused,
                                      .op = step->op,
                                      .n_row = step_work_rows(in, step, all),
                                      .n_alive = alive[step->time],
                                      .n_workspace = step_workspace(plan, step, is_fused),
                                      .n_received = step_work_received(in, plan, step, all),
                                      .work = step_work_count(in, plan, &list->step[chain_begin], step, all)};
            step_text(in->program, step, one->text, sizeof one->text);
            out->peak = one->n_alive > out->step[out->peak].n_alive ? out->n_step : out->peak;
            out->n_step++;
        }
    }
    free(alive);
}

/* --- to people and programs --- */

static void line_print(const struct plan_worker *worker, int s, int n_text, FILE *file)
{
    const struct plan_step *step = &worker->step[s];
    fprintf(file, "%6d %4s %c%-*s %12s %11s %11s %11s%s\n", s, step->op >= 0 ? figure_whole(step->op).text : "-",
            step->is_fused ? '+' : ' ', n_text, step->text, step->n_row > 0 ? figure_whole(step->n_row).text : "-",
            figure_bytes(step->n_alive).text, step->n_workspace > 0 ? figure_bytes(step->n_workspace).text : "-",
            step->n_received > 0 ? figure_bytes(step->n_received).text : "-", s == worker->peak ? "  <- peak" : "");
}

void plan_steps_print(const struct plan *plan, FILE *file)
{
    int32_t most = 0;
    for (int32_t rank = 1; rank < plan->n_worker; rank++) {
        most = plan->worker[rank].total > plan->worker[most].total ? rank : most;
    }
    const struct plan_worker *worker = &plan->worker[most];
    int n_text = 0;
    for (int s = 0; s < worker->n_step; s++) {
        int n = (int)strlen(worker->step[s].text);
        n_text = n > n_text ? n : n_text;
    }
    fprintf(file, "\nsteps of worker %" PRId32 ", which share an arena of %s (+ is fused with the step above it)\n",
            most, figure_bytes(worker->n_arena).text);
    fprintf(file, "%6s %4s  %-*s %12s %11s %11s %11s\n", "step", "op", n_text, "what", "rows", "alive", "workspace",
            "received");
    for (int s = 0; s < worker->n_step; s++) {
        if (s == 0 || worker->step[s].is_static != worker->step[s - 1].is_static) {
            fputs(worker->step[s].evaluates   ? "  the evaluation\n"
                  : worker->step[s].is_static ? "  before the first epoch\n"
                                              : "  every epoch\n",
                  file);
        }
        line_print(worker, s, n_text, file);
    }
}

json_t *plan_steps_json(const struct plan_worker *worker)
{
    json_t *all = json_array();
    for (int s = 0; s < worker->n_step; s++) {
        const struct plan_step *step = &worker->step[s];
        json_t *op = step->op >= 0 ? json_integer(step->op) : json_null();
        json_array_append_new(all, json_pack("{s:i, s:s, s:s, s:b, s:o, s:I, s:I, s:I, s:I, s:b}", "step", s, "phase",
                                             step->evaluates   ? "evaluate"
                                             : step->is_static ? "static"
                                                               : "train",
                                             "what", step->text, "fused", step->is_fused, "op", op, "rows",
                                             (json_int_t)step->n_row, "alive", (json_int_t)step->n_alive, "workspace",
                                             (json_int_t)step->n_workspace, "received", (json_int_t)step->n_received,
                                             "peak", s == worker->peak));
    }
    return all;
}
