/* The four scores of an edge from source j to destination i: operands, value, gradients.
 *
 *   score    e_ij at one head                           model
 *   add      leaky(key_j + query_i)                     GAT          keys and queries: one number per head
 *   mlp      Σ_c att_c · leaky(value_jc + query_ic)     GATv2        no keys
 *   dot      scale · ⟨key_j, query_i⟩                   transformer  keys as wide as values
 *   cosine   key_j · ⟨value_j, query_i⟩                 AGNN         keys: one number per head, 1 / ‖value_j‖
 *
 * Features f of an edge: add gets + ⟨v, f⟩ and mlp + W f in the argument of leaky. With dot, f is appended to keys
 * and values, and heads of queries and outputs are wider by f's columns.
 *
 * A score is five functions, over some heads of one run (struct heads):
 *   S_target, S_source    find its operands, where the run's own row is the edges' destination or their source
 *   S_scores              score[h][i] = e of edge i at head first + h
 *   S_query_gradients     what de = ∂loss/∂e of each edge adds to the own row's query (not add: no edge is needed)
 *   S_source_gradients    what it adds to the own row's key and value
 * kernels_attention.inc.h puts them between the steps that all scores share.
 *
 * source  Veličković et al., ICLR 2018 · Brody, Alon & Yahav, ICLR 2022 · Vaswani et al., 2017 · Thekumparampil et
 *         al., 2018
 */

