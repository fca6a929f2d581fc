/* The four scores of an edge from source j to destination i: what each reads, its value, its gradients.
 *
 *   score    e_ij at one head                           model
 *   add      leaky(key_j + query_i)                     GAT          keys and queries: one number per head
 *   mlp      Σ_c att_c · leaky(value_jc + query_ic)     GATv2        no keys
 *   dot      scale · ⟨key_j, query_i⟩                   transformer  keys as wide as values
 *   cosine   key_j · ⟨value_j, query_i⟩                 AGNN         keys: one number per head, 1 / ‖value_j‖
 *
 * A score is five functions, over some heads of one run (struct heads):
 *   S_target, S_source    find its operands, where the run's own row is the edges' destination or their source
 *   S_scores              score[h][i] = e of edge i at head first + h
 *   S_query_gradients     what de = ∂loss/∂e of each edge adds to the own row's query (not add: no edge is needed)
 *   S_source_gradients    what it adds to the own row's key and value
 * kernels_attention.inc.h puts them between the steps that all scores share.
 *
 * source  Veličković et al., ICLR 2018 · Brody, Alon & Yahav, ICLR 2022 · Vaswani et al., 2017 · Thekumparampil et al., 2018
 */

/* Heads first … first+n-1 of one run in one pass. Numbers per edge are [h][i]: head first + h, edge i. */
struct heads {
    const struct cpu_attention *a;
    const struct run *run;
    int64_t first, n;
    int64_t head, to_head;         /* number of head `first` among all rows' heads: of the row read, of the row written */
    const float *own;              /* the own row's operand of the score, from head `first` on */
    const struct run_rows *far;    /* the score's operand at the other ends, where it is a row */
    struct run_rows rows, other;   /* rows: values where the own row is the destination, else grad_out; other: for `far` */
    run_numbers x;                 /* add: key_j + query_i · cosine: ⟨value_j, query_i⟩ */
    run_numbers key;               /* cosine: key_j */
    run_numbers score;             /* e */
    run_numbers mu;                /* dropout's factors; unset without dropout */
    run_numbers alpha, weight;     /* the softmax's coefficient α; what multiplies rows: μ α */
    run_numbers g;                 /* ⟨grad_out_i, value_j⟩ */
    run_numbers de;                /* the gradient of e */
    run_numbers positive;          /* forward of add: the weights of edges with x > 0, else 0 */
    float softmax[2 * HEADS][RUN]; /* backward: L of head first + h in [2h], D in [2h + 1], of each edge's destination */
};

/* e^x within 2 units in the last place; 0 below -87, above 88 that of 88; what is not a number stays one.
 * x = k ln 2 + r, |r| ≤ ln 2 / 2; e^r − 1 by its series, times 2^k. */
INLINE vector vector_exp(vector x)
{
    vector below = vector_fma(x, vector_set(-1.0f), vector_set(-87.0f)), to_integer = vector_set(0x1.8p23f);
    vector bounded = vector_select_positive(below, vector_set(-87.0f), x);
    bounded = vector_select_positive(vector_add(x, vector_set(-88.0f)), vector_set(88.0f), bounded);
    vector integer = vector_fma(bounded, vector_set(0x1.715476p0f), to_integer); /* k in the low bits */
    vector k = vector_add(integer, vector_set(-0x1.8p23f));
    vector r = vector_fma(k, vector_set(-0x1.62ep-1f), bounded);
    r = vector_fma(k, vector_set(-0x1.0bfbe8p-15f), r);
    vector tail = vector_set(0x1.a01a02p-13f);
    tail = vector_fma(tail, r, vector_set(0x1.6c16c2p-10f));
    tail = vector_fma(tail, r, vector_set(0x1.111112p-7f));
    tail = vector_fma(tail, r, vector_set(0x1.555556p-5f));
    tail = vector_fma(tail, r, vector_set(0x1.555556p-3f));
    tail = vector_fma(tail, r, vector_set(0.5f));
    vector series = vector_fma(vector_multiply(tail, r), r, r), power = vector_power(integer);
    return vector_select_positive(below, vector_set(0.0f), vector_fma(power, series, power));
}

