/* The same job gives the same bits however it is run. A row for each feature: the models, the graphs and the settings that it is tried with. */
#include "tests/equivalence/compare.h"
#include "tests/equivalence/data.h"
#include "tests/support/process/folder.h"
#include "tests/support/sanitized.h"
#include "worker/plan/memory_plan.h"

#include <criterion/criterion.h>
#include <stdlib.h>

TestSuite(bits, .init = folder_make, .fini = folder_remove);

/* --- models --- */

static const char *const sums[] = {
    "kind = 'gcn'\nhidden = 16\ndropout = 0.5\ninput_dropout = 0.3",
    "kind = 'gcn'\nhidden = 16\ndropout = 0.5\nlayers = 3\nnorm = 'layer'",
    "kind = 'sage'\nhidden = 32\ndropout = 0.5\nlayers = 3\nresidual = true",
    "kind = 'gin'\nhidden = 16\nlearn_eps = true\ndropout = 0.5",
    "kind = 'sage'\naggregator = 'sum'\nhidden = 24\ninput_dropout = 0.3",
    "kind = 'appnp'\nhidden = 16\nsteps = 4\ndropout = 0.5",
    "kind = 'gcnii'\nhidden = 9\nlayers = 3\nnorm = 'batch'\nresidual = true",
    "kind = 'gcnii'\nhidden = 16\nlayers = 5\ndropout = 0.5\ninput_dropout = 0.3",
    "kind = 'sgc'\nlayers = 1\nsteps = 3",
    NULL,
};

static const char *const attention[] = {
    "kind = 'gat'\nhidden = 8\nheads = 3\nout_heads = 2\ndropout = 0.4\nattention_dropout = 0.4",
    "kind = 'gat'\nhidden = 8\nheads = 2\nlayers = 3\nresidual = true\nattention_dropout = 0.4",
    "kind = 'gatv2'\nhidden = 8\nheads = 3\ndropout = 0.4\nattention_dropout = 0.4",
    "kind = 'gatv2'\nhidden = 5\nheads = 2\nlayers = 3\nout_heads = 2\nattention_dropout = 0.4",
    "kind = 'agnn'\nhidden = 16\nsteps = 3\ndropout = 0.4\ninput_dropout = 0.4",
    "kind = 'transformer'\nhidden = 8\nheads = 3\ninput_dropout = 0.3\nattention_dropout = 0.4",
    NULL,
};

/* Softmaxes of wide scores, edges' own weights, maxima; and sums alone. */
#define PROGRAM(name) "kind = 'program'\nhidden = 12\nprogram = 'configs/programs/" name ".gnn'\n"
static const char *const programs[] = {
    PROGRAM("gen") "layers = 3\nargs.t = 400.0",
    PROGRAM("gen") "args.learn_t = true\ndropout = 0.3",
    PROGRAM("edgeconv") "args.hidden = 9",
    PROGRAM("pna") "norm = 'batch'",
    PROGRAM("resgated") "layers = 3",
    NULL,
};

static const char *const relations[] = {
    "kind = 'rgcn'\nhidden = 16\ndropout = 0.3\nnorm = 'batch'",
    "kind = 'rgcn'\nbases = 3\nhidden = 9\nlayers = 3\nresidual = true",
    "kind = 'rgcn'\nblocks = 3\nhidden = 18\nlinear_layers = 1",
    NULL,
};

static const char *const batch_norm[] = {
    "kind = 'gcn'\nhidden = 17\ndropout = 0.5\nlayers = 3\nnorm = 'batch'\nresidual = true",
    "kind = 'sage'\nhidden = 16\nlayers = 3\nnorm = 'batch'",
    "kind = 'gat'\nheads = 2\nhidden = 8\nlayers = 3\ndropout = 0.5\nattention_dropout = 0.3\nnorm = 'batch'",
    "kind = 'agnn'\nhidden = 9\nsteps = 2\nlayers = 3\nnorm = 'batch'\nattention_dropout = 0.3",
    NULL,
};

