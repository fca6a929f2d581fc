/* The strict device's table: every operation is put off with a copy of its arguments, and is the cpu's when its turn
 * comes. */
#include "tests/support/device/strict_state.h"

/* Of an argument (kind, type, name): kind V is a value, S a struct that is given by its address and copied, D a struct
 * device_<type> that points at further structs, which are copied with it. */
#define FIELD_V(type, name) type name;
#define FIELD_S(type, name) type name;
#define FIELD_D(type, name) struct type##_copy name;
#define PARAM_V(type, name) , type name
#define PARAM_S(type, name) , const type *name
#define PARAM_D(type, name) , const struct device_##type *name
#define COPY_V(type, name) , name
#define COPY_S(type, name) , *name
#define COPY_D(type, name) , type##_copied(name)
#define PASS_V(type, name) , a->name
#define PASS_S(type, name) , &a->name
#define PASS_D(type, name) , type##_given(&a->name)
#define FIELD(kind, type, name) FIELD_##kind(type, name)
#define PARAM(kind, type, name) PARAM_##kind(type, name)
#define COPY(kind, type, name) COPY_##kind(type, name)
#define PASS(kind, type, name) PASS_##kind(type, name)

/* m applied to each of at most eight arguments */
#define EACH(m, ...) EACH_OF(__VA_ARGS__, E8, E7, E6, E5, E4, E3, E2, E1, 0)(m, __VA_ARGS__)
#define EACH_OF(a, b, c, d, e, f, g, h, n, ...) n
#define E1(m, a) m a
#define E2(m, a, ...) m a E1(m, __VA_ARGS__)
#define E3(m, a, ...) m a E2(m, __VA_ARGS__)
#define E4(m, a, ...) m a E3(m, __VA_ARGS__)
#define E5(m, a, ...) m a E4(m, __VA_ARGS__)
#define E6(m, a, ...) m a E5(m, __VA_ARGS__)
#define E7(m, a, ...) m a E6(m, __VA_ARGS__)
#define E8(m, a, ...) m a E7(m, __VA_ARGS__)