/* --- numbers per edge --- */

INLINE void fill_edges(const struct run *run, float *x, float value)
{
    EACH_VECTOR(i, run)
    {
        vector_store(x + i, vector_set(value));
    }
}

INLINE void multiply_edges(const struct run *run, float *x, const float *by)
{
    EACH_VECTOR(i, run)
    {
        vector_store(x + i, vector_multiply(vector_load(x + i), vector_load(by + i)));
    }
}

INLINE void scale_edges(const struct run *run, float *x, float by)
{
    EACH_VECTOR(i, run)
    {
        vector_store(x + i, vector_multiply(vector_load(x + i), vector_set(by)));
    }
}

/* The greatest number of one head, over 16 lanes first. */
INLINE float run_max(const struct run *run, const float *x)
{
    vector part[PARTS];
    for (int64_t p = 0; p < PARTS; p++) {
        part[p] = vector_load(x + p * LANES);
        if (run->padded > PARTS_LANES) {
            part[p] = vector_greater(vector_load(x + PARTS_LANES + p * LANES), part[p]);
        }
    }
    return parts_max(part);
}

/* sum[h] = Σ_i x[h][i] of n heads, whose number is rounded up to fours there: edge i + 16 joins edge i, then 16 lanes are
 * added in the tree of the columns. */
INLINE void run_sums(const struct run *run, run_numbers x, int64_t n, float *sum)
{
    for (int64_t h = 0; h < n; h += 4) {
        vector part[4][PARTS];
        for (int64_t k = 0; k < 4; k++) {
            const float *numbers = x[smaller(h + k, n - 1)];
            for (int64_t p = 0; p < PARTS; p++) {
                part[k][p] = vector_load(numbers + p * LANES);
                if (run->padded > PARTS_LANES) {
                    part[k][p] = vector_add(vector_load(numbers + PARTS_LANES + p * LANES), part[k][p]);
                }
            }
        }
        parts_sums(sum + h, part);
    }
}

/* --- steps that several scores take --- */

static const float run_ones[HEADS] = {EIGHT(1.0f)};

/* out (+)= Σ_i weight[h][i] · row_i, over the heads' columns of the row written. */
INLINE void heads_add(const struct heads *w, const struct run_rows *rows, run_numbers weight, enum run_fetch fetch, float *out)
{
    const int64_t n_column = w->a->how->n_column;
    const struct rows_sum how = {rows, w->run->is_first ? NULL : run_ones, w->n, n_column};
    add_rows(&how, fetch, weight, out + w->to_head * n_column);
}

/* grad_key[h] (+)= Σ_i de[h][i], for keys of one number per head. */
INLINE void heads_add_keys(struct heads *w)
{
    float sum[HEADS], *grad_key = w->a->grad_key + w->to_head;
    run_sums(w->run, w->de, w->n, sum);
    for (int64_t h = 0; h < w->n; h++) {
        grad_key[h] = (w->run->is_first ? 0.0f : grad_key[h]) + sum[h];
    }
}

/* ⟨own, far_i⟩ of head first + h; 0 past the last edge. */
INLINE void heads_dot(const struct heads *w, int64_t h, float *to)
{
    const int64_t n_column = w->a->how->n_column;
    fill_edges(w->run, to, 0.0f);
    dots(w->far, h * n_column, w->own + h * n_column, true, n_column, to);
}

/* --- add: e = leaky(x), x = key_j + query_i; leaky(x) = x where x > 0, else slope · x --- */

INLINE void add_target(struct heads *w)
{
    const struct cpu_attention *a = w->a;
    rows_open(w->run, a->source.key, a->self_source.key, a->how->n_head, w->first, &w->other);
    run_columns(w->run, &w->other, w->n, w->x[0]);
    w->own = a->target.query + w->head;
}

INLINE void add_source(struct heads *w)
{
    const struct cpu_attention *a = w->a;
    rows_open(w->run, a->target.query, a->self_target.query, a->how->n_head, w->first, &w->other);
    run_columns(w->run, &w->other, w->n, w->x[0]);
    w->own = a->source.key + w->head;
}