static const char *const layers_read_twice[] = {
    "kind = 'gcn'\nhidden = 16\nlayers = 3\ndropout = 0.5\njumping_knowledge = 'max'",
    "kind = 'sage'\nhidden = 9\nlayers = 3\njumping_knowledge = 'concat'",
    "kind = 'gcn'\nhidden = 16\nlabel_input = true\nlabel_rate = 0.3\ndropout = 0.5",
    "kind = 'sage'\nhidden = 16\nlayers = 3\nnorm = 'batch'\njumping_knowledge = 'max'\nlabel_input = true",
    NULL,
};

/* One of each way in which rows are summed. A maximum has no stale rows. */
static const char *const each[] = {
    "kind = 'sage'\nhidden = 32\ndropout = 0.5\nlayers = 3\nresidual = true",
    "kind = 'gcn'\nhidden = 17\ndropout = 0.5\nlayers = 3\nnorm = 'batch'",
    "kind = 'gin'\nhidden = 16\nlearn_eps = true\nlayers = 3",
    "kind = 'sage'\nhidden = 16\nlayers = 2\ninput_dropout = 0.3",
    "kind = 'gat'\nheads = 2\nhidden = 8\nlayers = 3\ndropout = 0.5\nattention_dropout = 0.3",
    "kind = 'gatv2'\nheads = 2\nhidden = 7\nlayers = 3\nattention_dropout = 0.3",
    "kind = 'transformer'\nheads = 2\nhidden = 8\nlayers = 2",
    "kind = 'agnn'\nhidden = 16\nlayers = 3",
    "kind = 'rgcn'\nhidden = 16\ndropout = 0.3",
    "kind = 'rgcn'\nbases = 3\nhidden = 9\nlayers = 3",
    "kind = 'appnp'\nhidden = 12\nsteps = 3",
    NULL,
};

/* Features together: one of each source of rows. */
static const char *const some[] = {
    "kind = 'sage'\nhidden = 32\ndropout = 0.5\nlayers = 3\nresidual = true",
    "kind = 'gcn'\nhidden = 17\ndropout = 0.5\nlayers = 3\nnorm = 'batch'",
    "kind = 'gat'\nheads = 2\nhidden = 8\nlayers = 3\ndropout = 0.5\nattention_dropout = 0.3",
    "kind = 'agnn'\nhidden = 16\nlayers = 3",
    "kind = 'rgcn'\nbases = 3\nhidden = 9\nlayers = 3",
    NULL,
};

static const char *const maximum[] = {
    "kind = 'sage'\naggregator = 'max'\nhidden = 16\nlayers = 3",
    "kind = 'sage'\naggregator = 'max'\nhidden = 16\nlayers = 3\ndropout = 0.3\nnorm = 'batch'",
    NULL,
};

static const char *const few_kinds[] = {
    "kind = 'gcn'\nhidden = 17\ndropout = 0.5\nlayers = 3\nnorm = 'batch'",
    "kind = 'gat'\nheads = 2\nhidden = 8",
    "kind = 'sage'\nhidden = 12\nlayers = 3\ndropout = 0.3",
    NULL,
};

/* More ways in which sums in pieces are made. */
static const char *const in_pieces[] = {
    PROGRAM("gen") "args.learn_t = true",
    "kind = 'transformer'\nheads = 2\nhidden = 8",
    "kind = 'gat'\nheads = 8\nhidden = 8\nlayers = 3",
    NULL,
};

