/* Names, tokens and nodes of the parser. Its rules are parser_statement.c and parser_expression.c. */
#include "protocol/vertex/parser.h"

#include "protocol/base/memory.h"
#include "protocol/base/printable.h"

#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- names --- */

struct name {
    const char *text;
    int32_t n, number;
};

static int name_compare(const void *a, const void *b)
{
    const struct name *left = a, *right = b;
    return left->n != right->n ? (left->n < right->n ? -1 : 1) : memcmp(left->text, right->text, (size_t)left->n);
}

static int32_t name_number(struct parser *parser, struct vertex_span at)
{
    struct vertex_tree *tree = &parser->tree;
    struct name key = {.text = tree->source.text + at.begin, .n = at.end - at.begin, .number = tree->n_name};
    struct name **found = tfind(&key, &tree->names, name_compare);
    if (found != NULL) {
        return (*found)->number;
    }
    struct name *added = memory_alloc(1, sizeof *added);
    *added = key;
    tsearch(added, &tree->names, name_compare);
    tree->name = memory_list_grow(tree->name, tree->n_name, sizeof *tree->name);
    tree->name[tree->n_name] = at;
    parser->slot_of = memory_list_grow(parser->slot_of, tree->n_name, sizeof *parser->slot_of);
    parser->slot_in = memory_list_grow(parser->slot_in, tree->n_name, sizeof *parser->slot_in);
    parser->slot_in[tree->n_name] = -1;
    return tree->n_name++;
}

int32_t vertex_tree_name(const struct vertex_tree *tree, const char *name)
{
    const struct name key = {.text = name, .n = (int32_t)strlen(name)};
    struct name **found = tfind(&key, &tree->names, name_compare);
    return found != NULL ? (*found)->number : -1;
}

static bool span_is(const struct vertex_tree *tree, struct vertex_span at, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(at.end - at.begin) == n && memcmp(tree->source.text + at.begin, text, n) == 0;
}

int vertex_assigned(const struct vertex_tree *tree, enum vertex_node_kind kind, int32_t name)
{
    for (int32_t i = 0; i < tree->n_node; i++) {
        for (int32_t t = tree->node[i].kind == VERTEX_NODE_ASSIGN ? tree->node[i].a : -1; t >= 0;
             t = tree->node[t].next) {
            if (tree->node[t].kind == kind && tree->node[t].name == name) {
                return vertex_line(&tree->source, tree->node[t].at.begin);
            }
        }
    }
    return 0;
}

bool vertex_name_is(const struct vertex_tree *tree, int32_t name, const char *text)
{
    return name >= 0 && span_is(tree, tree->name[name], text);
}

/* A variable of the function that is read. */
int32_t parser_slot(struct parser *parser, int32_t name)
{
    if (parser->function < 0) { /* settings have no variables */
        return -1;
    }
    struct vertex_function *function = &parser->tree.function[parser->function];
    if (parser->slot_in[name] != parser->function) {
        parser->slot_in[name] = parser->function;
        parser->slot_of[name] = function->n_slot++;
    }
    return parser->slot_of[name];
}

/* --- tokens --- */

/* Nothing is read behind a mistake. */
static void stop(struct parser *parser, enum status status)
{
    if (parser->status == STATUS_OK && status != STATUS_OK) {
        parser->status = status;
        parser->token.kind = VERTEX_TOKEN_END;
    }
}

void parser_advance(struct parser *parser)
{
    if (parser->status == STATUS_OK) {
        parser->last = parser->token.at;
        stop(parser, vertex_lexer_next(&parser->lexer, &parser->token));
    }
}

void parser_fail(struct parser *parser, struct vertex_span at, const char *format, ...)
{
    char sentence[512];
    if (parser->status == STATUS_OK) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(sentence, sizeof sentence, format, arguments);
        va_end(arguments);
        stop(parser, vertex_fail(&parser->tree.source, at, "%s", sentence));
    }
}

bool parser_is_sign(const struct parser *parser, enum vertex_sign sign)
{
    return parser->token.kind == VERTEX_TOKEN_SIGN && parser->token.sign == sign;
}

bool parser_is_word(const struct parser *parser, const char *word)
{
    return parser->token.kind == VERTEX_TOKEN_NAME && span_is(&parser->tree, parser->token.at, word);
}

bool vertex_word_is_foreign(const char *word, size_t n)
{
    static const char *const words[] = {"while",  "import",  "from",   "lambda",   "class", "try",
                                        "except", "finally", "raise",  "with",     "as",    "async",
                                        "await",  "yield",   "global", "nonlocal", "del",   "assert",
                                        "pass",   "break",   "is",     "continue", "None"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i]) == n && memcmp(words[i], word, n) == 0) {
            return true;
        }
    }
    return false;
}

/* Words of the grammar, which are no names. */
static bool is_reserved(const struct parser *parser)
{
    static const char *const words[] = {"def", "return", "if", "elif", "else", "for",
                                        "in",  "and",    "or", "not",  "True", "False"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (parser_is_word(parser, words[i])) {
            return true;
        }
    }
    return false;
}

/* Is it Python's, but not the grammar's? */
static bool is_foreign(const struct parser *parser)
{
    const struct vertex_span at = parser->token.at;
    return parser->token.kind == VERTEX_TOKEN_NAME &&
           vertex_word_is_foreign(parser->tree.source.text + at.begin, (size_t)(at.end - at.begin));
}