INLINE void add_scores(struct heads *w)
{
    const vector slope = vector_set(w->a->how->slope), one = vector_set(1.0f);
    for (int64_t h = 0; h < w->n; h++) {
        const vector own = vector_set(w->own[h]);
        EACH_VECTOR(i, w->run)
        {
            vector x = vector_add(vector_load(w->x[h] + i), own);
            vector e = vector_multiply(x, vector_select_positive(x, one, slope));
            vector_store(w->x[h] + i, x);
            vector_store(w->score[h] + i, vector_add(e, vector_load(w->run->bias + i)));
        }
    }
}

/* grad_key_j = Σ_i de · leaky'(x) */
INLINE void add_source_gradients(struct heads *w)
{
    const vector less = vector_set(w->a->how->slope), one = vector_set(1.0f);
    for (int64_t h = 0; h < w->n; h++) {
        EACH_VECTOR(i, w->run)
        {
            vector slope = vector_select_positive(vector_load(w->x[h] + i), one, less);
            vector_store(w->de[h] + i, vector_multiply(vector_load(w->de[h] + i), slope));
        }
    }
    heads_add_keys(w);
}

/* --- mlp: e = Σ_c att_c · leaky(x_c), x = value_j + query_i --- */

INLINE void mlp_target(struct heads *w)
{
    w->far = &w->rows; /* the values, which are weighted, too */
    w->own = w->a->target.query + w->head * w->a->how->n_column;
}

INLINE void mlp_source(struct heads *w)
{
    const struct cpu_attention *a = w->a;
    const int64_t n_column = a->how->n_column;
    rows_open(w->run, a->target.query, a->self_target.query, a->how->n_head * n_column, w->first * n_column, &w->other);
    w->far = &w->other;
    w->own = a->source.value + w->head * n_column;
}

/* The perceptron of head first + h. */
INLINE struct leaky mlp_leaky(const struct heads *w, int64_t h)
{
    const struct device_attention *how = w->a->how;
    const int64_t n_column = how->n_column;
    return (struct leaky){n_column, w->own + h * n_column, how->att + (w->first + h) * n_column, how->slope};
}

INLINE void mlp_scores(struct heads *w)
{
    const int64_t n_column = w->a->how->n_column;
    for (int64_t h = 0; h < w->n; h++) {
        const struct leaky leaky = mlp_leaky(w, h);
        fill_edges(w->run, w->score[h], 0.0f);
        leaky_dots(w->far, h * n_column, &leaky, w->score[h]);
        EACH_VECTOR(i, w->run)
        {
            vector_store(w->score[h] + i, vector_add(vector_load(w->score[h] + i), vector_load(w->run->bias + i)));
        }
    }
}

/* grad_query_ic = Σ_j de · att_c · leaky'(x_c) · grad_att_c = Σ_ij de · leaky(x_c) */
INLINE void mlp_query_gradients(struct heads *w, double *grad_att)
{
    const int64_t n_column = w->a->how->n_column;
    float *grad_query = w->a->grad_query + w->to_head * n_column;
    for (int64_t h = 0; h < w->n; h++) {
        const struct leaky leaky = mlp_leaky(w, h);
        const struct leaky_gradient to = {w->de[h], w->run->is_first, grad_query + h * n_column};
        double *att = grad_att != NULL ? grad_att + (w->first + h) * n_column : NULL;
        leaky_rows(w->far, h * n_column, &leaky, &to, att);
    }
}

/* grad_value_jc += Σ_i de · att_c · leaky'(x_c), behind its weighted sum */
INLINE void mlp_source_gradients(struct heads *w)
{
    const int64_t n_column = w->a->how->n_column;
    float *grad_value = w->a->grad_value + w->to_head * n_column;
    for (int64_t h = 0; h < w->n; h++) {
        const struct leaky leaky = mlp_leaky(w, h);
        const struct leaky_gradient to = {w->de[h], false, grad_value + h * n_column};
        leaky_rows(w->far, h * n_column, &leaky, &to, NULL);
    }
}

/* --- dot: e = scale · ⟨key_j, query_i⟩ --- */