/* Their first aggregate may read rows that each part makes for itself. */
static const char *const inputs[] = {
    "kind = 'gcn'\nhidden = 16\ninput_dropout = 0.5",
    "kind = 'sage'\nhidden = 16\nlayers = 3\ninput_dropout = 0.5\ndropout = 0.5\nnorm = 'batch'",
    "kind = 'sage'\nhidden = 16\naggregator = 'sum'\ninput_dropout = 0.5",
    "kind = 'sage'\nhidden = 16\naggregator = 'max'\ninput_dropout = 0.5",
    "kind = 'gin'\nhidden = 16\ninput_dropout = 0.5",
    "kind = 'gat'\nheads = 2\nhidden = 8\ninput_dropout = 0.5\nattention_dropout = 0.3",
    "kind = 'gat'\nheads = 3\nhidden = 5\nlayers = 3\ndropout = 0.5\nresidual = true",
    "kind = 'gatv2'\nheads = 2\nhidden = 7\ninput_dropout = 0.5\nattention_dropout = 0.3",
    "kind = 'transformer'\nheads = 2\nhidden = 8\ninput_dropout = 0.5",
    "kind = 'gcn'\nlayers = 1\ninput_dropout = 0.5",
    "kind = 'sgc'\nsteps = 1\ninput_dropout = 0.5",
    NULL,
};
static const char *const summed_inputs[] = {
    "kind = 'sage'\nhidden = 16\nlayers = 3\ninput_dropout = 0.5\nnorm = 'batch'",
    "kind = 'gcn'\nhidden = 16\ninput_dropout = 0.5",
    "kind = 'gin'\nhidden = 16\ninput_dropout = 0.5",
    "kind = 'gat'\nheads = 2\nhidden = 8\ninput_dropout = 0.5",
    NULL,
};

static const char *const typed[] = {
    "kind = 'rgcn'\nhidden = 16\ndropout = 0.3\ninput_dropout = 0.4\nnorm = 'batch'",
    "kind = 'sage'\nhidden = 9\nlayers = 3\nresidual = true\ninput_dropout = 0.2",
    "kind = 'rgcn'\nhidden = 16\nlayers = 3\ndropout = 0.3\ninput_dropout = 0.4\nbases = 2",
    NULL,
};
static const char *const of_relations[] = {
    "kind = 'rgcn'\nhidden = 16\ndropout = 0.3",
    "kind = 'rgcn'\nhidden = 9\nlayers = 3\nresidual = true\nbases = 2",
    NULL,
};
static const char *const rows_of_nodes_own[] = {
    "kind = 'rgcn'\nembedding = false\nhidden = 16\ndropout = 0.3\ninput_dropout = 0.4\nnorm = 'batch'",
    "kind = 'rgcn'\nembedding = false\nbases = 3\nhidden = 9\nlayers = 3\nresidual = true",
    NULL,
};

/* --- graphs; those in folders are made by the test --- */

enum data {
    GRAPHS,  /* symmetric, directed */
    FEW,     /* likewise, with few training nodes, so that epochs leave out rows */
    SPARSE,  /* features as sparse rows */
    WIDE,    /* dense features of more columns than a hidden layer; of fewer; parts of a few rows */
    SEVERAL, /* several labels a node */
    NUMBERS, /* numbers in place of classes */
    WEIGHTS, /* of edges */
    EDGES,   /* features of edges */
    FAR,     /* likewise, with few training nodes */
    TYPED,   /* node types without features */
    BARE,    /* no features */
    CLUB,    /* made of the graph */
    HUBS,    /* rows of some hundred edges in one block, and in all blocks together */
};

#define HUBS_DATA "generator = 'rmat'\nnodes = 3000\ndegree = 100\nclasses = 4\nfeatures = 9\n"

