/* The syntax tree of a vertex program: what the parser makes and the trace walks. Nodes lie in one list and name each
 * other by number, -1 for nothing; lists of nodes are linked by `next`.
 */
#ifndef PROTOCOL_VERTEX_TREE_H
#define PROTOCOL_VERTEX_TREE_H

#include "protocol/vertex/lexer.h"

enum vertex_node_kind {
    VERTEX_NODE_NUMBER,
    VERTEX_NODE_BOOL,     /* number: 0 or 1 */
    VERTEX_NODE_TEXT,     /* between the quotes at both ends of its span */
    VERTEX_NODE_NAME,     /* name, slot */
    VERTEX_NODE_FIELD,    /* a.name */
    VERTEX_NODE_INDEX,    /* a[b] */
    VERTEX_NODE_COLUMNS,  /* a[:, b:c]; b or c -1 where the text has nothing */
    VERTEX_NODE_CALL,     /* a(list b) */
    VERTEX_NODE_KEYWORD,  /* name = a, in a call */
    VERTEX_NODE_NEGATIVE, /* -a */
    VERTEX_NODE_BINARY,   /* a sign b: arithmetic, or a comparison */
    VERTEX_NODE_NOT,      /* not a */
    VERTEX_NODE_AND,      /* a and b */
    VERTEX_NODE_OR,       /* a or b */
    VERTEX_NODE_CHOICE,   /* a if b else c */
    VERTEX_NODE_REDUCE,   /* name(a for e in b if e.relation == c); c -1: all in-edges; slot: of e */
    VERTEX_NODE_ASSIGN,   /* list a = list b; a: NAME, or FIELD of v */
    VERTEX_NODE_RETURN,   /* a */
    VERTEX_NODE_IF,       /* if a: list b, else: list c */
    VERTEX_NODE_FOR,      /* for NAME c in range(a, b): list `body`; a -1: from 0 */
    VERTEX_NODE_PARAMETER /* name = a; a -1: it has no default */
};

struct vertex_node {
    enum vertex_node_kind kind;
    enum vertex_sign sign;
    struct vertex_span at;
    int32_t a, b, c, next;
    int32_t body; /* FOR */
    int32_t name; /* into names */
    int32_t slot; /* NAME, PARAMETER, REDUCE: of the function's variables; -1: it is no variable there */
    double number;
};

struct vertex_function {
    struct vertex_span at; /* its name */
    int32_t name, parameters, body;
    int32_t n_slot; /* variables, parameters first */
};

struct vertex_tree {
    struct vertex_source source; /* owns its text and origin */
    int32_t n_node, n_function, n_name;
    struct vertex_node *node;
    struct vertex_function *function;
    struct vertex_span *name; /* where each name stands first */
    int32_t settings;         /* list of ASSIGN before the functions: NAME = static */
    void *names;              /* finds a name's number (tsearch) */
};

/* Parse a text by the grammar of docs/programs.md. Names are not looked up yet, but for the variables of functions.
 *
 *   owns    borrows text and origin; the caller owns *out: vertex_tree_release
 *   errors  STATUS_CONFIG "ORIGIN:LINE:COLUMN: …" with the line and a caret, for the first mistake; *out untouched
 *   cost    time and memory linear in the text */
enum status vertex_tree_parse(const char *text, size_t n_bytes, const char *origin, struct vertex_tree *out);
void vertex_tree_release(struct vertex_tree *tree);

/* The number of a name, -1: the text does not have it. */
int32_t vertex_tree_name(const struct vertex_tree *tree, const char *name);

/* The line where v.NAME (kind FIELD), or NAME alone (kind NAME), is assigned; 0: nowhere. */
int vertex_assigned(const struct vertex_tree *tree, enum vertex_node_kind kind, int32_t name);

/* Is a name this one? */
bool vertex_name_is(const struct vertex_tree *tree, int32_t name, const char *text);

/* Is a word Python's, but not the grammar's? */
bool vertex_word_is_foreign(const char *word, size_t n);

#endif