/* strict_<op>, and what it puts off */
#define DEFER(op, ...)                                                                                               \
    struct op##_args {                                                                                               \
        int unused;                                                                                                  \
        EACH(FIELD, __VA_ARGS__)                                                                                     \
    };                                                                                                               \
    static void op##_run(struct strict *s, void *args)                                                               \
    {                                                                                                                \
        struct op##_args *a = args;                                                                                  \
        s->cpu->products = s->base.products;                                                                         \
        cpu_##op(s->cpu EACH(PASS, __VA_ARGS__));                                                                    \
    }                                                                                                                \
    void strict_##op(struct device *device EACH(PARAM, __VA_ARGS__))                                                 \
    {                                                                                                                \
        struct op##_args args = {0 EACH(COPY, __VA_ARGS__)};                                                         \
        strict_defer(strict_of(device), DEVICE_LANE_COMPUTE, op##_run, &args, sizeof args);                          \
    }

struct attention_rows_copy {
    struct device_attention_rows rows;
    struct device_attention how;
    struct device_block block;
};

static struct attention_rows_copy attention_rows_copied(const struct device_attention_rows *rows)
{
    return (struct attention_rows_copy){*rows, *rows->how, *rows->block};
}

static const struct device_attention_rows *attention_rows_given(struct attention_rows_copy *copy)
{
    copy->rows.how = &copy->how;
    copy->rows.block = &copy->block;
    return &copy->rows;
}

/* clang-format off */
/* A description and its block, copied; and what is given on of the copies. */
#define BLOCK_COPY(name, type) \
    struct name##_copy { type how; struct device_block block; }; \
    static struct name##_copy name##_copied(const type *how) { return (struct name##_copy){*how, *how->block}; } \
    static const type *name##_given(struct name##_copy *copy) { copy->how.block = &copy->block; return &copy->how; }
BLOCK_COPY(relation, struct device_relation)
BLOCK_COPY(tile_edges, struct device_tile_edges)

DEFER(fill_zero, (V, void *, to), (V, size_t, n_bytes))
DEFER(linear, (S, struct device_linear, how), (V, float *, y))
DEFER(linear_backward_weight, (V, int64_t, n), (V, int64_t, f_in), (V, int64_t, f_out), (V, const float *, x),
      (V, const float *, grad_y), (V, void *, scratch), (V, bool, add), (V, float *, grad_w))
DEFER(column_sum, (S, struct device_column_sum, how), (V, float *, out))
DEFER(chunks_add, (V, int64_t, n_value), (V, int64_t, n_chunk), (V, const float *, chunk), (V, float *, out))
DEFER(dot, (V, int64_t, n), (V, int64_t, f), (V, const float *, x), (V, const float *, y), (V, void *, scratch),
      (V, bool, add), (V, float *, out))
DEFER(csr_forward, (S, struct device_csr, csr), (S, struct device_csr_linear, how), (V, float *, y))
DEFER(csr_backward, (S, struct device_csr, csr), (S, struct device_csr_linear, how), (V, const float *, grad_y),
      (V, float *, grad_w), (V, float *, grad_table))
DEFER(csr_dropout, (S, struct device_csr, csr), (S, struct device_activate, activate), (V, float *, out))
DEFER(csr_dense, (S, struct device_csr, csr), (V, float *, out))
DEFER(activate_forward, (V, int64_t, n), (V, int64_t, f), (S, struct device_activate, activate),
      (V, const float *, x),
      (V, float *, y))
DEFER(activate_backward, (V, int64_t, n), (V, int64_t, f), (S, struct device_activate, activate),
      (V, const float *, x),
      (V, const float *, y), (V, const float *, grad_y), (V, bool, add), (V, float *, grad_x))
DEFER(bias_add, (V, int64_t, n), (V, int64_t, f), (V, const float *, x), (V, const float *, bias), (V, float *, y))
DEFER(axpby, (V, int64_t, n_value), (V, float, a), (V, const float *, eps), (V, const float *, x), (V, float, b),
      (V, const float *, y), (V, float *, out))
DEFER(columns_copy, (V, int64_t, n), (V, int64_t, f), (V, const float *, from), (V, int64_t, from_width),
      (V, float *, to),
      (V, int64_t, to_width), (V, bool, add))
DEFER(max_forward, (V, int64_t, n_value), (V, const float *, x), (V, const float *, y), (V, float *, out))
DEFER(max_backward, (V, int64_t, n_value), (V, const float *, x), (V, const float *, out),
      (V, const float *, grad_out),
      (V, bool, add_x), (V, float *, grad_x), (V, bool, add_y), (V, float *, grad_y))
DEFER(inverse_norm, (V, int64_t, n), (V, int64_t, f), (V, const float *, x), (V, float *, out))
DEFER(inverse_norm_backward, (V, int64_t, n), (V, int64_t, f), (V, const float *, x), (V, const float *, out),
      (V, const float *, grad), (V, bool, add), (V, float *, grad_x))
DEFER(rows_multiply, (V, int64_t, n), (V, int64_t, f), (V, const float *, scale), (V, const float *, x),
      (V, bool, add),
      (V, float *, y))
DEFER(rows_dot, (V, int64_t, n), (V, int64_t, f), (V, const float *, x), (V, const float *, y), (V, bool, add),
      (V, float *, out))
DEFER(layer_norm_forward, (V, int64_t, n), (V, int64_t, f), (V, const float *, x), (V, const float *, weight),
      (V, const float *, bias), (V, float *, mean_rstd), (V, float *, y))
DEFER(layer_norm_backward, (S, struct device_norm_backward, how))
DEFER(batch_norm_statistics, (V, int64_t, n), (V, int64_t, f), (V, const float *, x), (V, void *, scratch),
      (V, double *, statistics))
DEFER(batch_norm_begin, (V, int64_t, f), (V, const double *, statistics), (V, double, momentum),
      (V, float *, running_mean), (V, float *, running_var), (V, double *, mean_rstd))
DEFER(batch_norm_forward, (V, int64_t, n), (V, int64_t, f), (V, const float *, x), (V, const double *, mean_rstd),
      (V, const float *, weight), (V, const float *, bias), (V, float *, y))
DEFER(batch_norm_sums, (S, struct device_norm_backward, how), (V, double *, sums))
DEFER(batch_norm_backward, (S, struct device_norm_backward, how), (V, const double *, sums))
DEFER(aggregate_sum, (S, struct device_block, block), (S, struct device_aggregate, how), (V, int64_t, f),
      (V, const void *, x), (V, float *, out))
DEFER(aggregate_max, (S, struct device_block, block), (S, struct device_max, how), (V, int64_t, f),
      (V, const float *, x), (V, float *, out), (V, uint32_t *, arg))
DEFER(aggregate_max_backward, (S, struct device_block, block), (V, uint32_t, arg_base), (V, int64_t, f),
      (V, const uint32_t *, arg), (V, const float *, grad_out), (V, float *, grad_x))
DEFER(attention_forward, (D, attention_rows, rows), (S, struct device_attention_state, state), (V, float *, out))
DEFER(attention_finish, (V, int64_t, n), (S, struct device_attention, how), (S, struct device_attention_state, state),
      (V, float *, out))
DEFER(attention_backward_begin, (V, int64_t, n), (S, struct device_attention, how), (V, const float *, grad_out),
      (V, const float *, out), (S, struct device_attention_state, state), (V, bool, add), (V, float *, grad_query))
DEFER(attention_backward_query, (D, attention_rows, rows), (V, void *, scratch), (V, float *, grad_query),
      (V, float *, grad_att), (V, float *, grad_edge))
DEFER(attention_backward_source, (D, attention_rows, rows), (V, float *, grad_value), (V, float *, grad_key))
DEFER(tile_rows, (V, int64_t, n), (S, struct device_tile, how))
DEFER(tile_edges, (D, tile_edges, how))
DEFER(relation_sum, (D, relation, how), (V, float *, out))
DEFER(relation_dot, (D, relation, how), (V, const float *, y), (V, bool, add), (V, void *, scratch),
      (V, float *, grad_comp))
DEFER(head_dot, (V, int64_t, n), (V, int64_t, n_head), (V, int64_t, n_column), (V, const float *, x),
      (V, const float *, w), (V, float *, out))
DEFER(head_dot_backward_input, (V, int64_t, n), (V, int64_t, n_head), (V, int64_t, n_column), (V, const float *, w),
      (V, const float *, grad), (V, bool, add), (V, float *, grad_x))
DEFER(head_mean, (V, int64_t, n), (V, int64_t, n_head), (V, int64_t, n_column), (V, bool, backward),
      (V, const float *, from), (V, bool, add), (V, float *, to))
DEFER(swap_axes, (V, int64_t, a), (V, int64_t, b), (V, int64_t, c), (V, const float *, x), (V, float *, out))
DEFER(rows_gather, (V, int64_t, n_row), (V, int64_t, f), (V, const uint32_t *, rows), (V, float, factor),
      (V, const float *, x), (V, float *, out))
DEFER(rows_add, (V, int64_t, n_row), (V, int64_t, f), (V, const uint32_t *, rows), (V, float, factor),
      (V, const float *, x), (V, float *, out))
DEFER(rows_round, (V, int64_t, n_row), (V, int64_t, f), (V, float *, x), (V, void *, out))
DEFER(rows_encode, (S, struct device_coding, how), (V, void *, out))
DEFER(rows_decode, (V, enum device_codec, codec), (V, int64_t, n_row), (V, int64_t, f), (V, const void *, from),
      (V, float *, out))
DEFER(loss, (S, struct device_scoring, how), (V, struct device_score *, score))
DEFER(link_loss, (S, struct device_links, how), (V, double *, sum))
DEFER(pair_scores, (S, struct device_pairs, pairs), (V, float *, score))
DEFER(pair_gradients, (S, struct device_pairs, pairs), (V, const float *, slope), (V, float *, grad))
DEFER(rows_collect, (S, struct device_collect, how), (V, const float *, x), (V, float *, out))
DEFER(pair_losses, (S, struct device_pair_losses, how), (V, double *, sum))
DEFER(labels_append, (S, struct device_labels, how), (V, int64_t, f), (V, const float *, x), (V, float *, out))
DEFER(draw_count, (S, struct device_labels, how), (V, double *, count))
DEFER(doubles_merge, (V, bool, statistics), (V, int64_t, n), (V, const double *, from), (V, double *, to))
DEFER(floats_compare, (V, int64_t, n), (V, const float *, a), (V, const float *, b), (V, double *, sums))
DEFER(squares_add, (V, int64_t, n), (V, const float *, x), (V, double *, sum))
DEFER(clip_factor, (V, double, most), (V, const double *, squares), (V, struct device_now *, now))
DEFER(step, (S, struct device_step, how), (V, int64_t, n_value), (V, const float *, grad), (V, float *, w),
      (V, float *, m), (V, float *, v))
/* clang-format on */

/* --- operations that make a block --- */

struct sample_args {
    struct device_block block;
    int64_t n;
    const uint32_t *kept;
    void *scratch;
};

static void block_sample_run(struct strict *s, void *args)
{
    struct sample_args *a = args;
    struct device_block out;
    cpu_block_sample(s->cpu, &a->block, a->n, a->kept, a->scratch, &out);
}

void strict_block_sample(struct device *device, const struct device_block *block, int64_t n_kept,
                         const uint32_t *kept, void *scratch, struct device_block *out)
{
    struct sample_args args = {.block = *block, .n = n_kept, .kept = kept, .scratch = scratch};
    strict_defer(strict_of(device), DEVICE_LANE_COMPUTE, block_sample_run, &args, sizeof args);
    *out = cpu_block_sampled(block, n_kept, scratch);
}

static void block_transpose_run(struct strict *s, void *args)
{
    struct sample_args *a = args;
    struct device_block out;
    cpu_block_transpose(s->cpu, &a->block, a->n, a->scratch, &out);
}

void strict_block_transpose(struct device *device, const struct device_block *block, int64_t n_own, void *scratch,
                            struct device_block *out)
{
    struct sample_args args = {.block = *block, .n = n_own, .scratch = scratch};
    strict_defer(strict_of(device), DEVICE_LANE_COMPUTE, block_transpose_run, &args, sizeof args);
    *out = cpu_block_transposed(block, n_own, scratch);
}

/* --- structure is made at once, and ends when all that may use it is done --- */

enum status strict_block_open(struct device *device, struct device_block *block)
{
    struct strict *s = strict_of(device);
    strict_enter(s);
    enum status status = cpu_block_open(s->cpu, block);
    strict_leave(s);
    return status;
}

void strict_block_close(struct device *device, struct device_block *block)
{
    struct strict *s = strict_of(device);
    strict_run_all(s);
    cpu_block_close(s->cpu, block);
}

enum status strict_csr_open(struct device *device, struct device_csr *csr)
{
    struct strict *s = strict_of(device);
    strict_enter(s);
    enum status status = cpu_csr_open(s->cpu, csr);
    strict_leave(s);
    return status;
}

void strict_csr_close(struct device *device, struct device_csr *csr)
{
    struct strict *s = strict_of(device);
    strict_run_all(s);
    cpu_csr_close(s->cpu, csr);
}

size_t strict_bytes(enum device_bytes what, const int64_t *size)
{
    return cpu_bytes(what, size);
}

/* Calls are put off: none runs while the caller waits for it. */
void strict_poll(struct device *device, void (*poll)(void *context), void *context)
{
    (void)device;
    (void)poll;
    (void)context;
}

/* Chunk after chunk: what they call is put off as ever. */
void strict_chunks_run(struct device *device, int n_chunk, void (*run)(void *context, int chunk, int slot),
                       void *context)
{
    (void)device;
    for (int i = 0; i < n_chunk; i++) {
        run(context, i, i);
    }
}

const struct device_ops device_strict = {.name = "strict",
                                         .n_window_float = 64, /* several windows of a test's few rows */
                                         .n_chunk = 16,
                                         .codecs = DEVICE_CODECS_ALL,
#define X(op) .op = strict_##op,
                                         DEVICE_OP_LIST(X)
#undef X
};