static const char *data_of(enum data data, int m)
{
    static const char *const wide[] = {"generator = 'sbm'\nnodes = 500\ndegree = 6\nclasses = 5\nfeatures = 40",
                                       "generator = 'sbm'\nnodes = 500\ndegree = 6\nclasses = 5\nfeatures = 9",
                                       "generator = 'sbm'\nnodes = 20\ndegree = 3\nclasses = 3\nfeatures = 40"};
    static const char *const club[] = {"generator = 'karate'\nfeatures = 'learned'",
                                       "generator = 'karate'\nfeatures = 'degree'",
                                       "generator = 'karate'\nfeatures = 'one_hot'"};
    const bool is_directed = m % 2 == 1;
    switch (data) {
    case GRAPHS:
        return data_graphs[is_directed];
    case FEW:
        return data_few[is_directed];
    case WIDE:
        return wide[m % 3];
    case CLUB:
        return club[m % 3];
    case HUBS:
        return is_directed ? HUBS_DATA "undirected = 'no'\ntrain_share = 0.01\n" : HUBS_DATA;
    case SEVERAL:
        return "generator = 'sbm'\nnodes = 600\ndegree = 8\nclasses = 5\nfeatures = 24\nlabels_per_node = 2";
    case SPARSE:
        return data_write(&(struct data_folder){.is_sparse = true}, is_directed);
    case NUMBERS:
        return data_write(&(struct data_folder){.has_numbers = true}, is_directed);
    case WEIGHTS:
        return data_write(&(struct data_folder){.has_weights = true}, is_directed);
    case EDGES:
        return data_write(&(struct data_folder){.has_edge_features = true}, is_directed);
    case FAR:
        return data_write(&(struct data_folder){.has_edge_features = true, .is_far = true}, is_directed);
    case TYPED:
        return data_typed(is_directed ? "typed1" : "typed0", 0, 4, false, false);
    case BARE:
        return data_typed(is_directed ? "bare1" : "bare0", 50, 4, true, false);
    }
    return NULL;
}

static int length(const char *const list[])
{
    int n = 0;
    for (; list != NULL && list[n] != NULL; n++) {
    }
    return n;
}

/* Each model on one of its graphs, with one of the settings of [exchange] and one of [train]. Without TEST_THOROUGH one of three is taken of
 * many models, and every other one of several: each part of them meets each setting. */