/* Heads first … first+n-1 of one run in one pass. Numbers per edge are [h][i]: head first + h, edge i. */
struct heads {
    const struct cpu_attention *a;
    const struct run *run;
    int64_t first, n;
    int64_t head, to_head; /* number of head `first` among all rows' heads: of the row read, of the row written */
    const float *own;      /* the own row's operand of the score, from head `first` on */
    const struct run_rows *far; /* the score's operand at the other ends, where it is a row */
    int64_t own_step, far_step; /* columns from one head to the next of these two, … */
    int64_t rows_step;          /* … and of `rows` */
    struct run_rows rows,
        other;                /* rows: values where the own row is the destination, else grad_out; other: for `far` */
    struct run_rows features; /* of the edges, where they have any */
    run_numbers x;            /* add: key_j + query_i · cosine: ⟨value_j, query_i⟩ */
    run_numbers key;          /* cosine: key_j */
    run_numbers score;        /* e */
    run_numbers mu;           /* dropout's factors; unset without dropout */
    run_numbers alpha, weight; /* the softmax's coefficient α; what multiplies rows: μ α */
    run_numbers g;             /* ⟨grad_out_i, value_j⟩ */
    run_numbers de;            /* the gradient of e */
    run_numbers positive;      /* forward of add: the weights of edges with x > 0, else 0 */
    float softmax[2 * HEADS]
                 [RUN]; /* backward: L of head first + h in [2h], D in [2h + 1], of each edge's destination */
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

/* --- steps of several scores --- */

static const float run_ones[HEADS] = {EIGHT(1.0f)};

/* A sum over all of a run's edges, from 0 where the row begins. */
INLINE struct rows_sum rows_sum_make(const struct heads *w, const struct run_rows *rows)
{
    return (struct rows_sum){rows, 0, rows->n, w->run->is_first ? NULL : run_ones, w->n, w->a->how->n_column, 0};
}

/* out (+)= Σ_i weight[h][i] · row_i, over the heads' columns of the row written. */
INLINE void heads_add(const struct heads *w, const struct run_rows *rows, run_numbers weight, enum run_fetch fetch,
                      float *out)
{
    const struct rows_sum how = rows_sum_make(w, rows);
    add_rows(&how, fetch, weight, out + w->to_head * how.n_column);
}

/* Of a sum, that of head h alone, where heads of the rows, or of what is written, have features behind them. */
INLINE struct rows_sum sum_of_head(const struct rows_sum *all, int64_t h, int64_t skip)
{
    return (struct rows_sum){all->rows, all->begin,    all->end, all->scale != NULL ? all->scale + h : NULL,
                             1,         all->n_column, skip};
}

/* out = scale · out + Σ_i weight[h][i] · (row_i | f_i) of each head, where edges have features. */
INLINE void heads_add_wide(const struct heads *w, const struct rows_sum *all, run_numbers weight,
                           enum run_fetch fetch, float *out)
{
    const int64_t n_column = w->a->how->n_column, n_more = w->a->how->n_edge_column, wide = n_column + n_more;
    for (int64_t h = 0; h < w->n; h++) {
        float *to = out + (w->to_head + h) * wide;
        struct rows_sum one = sum_of_head(all, h, h * n_column);
        add_rows(&one, fetch, weight + h, to);
        one.rows = &w->features;
        one.n_column = n_more;
        one.skip = 0;
        add_rows(&one, FETCH_NONE, weight + h, to + n_column);
    }
}

/* out (+)= Σ_i weight[h][i] · row_i without the features behind each of the rows' heads. */
INLINE void heads_add_narrow(const struct heads *w, const struct run_rows *rows, run_numbers weight,
                             enum run_fetch fetch, float *out)
{
    const int64_t n_column = w->a->how->n_column, wide = n_column + w->a->how->n_edge_column;
    const struct rows_sum all = rows_sum_make(w, rows);
    for (int64_t h = 0; h < w->n; h++) {
        const struct rows_sum one = sum_of_head(&all, h, h * wide);
        add_rows(&one, fetch, weight + h, out + (w->to_head + h) * n_column);
    }
}

/* x[i] += ⟨y, f_i⟩, where edges have features: y is `own`, or (NULL) what follows on head h of the rows at the other
 * ends. */
INLINE void features_dot(const struct heads *w, int64_t h, const float *own, const struct run_rows *rows, float *x)
{
    const int64_t n_column = w->a->how->n_column, n_more = w->a->how->n_edge_column;
    float sum[RUN];
    if (n_more == 0) {
        return;
    }
    fill_edges(w->run, sum, 0.0f);
    if (own != NULL) {
        dots(&w->features, 0, own, true, n_more, sum);
    } else {
        pair_dots(rows, h * (n_column + n_more) + n_column, &w->features, 0, n_more, sum);
    }
    EACH_VECTOR(i, w->run)
    {
        vector_store(x + i, vector_add(vector_load(x + i), vector_load(sum + i)));
    }
}

/* grad[h] (+)= Σ_i de[h][i], for keys and queries of one number per head. */
INLINE void heads_add_numbers(struct heads *w, float *grad)
{
    float *to = grad + w->to_head;
    for (int64_t h = 0; h < w->n && w->run->is_first; h++) {
        to[h] = 0.0f;
    }
    span_sums(&(struct span){0, w->run->n}, w->de, w->n, 1, to);
}

/* ⟨own, far_i⟩ of head first + h; 0 past the last edge. */
INLINE void heads_dot(const struct heads *w, int64_t h, float *to)
{
    fill_edges(w->run, to, 0.0f);
    dots(w->far, h * w->far_step, w->own + h * w->own_step, true, w->a->how->n_column, to);
}

/* --- add: e = leaky(x), x = key_j + query_i [+ ⟨v, f⟩]; leaky(x) = x where x > 0, else slope · x --- */

/* x of the other ends' numbers, and of the features */
INLINE void add_open(struct heads *w)
{
    const int64_t n_more = w->a->how->n_edge_column;
    run_columns(w->run, &w->other, w->n, w->x[0]);
    for (int64_t h = 0; h < w->n && n_more > 0; h++) {
        features_dot(w, h, w->a->how->edge + (w->first + h) * n_more, NULL, w->x[h]);
    }
}

INLINE void add_target(struct heads *w)
{
    const struct cpu_attention *a = w->a;
    rows_open(w->run, a->source.key, a->self_source.key, a->how->n_head, w->first, &w->other);
    add_open(w);
    w->own = a->target.query + w->head;
}

INLINE void add_source(struct heads *w)
{
    const struct cpu_attention *a = w->a;
    rows_open(w->run, a->target.query, a->self_target.query, a->how->n_head, w->first, &w->other);
    add_open(w);
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

/* de becomes the gradient of x. */
INLINE void add_slopes(struct heads *w)
{
    const vector less = vector_set(w->a->how->slope), one = vector_set(1.0f);
    for (int64_t h = 0; h < w->n; h++) {
        EACH_VECTOR(i, w->run)
        {
            vector slope = vector_select_positive(vector_load(w->x[h] + i), one, less);
            vector_store(w->de[h] + i, vector_multiply(vector_load(w->de[h] + i), slope));
        }
    }
}

/* grad_key_j = Σ_i de · leaky'(x) */
INLINE void add_source_gradients(struct heads *w)
{
    add_slopes(w);
    heads_add_numbers(w, w->a->grad_key);
}

/* grad_query_i = Σ_j de · leaky'(x) · grad_v = Σ_ij de · leaky'(x) · f, where edges have features */
INLINE void add_query_gradients(struct heads *w, double *sums)
{
    const int64_t n_more = w->a->how->n_edge_column;
    add_slopes(w);
    heads_add_numbers(w, w->a->grad_query);
    for (int64_t h = 0; h < w->n && sums != NULL; h++) {
        features_sum(&w->features, n_more, w->de[h], sums + (w->first + h) * n_more);
    }
}

/* --- mlp: e = Σ_c att_c · leaky(x_c), x = value_j + query_i [+ W f] --- */

INLINE void mlp_target(struct heads *w)
{
    w->far = &w->rows; /* the values, which are also weighted */
    w->own = w->a->target.query + w->head * w->a->how->n_column;
}

INLINE void mlp_source(struct heads *w)
{
    const struct cpu_attention *a = w->a;
    const int64_t n_column = a->how->n_column;
    rows_open(w->run, a->target.query, a->self_target.query, a->how->n_head * n_column, w->first * n_column,
              &w->other);
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

/* Columns c … of head first + h where edges have features: their weight, the perceptron's share, rows with W f added.
 * Returns how many. */
INLINE int64_t mlp_project(const struct heads *w, int64_t h, int64_t c, struct edge_weight *by, struct leaky *leaky,
                           struct projected *x)
{
    const struct device_attention *how = w->a->how;
    const int64_t n_column = how->n_column, n = smaller(n_column - c, PROJECTED);
    const struct leaky all = mlp_leaky(w, h);
    *by = (struct edge_weight){how->edge + (w->first + h) * n_column + c, how->n_head * n_column, how->n_edge_column,
                               n};
    *leaky = (struct leaky){n, all.own + c, all.att + c, all.slope};
    project(w->far, h * n_column + c, &w->features, by, x);
    return n;
}

/* score[h] of rows with W f added, PROJECTED columns after another. */
INLINE void mlp_project_scores(struct heads *w, int64_t h)
{
    struct edge_weight by;
    struct leaky leaky;
    struct projected x;
    float part[RUN];
    for (int64_t c = 0, n; c < w->a->how->n_column; c += n) {
        n = mlp_project(w, h, c, &by, &leaky, &x);
        fill_edges(w->run, part, 0.0f);
        leaky_dots(&x.rows, 0, &leaky, part);
        EACH_VECTOR(i, w->run)
        {
            vector_store(w->score[h] + i, vector_add(vector_load(w->score[h] + i), vector_load(part + i)));
        }
    }
}

INLINE void mlp_scores(struct heads *w)
{
    const int64_t n_column = w->a->how->n_column;
    for (int64_t h = 0; h < w->n; h++) {
        const struct leaky leaky = mlp_leaky(w, h);
        fill_edges(w->run, w->score[h], 0.0f);
        if (w->a->how->n_edge_column > 0) {
            mlp_project_scores(w, h);
        } else {
            leaky_dots(w->far, h * n_column, &leaky, w->score[h]);
        }
        EACH_VECTOR(i, w->run)
        {
            vector_store(w->score[h] + i, vector_add(vector_load(w->score[h] + i), vector_load(w->run->bias + i)));
        }
    }
}

/* Add de's contribution to own columns if edges have features; att: to att's gradient, and n_head · n_column further
 * on to W's (NULL: not wanted). */
INLINE void mlp_project_gradients(struct heads *w, int64_t h, const struct leaky_gradient *to, double *att)
{
    const struct device_attention *how = w->a->how;
    struct edge_weight by;
    struct leaky leaky;
    struct projected x;
    for (int64_t c = 0, n; c < how->n_column; c += n) {
        n = mlp_project(w, h, c, &by, &leaky, &x);
        const struct leaky_gradient part = {to->de, to->is_first, to->out + c};
        leaky_rows(&x.rows, 0, &leaky, &part, att != NULL ? att + c : NULL);
        if (att != NULL) {
            project_sums(&x, &w->features, &by, &leaky, to->de, att + how->n_head * how->n_column + c);
        }
    }
}

/* grad_query_ic = Σ_j de · att_c · leaky'(x_c) · grad_att_c = Σ_ij de · leaky(x_c) */
INLINE void mlp_query_gradients(struct heads *w, double *sums)
{
    const int64_t n_column = w->a->how->n_column;
    float *grad_query = w->a->grad_query + w->to_head * n_column;
    for (int64_t h = 0; h < w->n; h++) {
        const struct leaky leaky = mlp_leaky(w, h);
        const struct leaky_gradient to = {w->de[h], w->run->is_first, grad_query + h * n_column};
        double *att = sums != NULL ? sums + (w->first + h) * n_column : NULL;
        if (w->a->how->n_edge_column > 0) {
            mlp_project_gradients(w, h, &to, att);
        } else {
            leaky_rows(w->far, h * n_column, &leaky, &to, att);
        }
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
        if (w->a->how->n_edge_column > 0) {
            mlp_project_gradients(w, h, &to, NULL);
        } else {
            leaky_rows(w->far, h * n_column, &leaky, &to, NULL);
        }
    }
}

/* --- dot: e = scale · ⟨key_j [| f], query_i⟩ --- */

INLINE void dot_target(struct heads *w)
{
    const struct cpu_attention *a = w->a;
    const int64_t n_column = a->how->n_column;
    rows_open(w->run, a->source.key, a->self_source.key, a->how->n_head * n_column, w->first * n_column, &w->other);
    w->far = &w->other;
    w->own_step = device_attention_columns(a->how);
    w->own = a->target.query + w->head * w->own_step;
}

/* Queries at the other ends and the own row's key. */
INLINE void dot_source(struct heads *w)
{
    const struct cpu_attention *a = w->a;
    w->far_step = device_attention_columns(a->how);
    rows_open(w->run, a->target.query, a->self_target.query, a->how->n_head * w->far_step, w->first * w->far_step,
              &w->other);
    w->far = &w->other;
    w->own = a->source.key + w->head * a->how->n_column;
}

INLINE void dot_scores(struct heads *w)
{
    const vector scale = vector_set(w->a->how->scale);
    for (int64_t h = 0; h < w->n; h++) {
        const float *own = w->a->rows_are_sources ? NULL : w->own + h * w->own_step + w->a->how->n_column;
        heads_dot(w, h, w->score[h]);
        features_dot(w, h, own, w->far, w->score[h]);
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

/* grad_query_i = Σ_j scale · de · (key_j [| f]) */
INLINE void dot_query_gradients(struct heads *w, double *sums)
{
    (void)sums;
    dot_scale_gradients(w);
    if (w->a->how->n_edge_column > 0) {
        const struct rows_sum how = rows_sum_make(w, w->far);
        heads_add_wide(w, &how, w->de, FETCH_NONE, w->a->grad_query);
    } else {
        heads_add(w, w->far, w->de, FETCH_NONE, w->a->grad_query);
    }
}

/* grad_key_j = Σ_i scale · de · query_i */
INLINE void dot_source_gradients(struct heads *w)
{
    dot_scale_gradients(w);
    if (w->a->how->n_edge_column > 0) {
        heads_add_narrow(w, w->far, w->de, FETCH_NONE, w->a->grad_key);
    } else {
        heads_add(w, w->far, w->de, FETCH_NONE, w->a->grad_key);
    }
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
INLINE void cosine_query_gradients(struct heads *w, double *sums)
{
    (void)sums;
    for (int64_t h = 0; h < w->n; h++) {
        multiply_edges(w->run, w->de[h], w->key[h]);
    }
    heads_add(w, w->far, w->de, FETCH_NONE, w->a->grad_query);
}

/* grad_value_j += Σ_i key_j · de · query_i, behind its weighted sum · grad_key_j = Σ_i de · x */
INLINE void cosine_source_gradients(struct heads *w)
{
    const int64_t n_column = w->a->how->n_column;
    const struct rows_sum how = {w->far, 0, w->far->n, run_ones, w->n, n_column, 0};
    for (int64_t h = 0; h < w->n; h++) {
        multiply_edges(w->run, w->key[h], w->de[h]);
        multiply_edges(w->run, w->de[h], w->x[h]);
    }
    add_rows(&how, FETCH_NONE, w->key, w->a->grad_value + w->to_head * n_column);
    heads_add_numbers(w, w->a->grad_key);
}
