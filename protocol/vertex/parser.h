/* The parser: one function for each rule of the grammar, which reads on from the next token and returns the node that
 * it made. The first mistake ends the text: the next token is its end then, and what rules still make is thrown away.
 * Shared by parser*.c. */
#ifndef PROTOCOL_VERTEX_PARSER_H
#define PROTOCOL_VERTEX_PARSER_H

#include "protocol/vertex/tree.h"

struct parser {
    enum status status; /* of the first mistake */
    struct vertex_tree tree;
    struct vertex_lexer lexer;
    struct vertex_token token; /* the next one */
    struct vertex_span last;   /* the one before */
    int depth;                 /* nested expressions */
    int32_t function;          /* that is read */
    int32_t *slot_of;          /* by name, in that function; valid where slot_in is that function */
    int32_t *slot_in;
};

/* The token behind the next one becomes the next one. */
void parser_advance(struct parser *parser);

/* Is the next token this sign, this word? */
bool parser_is_sign(const struct parser *parser, enum vertex_sign sign);
bool parser_is_word(const struct parser *parser, const char *word);

/* A mistake, unless there was one before; at the next token: something else is expected. */
void parser_fail(struct parser *parser, struct vertex_span at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void parser_expected(struct parser *parser, const char *what);

/* Advance past a sign, a word or a name (its number; -1: it is no name); `after` goes on with the sentence "expected
 * SIGN…". */
void parser_take_sign(struct parser *parser, enum vertex_sign sign, const char *after);
void parser_take_word(struct parser *parser, const char *word, const char *after);
int32_t parser_take_name(struct parser *parser, const char *what);

/* Append a node whose text begins at `begin` and ends where the parser is; with two operands. parser_at: that node,
 * until the next one is appended. */
int32_t parser_node(struct parser *parser, enum vertex_node_kind kind, int32_t begin);
int32_t parser_binary(struct parser *parser, enum vertex_node_kind kind, enum vertex_sign sign, int32_t begin,
                      int32_t a, int32_t b);
struct vertex_node *parser_at(struct parser *parser, int32_t node);

/* The number of a variable of the function that is read; -1: no function is. */
int32_t parser_slot(struct parser *parser, int32_t name);

/* One more level of nesting, which parser.depth counts; its end is the caller's. */
void parser_deeper(struct parser *parser);

/* parser_statement.c: the text from its first token on. */
void parser_text(struct parser *parser);

/* parser_expression.c: an expression from the next token on. */
int32_t parser_expression(struct parser *parser);

#endif
