/* The set of kernels compiled for plain C. */
#include "models/cpu/kernels/kernels.h"
#include "models/device/codec.h"

#include "models/cpu/kernels/vector_portable.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Each piece uses those before it. */
/* clang-format off */
#include "models/cpu/kernels/kernels_sum.inc.h"
#include "models/cpu/kernels/kernels_pointwise.inc.h"
#include "models/cpu/kernels/kernels_codec.inc.h"
#include "models/cpu/kernels/kernels_run.inc.h"
#include "models/cpu/kernels/kernels_edges.inc.h"
#include "models/cpu/kernels/kernels_features.inc.h"
#include "models/cpu/kernels/kernels_scores.inc.h"
#include "models/cpu/kernels/kernels_attention.inc.h"
#include "models/cpu/kernels/kernels_narrow.inc.h"
#include "models/cpu/kernels/kernels_short.inc.h"
#include "models/cpu/kernels/kernels_rows.inc.h"
#include "models/cpu/kernels/kernels_tile.inc.h"
#include "models/cpu/kernels/kernels_tile_results.inc.h"
#include "models/cpu/kernels/kernels_links.inc.h"
#include "models/cpu/kernels/kernels_pairs.inc.h"
#include "models/cpu/kernels/kernels_product.inc.h"
/* clang-format on */

const struct cpu_kernels cpu_kernels_portable = {
    "portable",        sum_rows,   sum_piece,    max_rows,    draw,        drop_values,    activate_forward,
    activate_backward, column_sum, tile_run,     tile_reduce, tile_weigh,  attention_rows, attention_piece,
    attention_begin,   head_dot,   head_dot_sum, link_row,    pair_scores, pair_gradients, pair_losses,
    encode_row,        decode_row, round_row,    transpose,   product,     product_small,
};