void parser_expected(struct parser *parser, const char *what)
{
    const struct vertex_token *token = &parser->token;
    const char *mark = token->kind == VERTEX_TOKEN_TEXT ? "\"" : "";
    char quoted[VERTEX_QUOTE_BYTES];
    vertex_quote(&parser->tree.source, token->at, quoted);
    switch (token->kind) {
    case VERTEX_TOKEN_END:
        parser_fail(parser, token->at, "the text ends here; expected %s", what);
        break;
    case VERTEX_TOKEN_NEWLINE:
        parser_fail(parser, token->at, "the line ends here; expected %s", what);
        break;
    case VERTEX_TOKEN_INDENT:
    case VERTEX_TOKEN_DEDENT:
        parser_fail(parser, token->at, "the statement begins in another column; expected %s", what);
        break;
    default:
        if (is_foreign(parser)) {
            parser_fail(parser, token->at, "%s is not part of programs; " VERTEX_GRAMMAR, quoted);
        } else {
            parser_fail(parser, token->at, "%s%s%s; expected %s", mark, quoted, mark, what);
        }
    }
}

void parser_take_sign(struct parser *parser, enum vertex_sign sign, const char *after)
{
    if (!parser_is_sign(parser, sign)) {
        char what[96];
        snprintf(what, sizeof what, "%s%s", vertex_sign_text(sign), after);
        parser_expected(parser, what);
    }
    parser_advance(parser);
}

void parser_take_word(struct parser *parser, const char *word, const char *after)
{
    if (!parser_is_word(parser, word)) {
        char what[96];
        snprintf(what, sizeof what, "%s%s", word, after);
        parser_expected(parser, what);
    }
    parser_advance(parser);
}

int32_t parser_take_name(struct parser *parser, const char *what)
{
    if (parser->token.kind != VERTEX_TOKEN_NAME || is_reserved(parser) || is_foreign(parser)) {
        parser_expected(parser, what);
        return -1;
    }
    int32_t name = name_number(parser, parser->token.at);
    parser_advance(parser);
    return name;
}

/* --- nodes --- */

/* A node whose text begins at `begin` and ends where the parser is. */
int32_t parser_node(struct parser *parser, enum vertex_node_kind kind, int32_t begin)
{
    struct vertex_tree *tree = &parser->tree;
    tree->node = memory_list_grow(tree->node, tree->n_node, sizeof *tree->node);
    tree->node[tree->n_node] = (struct vertex_node){.kind = kind,
                                                    .at = {begin, parser->last.end},
                                                    .a = -1,
                                                    .b = -1,
                                                    .c = -1,
                                                    .next = -1,
                                                    .body = -1,
                                                    .name = -1,
                                                    .slot = -1};
    return tree->n_node++;
}

struct vertex_node *parser_at(struct parser *parser, int32_t node)
{
    return &parser->tree.node[node];
}

/* A node of two operands. */
int32_t parser_binary(struct parser *parser, enum vertex_node_kind kind, enum vertex_sign sign, int32_t begin,
                      int32_t a, int32_t b)
{
    int32_t node = parser_node(parser, kind, begin);
    parser_at(parser, node)->sign = sign;
    parser_at(parser, node)->a = a;
    parser_at(parser, node)->b = b;
    return node;
}

/* Expressions within expressions, each of which the parser and the trace go into. */
void parser_deeper(struct parser *parser)
{
    if (++parser->depth > 2 * VERTEX_LEVEL_MOST) { /* a bracket takes two */
        parser_fail(parser, parser->token.at, "expressions are nested more than %d deep", 2 * VERTEX_LEVEL_MOST);
    }
}

/* Comments and texts may have any character of UTF-8 but control characters. */
static enum status check_bytes(const struct vertex_source *source)
{
    for (int32_t i = 0, n; i < source->n; i += n) {
        unsigned char byte = (unsigned char)source->text[i];
        bool is_ascii = byte < 0x80, is_line = byte == '\n' || byte == '\r' || byte == '\t';
        n = is_ascii ? 1 : (int32_t)printable_character(source->text + i);
        if (n == 0 || (is_ascii && (byte < 0x20 || byte == 0x7F) && !is_line)) {
            return vertex_fail(source, (struct vertex_span){i, i + 1},
                               "byte 0x%02x is no character of a text in UTF-8", byte);
        }
    }
    return STATUS_OK;
}

enum status vertex_tree_parse(const char *text, size_t n_bytes, const char *origin, struct vertex_tree *out)
{
    if (n_bytes > VERTEX_TEXT_MOST) {
        return status_fail(STATUS_CONFIG, "%s: has %zu bytes; expected a program of at most %d", origin, n_bytes,
                           VERTEX_TEXT_MOST);
    }
    char *copy = memory_alloc(n_bytes + 1, 1);
    memcpy(copy, text, n_bytes);
    struct parser parser = {
        .tree = {.source = {.origin = strdup(origin), .text = copy, .n = (int32_t)n_bytes}, .settings = -1},
        .function = -1};
    vertex_lexer_init(&parser.tree.source, &parser.lexer);
    stop(&parser, check_bytes(&parser.tree.source));
    parser_text(&parser);
    free(parser.slot_of);
    free(parser.slot_in);
    if (parser.status != STATUS_OK) {
        vertex_tree_release(&parser.tree);
        return parser.status;
    }
    *out = parser.tree;
    return STATUS_OK;
}

void vertex_tree_release(struct vertex_tree *tree)
{
    tdestroy(tree->names, free);
    free(tree->node);
    free(tree->function);
    free(tree->name);
    free((void *)(uintptr_t)tree->source.text);
    free((void *)(uintptr_t)tree->source.origin);
    *tree = (struct vertex_tree){0};
}
