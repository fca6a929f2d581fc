#include "models/steps/chain.h"
#include "tests/support/model/lowered.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const char *const models[] = {
    "kind = \"sage\"\nlayers = 3\nhidden = 16\ndropout = 0.5",
    "kind = \"gat\"\nlayers = 3\nhidden = 4\nheads = 2\nresidual = true",
    "kind = \"gin\"\nlayers = 3\nhidden = 16\nnorm = \"batch\"",
    "kind = \"gcnii\"\nlayers = 4\nhidden = 16",
    "kind = \"gcn\"\nlayers = 2\nhidden = 16\nlabel_input = true",
};

/* --- which steps --- */

Test(chain, every_row_local_step_is_in_one_chain_and_no_chain_could_be_longer)
{
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        struct lowered w;
        lowered_open(&w, models[m], 24);
        for (int phase = STEP_PHASE_TRAIN; phase < STEP_PHASE_N; phase++) {
            const struct step_list *list = &w.lists.phase[phase];
            int n_fused = 0;
            for (int s = 0; s < list->n_step; s += step_span(&list->step[s])) {
                const struct step *first = &list->step[s];
                bool dense = first->kind == STEP_KIND_FORWARD || first->kind == STEP_KIND_BACKWARD;
                cr_expect_eq(first->n_chain > 0, dense && op_is_row_local(&w.program, &w.program.op[first->op]));
                cr_expect_eq(step_operand(first, OP_ROLE_WINDOWS) != NULL, first->n_chain > 0);
                for (int k = 1; k < first->n_chain; k++) {
                    cr_expect_eq(first[k].n_chain, 0);
                    cr_expect_null(step_operand(&first[k], OP_ROLE_WINDOWS));
                }
                bool longer = s + first->n_chain < list->n_step && first[first->n_chain].n_chain > 0;
                cr_expect(first->n_chain == 0 || first->n_chain == CHAIN_N_STEP || !longer, "%s: step %d", models[m],
                          s);
                n_fused += first->n_chain > 1;
            }
            cr_expect_gt(n_fused, 0, "%s", models[m]);
        }
        lowered_close(&w);
    }
}

Test(chain, marking_a_list_again_changes_nothing)
{
    struct lowered w;
    lowered_open(&w, models[0], 24);
    struct step_list *list = &w.lists.phase[STEP_PHASE_TRAIN];
    struct step *before = calloc((size_t)list->n_step, sizeof *before);
    memcpy(before, list->step, (size_t)list->n_step * sizeof *before);
    chains_mark(&w.program, list);
    for (int s = 0; s < list->n_step; s++) {
        cr_expect_eq(list->step[s].n_chain, before[s].n_chain);
        cr_expect_eq(list->step[s].n_operand, before[s].n_operand);
    }
    free(before);
    lowered_close(&w);
}

/* --- windows and chunks --- */

Test(chain, windows_fit_the_cache_and_chunks_share_them_all)
{
    struct lowered w;
    lowered_open(&w, "kind = \"sage\"\nlayers = 3\nhidden = 256", 24);
    struct chain_rows rows = chain_rows(&w.program, &device_cpu, 100000);
    cr_expect_eq(rows.n_window * 256, device_cpu.n_window_float);
    cr_expect_eq(rows.n_chunk, device_cpu.n_chunk);
    cr_expect_eq(chain_rows(&w.program, &device_cpu, rows.n_window).n_chunk, 1);
    cr_expect_eq(chain_rows(&w.program, &device_cpu, rows.n_window + 1).n_chunk, 2);
    cr_expect_eq(chain_rows(&w.program, &device_cpu, 0).n_chunk, 1);
    lowered_close(&w);
}

/* Of any number of small parts as many chunks run together as there may be, if they take little beside all rows; of any
 * parts at least those of one. */
Test(chain, chunks_of_several_parts_run_together_while_they_take_little_memory)
{
    struct lowered w;
    lowered_open(&w, "kind = \"sage\"\nlayers = 3\nhidden = 256", 24);
    const struct chain_rows small = chain_rows(&w.program, &device_cpu, 97),
                            large = chain_rows(&w.program, &device_cpu, 100000);
    cr_expect_eq(small.n_chunk, 1);
    cr_expect_eq(chain_tasks(&w.program, &device_cpu, (int64_t)1024 * 97, 1024, &small), device_cpu.n_chunk);
    cr_expect_eq(chain_tasks(&w.program, &device_cpu, (int64_t)3 * 97, 3, &small), 3);
    cr_expect_lt(chain_tasks(&w.program, &device_cpu, (int64_t)9 * 97, 9, &small), 9,
                 "nine slots are more than rows");
    cr_expect_eq(chain_tasks(&w.program, &device_cpu, 100000, large.n_chunk, &large), large.n_chunk);
    lowered_close(&w);
}