INLINE void dot_target(struct heads *w)
{
    const struct cpu_attention *a = w->a;
    const int64_t n_column = a->how->n_column;
    rows_open(w->run, a->source.key, a->self_source.key, a->how->n_head * n_column, w->first * n_column, &w->other);
    w->far = &w->other;
    w->own = a->target.query + w->head * n_column;
}

INLINE void dot_source(struct heads *w)
{
    mlp_source(w);                                             /* queries at the other ends … */
    w->own = w->a->source.key + w->head * w->a->how->n_column; /* … and the own row's key */
}

INLINE void dot_scores(struct heads *w)
{
    const vector scale = vector_set(w->a->how->scale);
    for (int64_t h = 0; h < w->n; h++) {
        heads_dot(w, h, w->score[h]);
        EACH_VECTOR(i, w->run)
        {
            vector e = vector_multiply(vector_load(w->score[h] + i), scale);
            vector_store(w->score[h] + i, vector_add(e, vector_load(w->run->bias + i)));
        }
    }
}

/* de becomes the gradient of ⟨key_j, query_i⟩. */
INLINE void dot_scale_gradients(struct heads *w)
{
    for (int64_t h = 0; h < w->n; h++) {
        scale_edges(w->run, w->de[h], w->a->how->scale);
    }
}

/* grad_query_i = Σ_j scale · de · key_j */
INLINE void dot_query_gradients(struct heads *w, double *grad_att)
{
    (void)grad_att;
    dot_scale_gradients(w);
    heads_add(w, w->far, w->de, FETCH_NONE, w->a->grad_query);
}

/* grad_key_j = Σ_i scale · de · query_i */
INLINE void dot_source_gradients(struct heads *w)
{
    dot_scale_gradients(w);
    heads_add(w, w->far, w->de, FETCH_NONE, w->a->grad_key);
}

/* --- cosine: e = key_j · x, x = ⟨value_j, query_i⟩ --- */

INLINE void cosine_target(struct heads *w)
{
    const struct cpu_attention *a = w->a;
    rows_open(w->run, a->source.key, a->self_source.key, a->how->n_head, w->first, &w->other);
    run_columns(w->run, &w->other, w->n, w->key[0]);
    mlp_target(w); /* values at the other ends, the own row's query */
}

INLINE void cosine_source(struct heads *w)
{
    mlp_source(w);                       /* queries at the other ends, the own row's value … */
    for (int64_t h = 0; h < w->n; h++) { /* … and key, the same at each edge */
        fill_edges(w->run, w->key[h], w->a->source.key[w->head + h]);
    }
}

INLINE void cosine_scores(struct heads *w)
{
    for (int64_t h = 0; h < w->n; h++) {
        heads_dot(w, h, w->x[h]);
        EACH_VECTOR(i, w->run)
        {
            vector e = vector_multiply(vector_load(w->x[h] + i), vector_load(w->key[h] + i));
            vector_store(w->score[h] + i, vector_add(e, vector_load(w->run->bias + i)));
        }
    }
}

/* grad_query_i = Σ_j key_j · de · value_j */
INLINE void cosine_query_gradients(struct heads *w, double *grad_att)
{
    (void)grad_att;
    for (int64_t h = 0; h < w->n; h++) {
        multiply_edges(w->run, w->de[h], w->key[h]);
    }
    heads_add(w, w->far, w->de, FETCH_NONE, w->a->grad_query);
}

/* grad_value_j += Σ_i key_j · de · query_i, behind its weighted sum · grad_key_j = Σ_i de · x */
INLINE void cosine_source_gradients(struct heads *w)
{
    const int64_t n_column = w->a->how->n_column;
    const struct rows_sum how = {w->far, run_ones, w->n, n_column};
    for (int64_t h = 0; h < w->n; h++) {
        multiply_edges(w->run, w->key[h], w->de[h]);
        multiply_edges(w->run, w->de[h], w->x[h]);
    }
    add_rows(&how, FETCH_NONE, w->key, w->a->grad_value + w->to_head * n_column);
    heads_add_keys(w);
}
