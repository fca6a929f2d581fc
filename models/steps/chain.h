/* Fused chains: neighbouring row-local steps run together, one window of rows after another, so that the values
 * between them stay in a cache.
 *
 * A step is row-local if a row of its outputs needs only the same row of its inputs, and parameters; gradients of
 * parameters are sums over rows. A part's windows are distributed to chunks: chunk c of n has the windows c, c + n,
 * …; a chunk adds up its own gradients window by window, and chunks are added in their order. Windows and chunks
 * depend only on the program and on the part's rows: a step gives the same bits with any fused neighbours. Chunks of
 * several parts run at the same time, since a small part has few.
 */
#ifndef MODELS_CHAIN_H
#define MODELS_CHAIN_H

#include "models/steps/step.h"

#define CHAIN_N_STEP 24
#define CHAIN_N_TASK 16

/* Set n_chain of each step of a list, and give the first of each chain its windows: chains are as long as they can
 * be; a row-local step between others is one of its own. */
void chains_mark(const struct program *program, struct step_list *list);

/* Has a row-local op's scratch only rows of a window? A global op's is that of its sums over all rows. */
bool chain_takes_scratch(const struct program *program, const struct op *op);

struct chain_rows {
    int64_t n_window; /* rows of a window, a multiple of 16 */
    int n_chunk;      /* 1: gradients go where they belong at once */
};

struct chain_rows chain_rows(const struct program *program, const struct device_ops *ops, int64_t n_own);

/* Chunks that run at the same time, of one part or of several, where the own parts have n_row rows in all and n_chunk
 * chunks; most: of the part that has most. As many as take about the memory of half an array of all rows. */
int chain_tasks(const struct program *program, const struct device_ops *ops, int64_t n_row, int64_t n_chunk,
                const struct chain_rows *most);

/* Bytes that the chain which begins with this step takes (OP_ROLE_WINDOWS): n_task slots for windows, and behind them
 * the chunks' gradients, where a part has several (n_chunk). */
int64_t chain_windows_bytes(const struct program *program, const struct step *first, int n_task, int n_chunk,
                            int64_t n_slot_bytes);

/* Arrays of rows that a step may read or write: inputs, the output, their gradients. */
#define CHAIN_N_STAGE (CHAIN_N_STEP * (2 * OP_N_IN + 2))

/* An array of BF16 rows. Steps read and write a window of it as floats, which lie at `at` bytes of the slot's memory:
 * they are widened where the chain first reads them, and rounded to the array whenever a step has written them. Where
 * all steps take the rows as they are (is_direct) there is no stage: the numbers are the same. */
struct chain_stage {
    const struct step_operand *array;
    int64_t width, at;
};

/* One step of a chain. */
struct chain_link {
    const struct step *step;
    int64_t width[OP_ROLE_N]; /* numbers of a row, of arrays of rows; 0: others */
    bool is_bf16[OP_ROLE_N];
    int64_t window_at
        [OP_ROLE_N];      /* bytes into the slot's memory of an array that has rows of one window alone; -1: others */
    int stage[OP_ROLE_N]; /* of a BF16 array that has all rows; -1: none */
};

/* A step on one part. */
struct chain_call {
    struct op_call op;           /* on all rows of the part that it counts */
    int64_t n_grad_row[OP_N_IN]; /* of gradients that are overwritten: rows behind op.n become 0 */
};

struct chain_part {
    int32_t part; /* as call takes it */
    int64_t n_row;
    struct chain_rows rows;
    int first; /* its first chunk among those of all parts; filled in */
};

/* A chain on some parts at the same time, whose chunks are at most chain_tasks. */
struct chain {
    struct device *device;
    const struct program *program;
    char *windows; /* chain_windows_bytes */
    int64_t n_slot_bytes;
    int n_link;
    struct chain_link link[CHAIN_N_STEP];
    bool is_direct; /* filled in by chain_stages: arrays of BF16 rows are never floats, those of a window neither */
    int n_stage;
    struct chain_stage stage[CHAIN_N_STAGE];
    int n_part;
    struct chain_part part[CHAIN_N_TASK];
    /* A step on one of the parts; called by several threads. */
    void (*call)(const void *context, const struct step *step, int32_t part, struct chain_call *out);
    const void *context;
};

/* Does a device that takes BF16 rows as they are do so in this step? */
bool chain_takes_bf16(const struct program *program, const struct step *step);

/* Give BF16 arrays that have all rows their stages, unless it is direct: of windows of n_window rows at most, from
 * byte `begin` of the slot's memory on. Links are filled in but for their stages. */
void chain_stages(struct chain *chain, int64_t n_window, int64_t begin);

/* Bytes of the stages of the chain that begins with this step, of windows of n_window rows, if all its BF16 arrays
 * have them. */
int64_t chain_stages_bytes(const struct program *program, const struct step *first, int64_t n_window);

/* Run it. A part's bits do not depend on the others.
 *
 *   owns    borrows all; no allocation
 *   errors  of the device (device.h)
 */
void chain_run(struct chain *chain);

#endif
