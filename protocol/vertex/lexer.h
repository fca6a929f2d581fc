/* From the text of a vertex program to tokens, one at a time: names, numbers, texts in quotes, signs, and as in
 * Python the ends of lines and the begins and ends of blocks. Independent of grammar.
 */
#ifndef PROTOCOL_VERTEX_LEXER_H
#define PROTOCOL_VERTEX_LEXER_H

#include "protocol/vertex/source.h"

#include <stdbool.h>

#define VERTEX_LEVEL_MOST 64 /* nested blocks; nested expressions; calls within calls */

enum vertex_token_kind {
    VERTEX_TOKEN_END,
    VERTEX_TOKEN_NEWLINE,
    VERTEX_TOKEN_INDENT,
    VERTEX_TOKEN_DEDENT,
    VERTEX_TOKEN_NAME,
    VERTEX_TOKEN_NUMBER,
    VERTEX_TOKEN_TEXT,
    VERTEX_TOKEN_SIGN,
};

/* Signs, the longer of two that begin alike first. */
/* clang-format off */
#define VERTEX_SIGN_LIST(X)                                                                             \
    X(POWER, "**") X(EQUAL, "==") X(UNEQUAL, "!=") X(LESS_EQUAL, "<=") X(GREATER_EQUAL, ">=")           \
    X(PLUS, "+") X(MINUS, "-") X(TIMES, "*") X(OVER, "/") X(AT, "@") X(LESS, "<") X(GREATER, ">")       \
    X(ASSIGN, "=") X(OPEN, "(") X(CLOSE, ")") X(OPEN_SQUARE, "[") X(CLOSE_SQUARE, "]") X(COMMA, ",")    \
    X(COLON, ":") X(DOT, ".")
/* clang-format on */

enum vertex_sign {
#define X(name, text) VERTEX_SIGN_##name,
    VERTEX_SIGN_LIST(X)
#undef X
        VERTEX_SIGN_N
};

/* "+", … */
const char *vertex_sign_text(enum vertex_sign sign);

struct vertex_token {
    enum vertex_token_kind kind;
    struct vertex_span at; /* TEXT: between its quotes */
    enum vertex_sign sign; /* SIGN */
    double number;         /* NUMBER */
};

/* Where the lexer is. */
struct vertex_lexer {
    const struct vertex_source *source;
    int32_t at;
    bool begins;                       /* at the begin of a line whose indent counts */
    int n_close;                       /* blocks that end here */
    int n_open;                        /* open brackets: line ends do not count within them */
    int32_t open[VERTEX_LEVEL_MOST];   /* their places */
    int n_indent;                      /* blocks around it */
    int indent[VERTEX_LEVEL_MOST + 1]; /* their columns, indent[0] = 0 */
};

void vertex_lexer_init(const struct vertex_source *source, struct vertex_lexer *out);

/* The next token; behind the last one END again and again.
 * errors  STATUS_CONFIG a character, number or text that programs do not have; indents that do not fit; brackets that
 *         do not close; nesting past VERTEX_LEVEL_MOST */
enum status vertex_lexer_next(struct vertex_lexer *lexer, struct vertex_token *out);

#endif
