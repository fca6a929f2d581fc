/* What the model builders share: the row of a kind in model.c's table, and how a layer orders its maps.
 * A builder emits the ops of one layer; model.c puts dropout, residual, norm and activation around it.
 */
#ifndef MODELS_LAYERS_H
#define MODELS_LAYERS_H

#include "models/program.h"
#include "protocol/job/job.h"

/* Emit layer `layer` from value x to f_out columns; returns its output. Names are PyTorch Geometric's,
 * "convs.<layer>.…". */
int gcn_layer(struct program *program, const struct job *job, int layer, int x, int64_t f_out);
int sage_layer(struct program *program, const struct job *job, int layer, int x, int64_t f_out);
int gin_layer(struct program *program, const struct job *job, int layer, int x, int64_t f_out);
int appnp_layer(struct program *program, const struct job *job, int layer, int x, int64_t f_out);
int sgc_layer(struct program *program, const struct job *job, int layer, int x, int64_t f_out);
int gat_layer(struct program *program, const struct job *job, int layer, int x, int64_t f_out);
int gatv2_layer(struct program *program, const struct job *job, int layer, int x, int64_t f_out);
int transformer_layer(struct program *program, const struct job *job, int layer, int x, int64_t f_out);
int agnn_layer(struct program *program, const struct job *job, int layer, int x, int64_t f_out);
int rgcn_layer(struct program *program, const struct job *job, int layer, int x, int64_t f_out);

/* errors  STATUS_DATA edges without types; STATUS_CONFIG model.blocks that do not divide a layer's columns */
enum status rgcn_check(const struct job *job, const struct program_input *input);

/* Before the first layer, where nodes are of several types: each type's columns to model.hidden. */
int rgcn_begin(struct program *program, const struct job *job, int x);

/* errors  STATUS_CONFIG one layer only */
enum status agnn_check(const struct job *job, const struct program_input *input);

/* Before the last layer and its dropout. */
int agnn_propagate(struct program *program, const struct job *job, int x);

/* After the last layer. */
int appnp_finish(struct program *program, const struct job *job, int x);

/* The aggregate that model.aggregator names. */
enum aggregate_kind sage_aggregate(const struct job *job);

/* Should a layer from x to f_out columns multiply by its weight before a linear aggregate? Yes where fewer columns
 * travel so. */
bool transform_first(const struct program *program, int x, int64_t f_out);

/* program_param with a printed name. */
int named_param(struct program *program, int64_t rows, int64_t columns, double bound, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* The bound that torch.nn.Linear draws from: kaiming_uniform(a = √5), 1/√fan_in. */
double linear_bound(int64_t fan_in);

/* Heads of this layer: model.out_heads in the last one, else model.heads. An attention layer's f_out is per head. */
int64_t attention_heads(const struct job *job, int layer);

/* An attention vector per head, 1 × n_head × n_column, named by a format with the layer's number. */
int head_param(struct program *program, int64_t n_head, int64_t n_column, const char *format, int layer);

/* The heads' outputs side by side; averaged in the last layer. heads_end adds the layer's bias. */
int heads_join(struct program *program, const struct job *job, int layer, int y, int64_t n_head);
int heads_end(struct program *program, const struct job *job, int layer, int y, int64_t n_head);

/* A plain linear layer "lins.<index>". */
int plain_layer(struct program *program, int index, int x, int64_t f_out);

#endif