static void expect_same_bits(const char *const models[], enum data data, const char *partition,
                             const char *const exchange[], const char *const train[])
{
    const int n_model = length(models), n_exchange = length(exchange), n_train = length(train);
    const int stride = getenv("TEST_THOROUGH") != NULL || n_model <= 3 ? 1 : n_model > 5 ? 3 : 2;
    const char *graphs[6];
    for (int i = 0; i < 6; i++) { /* all graphs of a kind, once */
        graphs[i] = i < 2 || data == WIDE || data == CLUB ? data_of(data, i) : graphs[i % 2];
    }
    for (int m = (int)(ways_first() % (size_t)stride); m < n_model; m += stride) {
        const int turn = m / stride;
        const struct task task = {.data = graphs[(data == WIDE || data == CLUB ? m : m + m / 2) % 6],
                                  .model = models[m],
                                  .partition = partition,
                                  .exchange = n_exchange > 0 ? exchange[turn % n_exchange] : NULL,
                                  .train = n_train > 0 ? train[turn % n_train] : NULL};
        compare_all_ways(&task);
    }
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#define SAME(name, models, data, exchange, train)                                                                    \
    Test(bits, name, .timeout = 600)                                                                                 \
    {                                                                                                                \
        expect_same_bits(models, data, NULL, exchange, train);                                                       \
    }
#define SAME_PARTS(name, models, data, partition, exchange, train)                                                   \
    Test(bits, name, .timeout = 600)                                                                                 \
    {                                                                                                                \
        expect_same_bits(models, data, partition, exchange, train);                                                  \
    }

#define PRUNED LIST("prune = 'always'")
#define BF16 LIST("precision = 'bf16'")
#define FEEDBACK "error_feedback = true\n"

/* Features: models, graphs, settings of [exchange], and of [train]. */
SAME(models_that_sum, sums, GRAPHS, NULL, NULL)
SAME(models_that_take_maxima, maximum, GRAPHS, NULL, NULL)
SAME(models_with_attention, attention, GRAPHS, NULL, NULL)
SAME(programs_of_edges, programs, GRAPHS, NULL, NULL)
SAME_PARTS(sums_in_pieces, few_kinds, HUBS, "parts = 5\nmethod = 'block'", NULL,
           LIST("prune = 'never'", "prune = 'always'"))
SAME_PARTS(softmaxes_in_pieces, in_pieces, HUBS, "parts = 4\nmethod = 'block'", NULL, NULL)
SAME(models_of_relations, relations, GRAPHS, NULL, NULL)
SAME(batch_norm, batch_norm, GRAPHS, NULL, NULL)
SAME(bf16_that_is_summed, sums, GRAPHS, NULL, BF16)
SAME(bf16_of_inputs_that_are_stored, summed_inputs, GRAPHS, NULL, BF16)
SAME(bf16_of_each_kind, each, TYPED, LIST("sampling = 0.4", "codec = 'int8'", "stale = 1"), BF16)
SAME(bf16_of_maxima_and_norms, batch_norm, FEW, NULL, LIST("precision = 'bf16'\nprune = 'always'"))
SAME(bf16_in_lossy_rows, sums, WEIGHTS,
     LIST("sampling = 0.4", "codec = 'int4'\nerror_feedback = true", "stale = 1\ncodec = 'bf16'",
          "sampling = 0.3\ncodec = 'int8, fp32@2'\nguard_every = 2", "plain = true"),
     BF16)
SAME(bf16_of_sparse_features, summed_inputs, SPARSE, NULL, LIST("precision = 'bf16'\nprune = 'always'"))
#define PRODUCTS "products = 'bf16'"
SAME(products_in_bf16, each, GRAPHS, NULL, LIST(PRODUCTS, PRODUCTS "\nprecision = 'bf16'\nprune = 'always'"))
SAME(products_in_bf16_of_lossy_rows, some, FEW, LIST("sampling = 0.4", "codec = 'int8'"), LIST(PRODUCTS))
SAME(bf16_of_layers_that_are_read_twice, layers_read_twice, GRAPHS, NULL, BF16)
SAME(layers_that_are_read_twice, layers_read_twice, GRAPHS, NULL, NULL)
SAME(weights_of_edges, sums, WEIGHTS, NULL, NULL)
SAME(weights_of_edges_in_lossy_rows, sums, WEIGHTS, LIST("sampling = 0.4", "codec = 'int8'", "stale = 1"), NULL)
SAME(features_of_edges, attention, EDGES, NULL, NULL)
SAME(features_of_edges_in_lossy_rows, attention, EDGES,
     LIST("sampling = 0.4", "codec = 'int8'", "stale = 1", "plain = true", "sampling = 0.5\ncodec = 'int8'"), NULL)
SAME(features_of_edges_of_pruned_epochs, attention, FAR, NULL, PRUNED)
SAME(embeddings, typed, TYPED, NULL, NULL)
SAME(rows_of_nodes_own, rows_of_nodes_own, BARE, NULL, PRUNED)
SAME(rows_of_nodes_own_lossy, rows_of_nodes_own, BARE,
     LIST("sampling = 0.4", "codec = 'int4'\nerror_feedback = true"), NULL)
SAME(rows_of_nodes_own_stale, rows_of_nodes_own, BARE, LIST("stale = 1", "codec = 'int8'"), NULL)
SAME(features_made_of_the_graph, each, CLUB, NULL, NULL)

SAME(inputs_stored_as_sparse_rows, inputs, SPARSE, NULL, NULL)
SAME(inputs_stored_as_dense_rows, inputs, WIDE, NULL, NULL)
SAME(inputs_stored_of_pruned_epochs, inputs, FEW, NULL, PRUNED)
SAME(inputs_stored_beside_lossy_rows, summed_inputs, SPARSE, LIST("sampling = 0.3", "codec = 'int4'", "stale = 1"),
     NULL)
SAME(inputs_stored_beside_a_guard, summed_inputs, SPARSE,
     LIST("codec = 'int2'\nerror_feedback = true", "sampling = 0.5\ncodec = 'int2, int8@2'\nguard_every = 2"), NULL)

SAME(pruned_epochs, each, FEW, NULL, PRUNED)
SAME(pruned_maxima, maximum, FEW, NULL, PRUNED)
SAME(pruned_sampled_rows, some, FEW,
     LIST("sampling = 0.3\ncodec = 'int8'", "sampling = 0.5", "sampling = 0.3\ncodec = 'int4'"), PRUNED)
SAME(pruned_coded_rows, some, FEW,
     LIST("codec = 'int8'", "codec = 'int4'\ncodec_backward = 'int8'", "codec = 'bf16'\ncodec_backward = 'fp32'",
          "codec = 'int2'"),
     PRUNED)
SAME(pruned_stale_rows, some, FEW, LIST("stale = 1"), PRUNED)
SAME(pruned_rows_with_feedback, some, FEW, LIST(FEEDBACK "codec = 'int8'", FEEDBACK "sampling = 0.5\ncodec = 'int2'"),
     PRUNED)

SAME(sampled_rows, each, GRAPHS, LIST("sampling = 0.3", "sampling = 0.3\nplain = true", "sampling = 0.0"), NULL)
SAME(sampled_maxima, maximum, GRAPHS,
     LIST("sampling = 0.3", "sampling = 0.3\ncodec = 'int8, fp32@2'\nguard_every = 2"), NULL)
SAME(coded_rows, each, GRAPHS,
     LIST("codec = 'int8'", "codec = 'int4'\ncodec_backward = 'int8'", "codec = 'bf16'\ncodec_backward = 'fp32'",
          "codec = 'int2'", "codec = 'fp32'\ncodec_backward = 'int4'"),
     NULL)
SAME(coded_maxima, maximum, GRAPHS, LIST("codec = 'int4'", "codec = 'bf16'\nerror_feedback = true"), NULL)
SAME(sampled_and_coded_rows, some, GRAPHS,
     LIST("sampling = 0.3\ncodec = 'int8'", "sampling = 0.3\ncodec = 'int4'\ncodec_backward = 'int8'",
          "sampling = 0.3\ncodec = 'bf16'"),
     NULL)
SAME(codecs_that_change, some, GRAPHS,
     LIST("codec = 'int4, int8@2, fp32@3, bf16@5'", "codec = 'fp32, int2@1'\ncodec_backward = 'int8, fp32@2'",
          "sampling = 0.3\ncodec = 'int2, int8@1'"),
     NULL)
SAME(stale_rows, each, GRAPHS, LIST("stale = 1"), NULL)
SAME(stale_coded_rows, some, GRAPHS,
     LIST("stale = 1\ncodec = 'int8'", "stale = 1\ncodec = 'int4, int8@2'", "stale = 1\ncodec = 'bf16'",
          "stale = 1\ncodec = 'int8, fp32@1, int2@2'"),
     NULL)
SAME(rows_with_feedback, each, GRAPHS,
     LIST(FEEDBACK "codec = 'int8'", FEEDBACK "codec = 'int2'\ncodec_backward = 'int8'",
          FEEDBACK "codec = 'bf16'\ncodec_backward = 'fp32'", FEEDBACK "codec = 'fp32'\ncodec_backward = 'int4'"),
     NULL)
SAME(sampled_rows_with_feedback, some, GRAPHS,
     LIST(FEEDBACK "codec = 'int8'\nsampling = 0.4", FEEDBACK "codec = 'int4'\nsampling = 0.2",
          FEEDBACK "codec = 'int2'\nsampling = 0.0"),
     NULL)
SAME(changing_codecs_with_feedback, some, GRAPHS,
     LIST(FEEDBACK "codec = 'int4, int8@2, fp32@3, int2@4'",
          FEEDBACK "codec = 'fp32, int2@1'\ncodec_backward = 'int8, fp32@2'"),
     NULL)
SAME(a_guard_that_backs_off, some, GRAPHS,
     LIST("sampling = 0.3\ncodec = 'int4, int8@5'\nguard_every = 2\nguard_limit = 0.01",
          "codec = 'int2'\ncodec_backward = 'int8'\nguard_every = 1\nguard_limit = 0.2"),
     NULL)
SAME(a_guard_of_layers_that_are_read_twice, layers_read_twice, GRAPHS,
     LIST("codec = 'int4'\nguard_every = 2\nguard_limit = 0.01"), NULL)
SAME(a_guard_of_stale_rows, some, GRAPHS,
     LIST("stale = 1\nguard_every = 3\nguard_limit = 0.01", "stale = 1\nguard_every = 2\nguard_limit = 1e6"), NULL)
SAME(a_guard_of_stale_coded_rows, some, GRAPHS,
     LIST("stale = 1\ncodec = 'int4, int8@2, bf16@5'\nguard_every = 3\nguard_limit = 1e6",
          "stale = 1\ncodec = 'int4'\ncodec_backward = 'int8'\nguard_every = 1\nguard_limit = 0.0"),
     NULL)
SAME(a_guard_with_feedback, some, GRAPHS,
     LIST(FEEDBACK "codec = 'int2'\nguard_every = 2\nguard_limit = 0.01",
          FEEDBACK "sampling = 0.3\ncodec = 'int4'\nguard_every = 2\nguard_limit = 0.01"),
     NULL)
SAME(a_guard_of_embeddings, typed, TYPED, LIST("sampling = 0.3\nguard_every = 2\nguard_limit = 0.01"), NULL)

#define CLIPPED "optimizer = 'sgd'\nmomentum = 0.9\nclip_norm = 0.01"
SAME(clipped_gradients, few_kinds, GRAPHS, LIST("", "codec = 'int4'\nguard_every = 2", "sampling = 0.4"),
     LIST(CLIPPED, CLIPPED, CLIPPED "\nprune = 'always'"))
SAME(clipped_gradients_of_embeddings, typed, TYPED, NULL, LIST(CLIPPED))
SAME(weights_of_classes_and_smoothing, few_kinds, GRAPHS, LIST("", "sampling = 0.4"),
     LIST("class_weights = 'balanced'\nlabel_smoothing = 0.2", "class_weights = 'balanced'\nprune = 'always'"))
SAME(several_labels_a_node, few_kinds, SEVERAL, NULL, LIST("class_weights = 'balanced'"))
SAME(losses_of_numbers, few_kinds, NUMBERS, LIST("", "codec = 'int8'", "sampling = 0.4"),
     LIST("loss = 'mse'", "loss = 'huber'\n" CLIPPED, "loss = 'mae'\nprune = 'always'"))

/* Rows that several parts of a worker take travel once; some of nine parts of a pruned job have no edge that counts. */
#define ELEVEN "parts = 11\nmethod = 'random'"
#define NINE "parts = 9\nmethod = 'random'"
SAME_PARTS(rows_that_parts_of_a_worker_share, each, GRAPHS, ELEVEN, NULL, NULL)
SAME_PARTS(maxima_that_parts_of_a_worker_share, maximum, FEW, ELEVEN, NULL,
           LIST("prune = 'never'", "prune = 'always'"))
SAME_PARTS(lossy_rows_that_parts_of_a_worker_share, some, GRAPHS, ELEVEN,
           LIST("sampling = 0.3", "codec = 'int4'\nerror_feedback = true",
                "sampling = 0.3\ncodec = 'int8, fp32@2'\nguard_every = 2"),
           NULL)
SAME_PARTS(pruned_rows_that_parts_of_a_worker_share, some, FEW, NINE, LIST("", "sampling = 0.3"), PRUNED)

/* Pairs of nodes: every part meets every other one. */
#define LINKS "\n[task]\nkind = 'link'\nchannels = 9"
SAME(links, each, GRAPHS, LIST("", "codec = 'int8'", "sampling = 0.4", "stale = 1", "plain = true"),
     LIST("lr = 0.01" LINKS, "lr = 0.01" LINKS "\nnegatives = 3"))
SAME(links_of_norms_and_embeddings, batch_norm, CLUB, NULL, LIST("weight_decay = 0.01" LINKS))
SAME(links_of_typed_edges, typed, TYPED, LIST("", "codec = 'int4'\nguard_every = 2"), LIST("lr = 0.02" LINKS))
SAME(links_in_bf16, some, GRAPHS, NULL, LIST("precision = 'bf16'" LINKS))
SAME(links_of_ends, some, GRAPHS, LIST("", "codec = 'int8'"),
     LIST("loss = 'margin'" LINKS "\nnegatives = 2\nmargin = 0.7", "loss = 'cross_entropy'" LINKS "\nnegatives = 3",
          "loss = 'bce'" LINKS "\nsampling = 'ends'"))
SAME(links_of_layers, some, GRAPHS, NULL,
     LIST("lr = 0.01" LINKS "\ndecoder = 'mlp'\ndecoder_hidden = 5", PRODUCTS LINKS "\ndecoder = 'mlp'",
          "loss = 'margin'" LINKS "\ndecoder = 'mlp'\ndecoder_layers = 3"))
SAME(links_of_relations, of_relations, TYPED, NULL,
     LIST("lr = 0.02" LINKS "\ndecoder = 'distmult'\nnegatives = 2",
          "loss = 'cross_entropy'" LINKS "\ndecoder = 'distmult'\nnegatives = 3"))
SAME_PARTS(links_of_ends_of_parts_of_a_worker, some, GRAPHS, ELEVEN, NULL,
           LIST("loss = 'cross_entropy'" LINKS "\nnegatives = 2"))
SAME_PARTS(links_of_parts_of_a_worker, some, GRAPHS, ELEVEN, NULL, LIST("clip_norm = 0.1" LINKS "\nnegatives = 2"))

Test(bits, the_reference_device)
{
    static const char *const settings[] = {"", "sampling = 0.3\ncodec = 'int8'", "stale = 1",
                                           "codec = 'int2'\nerror_feedback = true"};
    for (int m = 0; each[m] != NULL; m++) {
        for (int s = 0; s < 4; s++) {
            if (s == m % 4 || getenv("TEST_THOROUGH") != NULL) {
                compare_reference(
                    &(struct task){.data = data_graphs[m % 2], .model = each[m], .exchange = settings[s]});
            }
        }
    }
}

/* workers 1, 2, 4 × threads 1, 2 × prefetch 0, 1, 3 × both schedules */
Test(bits, all_36_combinations_of_workers_threads_prefetch_and_schedule)
{
    static const int workers[] = {1, 2, 4}, prefetches[] = {0, 1, 3};
    struct way ways[36];
    for (int i = 0; i < 36; i++) {
        ways[i] = (struct way){.workers = workers[i % 3],
                               .threads = 1 + i / 3 % 2,
                               .prefetch = prefetches[i / 6 % 3],
                               .is_halo = i >= 18};
    }
    compare_ways(&(struct task){.data = data_graphs[0], .model = "kind = 'gcn'\nhidden = 16\ndropout = 0.5"},
                 &compare_plain, ways, 36);
}

/* 4 000 rows of 640 bytes and more, of the second layer, are several pieces; values and keys are in one payload. */
Test(bits, payloads_sent_in_pieces)
{
    const struct task task = {.data = "generator = 'sbm'\nnodes = 8000\ndegree = 10\nclasses = 4\nfeatures = 8",
                              .model = "kind = 'gat'\nlayers = 3\nhidden = 40\nheads = 4\nattention_dropout = 0.2",
                              .epochs = 2};
    static const struct way one = {.threads = 2, .prefetch = 1},
                            pieces[] = {{.workers = 2}, {.workers = 2, .prefetch = 1, .is_halo = true}};
    struct cluster_result result;
    compare_ways(&task, &one, pieces, SANITIZED ? 1 : 2);
    compare_run(&task, &pieces[1], &result);
    cr_expect_gt(result.planned[MEMORY_PAYLOADS], 4 * MEMORY_PACK_BYTES, "no payload is larger than a piece");
    cluster_release(&result);
}
