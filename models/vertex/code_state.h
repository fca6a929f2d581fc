/* Appending to a tile program under construction. Shared by the code*.c files. */
#ifndef MODELS_VERTEX_CODE_STATE_H
#define MODELS_VERTEX_CODE_STATE_H

#include "models/vertex/code.h"

void code_append(struct code *code, const struct tile_instruction *of, int buffer);
void code_result_append(struct code *code, const struct tile_result *of);

/* The same numbers where a result can read them: side by side, and no numbers of the program's own. */
struct code_value code_side_by_side(struct code *code, struct code_value value);

/* heads × columns of a buffer, from float `at` on, and with heads as far apart as told. */
struct code_value code_in_buffer(int buffer, int64_t at, int64_t head, int64_t n_head, int64_t n_column);

/* Append an instruction whose result is a fresh buffer. */
struct code_value code_result_add(struct code *code, struct tile_instruction of);

/* The operand of a result with so many heads and columns: one of either is repeated. */
struct tile_operand code_repeated(const struct code_value *value, int64_t n_head, int64_t n_column);

#endif
