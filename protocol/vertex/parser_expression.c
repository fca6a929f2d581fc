/* The rules of the grammar for expressions, one function for each, without going back. */
#include "protocol/vertex/parser.h"

/* NUMBER, TEXT, True, False, NAME, (expression) */
static int32_t parse_atom(struct parser *parser)
{
    struct vertex_token token = parser->token;
    bool is_true = parser_is_word(parser, "True"), is_bool = is_true || parser_is_word(parser, "False");
    bool is_number = token.kind == VERTEX_TOKEN_NUMBER, is_text = token.kind == VERTEX_TOKEN_TEXT;
    if (is_number || is_text || is_bool) {
        parser_advance(parser);
        int32_t node = parser_node(parser,
                                   is_number ? VERTEX_NODE_NUMBER
                                   : is_text ? VERTEX_NODE_TEXT
                                             : VERTEX_NODE_BOOL,
                                   token.at.begin - is_text);
        parser_at(parser, node)->at.end += is_text; /* with its quotes */
        parser_at(parser, node)->number = is_number ? token.number : is_true;
        return node;
    }
    if (parser_is_sign(parser, VERTEX_SIGN_OPEN)) {
        parser_advance(parser);
        int32_t node = parser_expression(parser);
        parser_take_sign(parser, VERTEX_SIGN_CLOSE, "");
        return node;
    }
    if (parser_is_sign(parser, VERTEX_SIGN_OPEN_SQUARE)) {
        parser_fail(parser, token.at, "a list is not part of programs; leave out [ and ], as in concat(x, y)");
    }
    int32_t name = parser_take_name(parser, "an expression"),
            node = parser_node(parser, VERTEX_NODE_NAME, token.at.begin);
    parser_at(parser, node)->name = name;
    return node;
}

/* if e.relation == static: the static. The only condition that chooses edges. */
static int32_t parse_relation(struct parser *parser, int32_t edge)
{
    parser_advance(parser);
    struct vertex_span at = parser->token.at;
    int32_t condition = parser_expression(parser);
    if (parser->status != STATUS_OK) {
        return -1;
    }
    const struct vertex_node *node = parser_at(parser, condition), *left = node;
    bool fits = node->kind == VERTEX_NODE_BINARY && node->sign == VERTEX_SIGN_EQUAL;
    if (fits) {
        left = parser_at(parser, node->a);
        fits = left->kind == VERTEX_NODE_FIELD && vertex_name_is(&parser->tree, left->name, "relation") &&
               parser_at(parser, left->a)->kind == VERTEX_NODE_NAME && parser_at(parser, left->a)->name == edge;
    }
    if (!fits) {
        parser_fail(parser, at, "edges are chosen by relation alone: expected if e.relation == a number");
        return -1;
    }
    return node->b;
}

/* e in v.in_edges [if e.relation == static], behind "for" */
static void parse_edges(struct parser *parser, int32_t reduce)
{
    struct vertex_span at = parser->token.at;
    int32_t edge = parser_take_name(parser, "e");
    if (edge >= 0 && !vertex_name_is(&parser->tree, edge, "e")) {
        parser_fail(parser, at, "edges are named e; expected for e in v.in_edges");
    }
    parser_take_word(parser, "in", " v.in_edges");
    int32_t begin = parser->token.at.begin, owner = parser_take_name(parser, "v.in_edges");
    int32_t edges = parser_node(parser, VERTEX_NODE_NAME, begin);
    parser_at(parser, edges)->name = owner;
    parser_take_sign(parser, VERTEX_SIGN_DOT, "in_edges: edges are v.in_edges");
    parser_take_word(parser, "in_edges", ": edges are v.in_edges");
    int32_t relation = parser_is_word(parser, "if") ? parse_relation(parser, edge) : -1;
    parser_take_sign(parser, VERTEX_SIGN_CLOSE, "");
    struct vertex_node *node = parser_at(parser, reduce);
    node->slot = edge >= 0 ? parser_slot(parser, edge) : -1;
    node->b = edges;
    node->c = relation;
    node->at.end = parser->last.end;
}

/* One of a call's arguments: expression, or NAME = expression. */
static int32_t parse_argument(struct parser *parser)
{
    int32_t begin = parser->token.at.begin, argument = parser_expression(parser);
    if (!parser_is_sign(parser, VERTEX_SIGN_ASSIGN)) {
        return argument;
    }
    if (parser_at(parser, argument)->kind != VERTEX_NODE_NAME) {
        parser_expected(parser, ", or ) behind an argument");
    }
    parser_advance(parser);
    int32_t name = parser_at(parser, argument)->name, value = parser_expression(parser);
    int32_t keyword = parser_node(parser, VERTEX_NODE_KEYWORD, begin);
    parser_at(parser, keyword)->name = name;
    parser_at(parser, keyword)->a = value;
    return keyword;
}

/* The arguments behind "(", and the edges of a reduction. */
static int32_t parse_call(struct parser *parser, int32_t begin, int32_t callee)
{
    int32_t first = -1, last = -1;
    parser_advance(parser);
    while (parser->status == STATUS_OK && !parser_is_sign(parser, VERTEX_SIGN_CLOSE)) {
        int32_t argument = parse_argument(parser);
        if (parser_is_word(parser, "for")) {
            if (first >= 0 || parser_at(parser, callee)->kind != VERTEX_NODE_NAME) {
                parser_expected(parser, ") behind the arguments");
            }
            parser_advance(parser);
            int32_t reduce = parser_node(parser, VERTEX_NODE_REDUCE, begin);
            parser_at(parser, reduce)->a = argument;
            parser_at(parser, reduce)->name = parser_at(parser, callee)->name;
            parse_edges(parser, reduce);
            return reduce;
        }
        first = first < 0 ? argument : first;
        if (last >= 0) {
            parser_at(parser, last)->next = argument;
        }
        last = argument;
        if (!parser_is_sign(parser, VERTEX_SIGN_CLOSE)) {
            parser_take_sign(parser, VERTEX_SIGN_COMMA, " or ) behind an argument");
        }
    }
    parser_advance(parser);
    int32_t call = parser_node(parser, VERTEX_NODE_CALL, begin);
    parser_at(parser, call)->a = callee;
    parser_at(parser, call)->b = first;
    return call;
}

/* a[b], a[:, b:c] */
static int32_t parse_index(struct parser *parser, int32_t begin, int32_t of)
{
    int32_t from = -1, to = -1;
    parser_advance(parser);
    bool columns = parser_is_sign(parser, VERTEX_SIGN_COLON);
    if (columns) {
        parser_advance(parser);
        parser_take_sign(parser, VERTEX_SIGN_COMMA, " and columns: [:, a:b]");
        from = parser_is_sign(parser, VERTEX_SIGN_COLON) ? -1 : parser_expression(parser);
        parser_take_sign(parser, VERTEX_SIGN_COLON, " and the end of the columns");
        to = parser_is_sign(parser, VERTEX_SIGN_CLOSE_SQUARE) ? -1 : parser_expression(parser);
    } else {
        from = parser_expression(parser);
    }
    parser_take_sign(parser, VERTEX_SIGN_CLOSE_SQUARE, "");
    int32_t node = parser_node(parser, columns ? VERTEX_NODE_COLUMNS : VERTEX_NODE_INDEX, begin);
    parser_at(parser, node)->a = of;
    parser_at(parser, node)->b = from;
    parser_at(parser, node)->c = to;
    return node;
}

static int32_t parse_field(struct parser *parser, int32_t begin, int32_t of)
{
    parser_advance(parser);
    int32_t name = parser_take_name(parser, "a name behind the ."),
            node = parser_node(parser, VERTEX_NODE_FIELD, begin);
    parser_at(parser, node)->a = of;
    parser_at(parser, node)->name = name;
    return node;
}

/* atom { (…) | [ … ] | .NAME } */
static int32_t parse_primary(struct parser *parser)
{
    int32_t begin = parser->token.at.begin, node = parse_atom(parser);
    for (int n = 0;; n++) {
        bool call = parser_is_sign(parser, VERTEX_SIGN_OPEN), index = parser_is_sign(parser, VERTEX_SIGN_OPEN_SQUARE);
        if (!call && !index && !parser_is_sign(parser, VERTEX_SIGN_DOT)) {
            return node;
        }
        if (n == VERTEX_LEVEL_MOST) {
            parser_fail(parser, parser->token.at, "more than %d calls and fields in a row", VERTEX_LEVEL_MOST);
        }
        node = call    ? parse_call(parser, begin, node)
               : index ? parse_index(parser, begin, node)
                       : parse_field(parser, begin, node);
    }
}

/* -a, a ** b: a power binds more tightly than the sign before it, and less than the one behind it. */
static int32_t parse_power(struct parser *parser)
{
    int32_t begin = parser->token.at.begin, node;
    parser_deeper(parser);
    if (parser_is_sign(parser, VERTEX_SIGN_MINUS)) {
        parser_advance(parser);
        int32_t operand = parse_power(parser);
        node = parser_binary(parser, VERTEX_NODE_NEGATIVE, VERTEX_SIGN_MINUS, begin, operand, -1);
    } else {
        node = parse_primary(parser);
        if (parser_is_sign(parser, VERTEX_SIGN_POWER)) {
            parser_advance(parser);
            int32_t exponent = parse_power(parser);
            node = parser_binary(parser, VERTEX_NODE_BINARY, VERTEX_SIGN_POWER, begin, node, exponent);
        }
    }
    parser->depth--;
    return node;
}

/* Signs of two operands by how tightly they bind, the loosest first. */
static const enum vertex_sign binary_signs[][6] = {
    {VERTEX_SIGN_EQUAL, VERTEX_SIGN_UNEQUAL, VERTEX_SIGN_LESS, VERTEX_SIGN_GREATER, VERTEX_SIGN_LESS_EQUAL,
     VERTEX_SIGN_GREATER_EQUAL},
    {VERTEX_SIGN_PLUS, VERTEX_SIGN_MINUS, VERTEX_SIGN_N},
    {VERTEX_SIGN_TIMES, VERTEX_SIGN_OVER, VERTEX_SIGN_AT, VERTEX_SIGN_N},
};
#define N_BINARY (int)(sizeof binary_signs / sizeof *binary_signs)

static bool is_binary(const struct parser *parser, int level)
{
    for (int i = 0; i < 6 && binary_signs[level][i] != VERTEX_SIGN_N; i++) {
        if (parser_is_sign(parser, binary_signs[level][i])) {
            return true;
        }
    }
    return false;
}

static int32_t parse_binary(struct parser *parser, int level)
{
    if (level == N_BINARY) {
        return parse_power(parser);
    }
    int32_t begin = parser->token.at.begin, node = parse_binary(parser, level + 1);
    for (int n = 0; is_binary(parser, level); n++) {
        enum vertex_sign sign = parser->token.sign;
        if (level == 0 && n > 0) {
            parser_expected(parser, "one comparison; join two by and");
        }
        parser_advance(parser);
        int32_t right = parse_binary(parser, level + 1);
        node = parser_binary(parser, VERTEX_NODE_BINARY, sign, begin, node, right);
    }
    return node;
}

/* not a, a and b, a or b */
static int32_t parse_not(struct parser *parser)
{
    if (!parser_is_word(parser, "not")) {
        return parse_binary(parser, 0);
    }
    int32_t begin = parser->token.at.begin;
    parser_deeper(parser);
    parser_advance(parser);
    int32_t operand = parse_not(parser);
    parser->depth--;
    return parser_binary(parser, VERTEX_NODE_NOT, VERTEX_SIGN_N, begin, operand, -1);
}

static int32_t parse_logic(struct parser *parser, bool is_or)
{
    int32_t begin = parser->token.at.begin, node = is_or ? parse_logic(parser, false) : parse_not(parser);
    while (parser_is_word(parser, is_or ? "or" : "and")) {
        parser_advance(parser);
        int32_t right = is_or ? parse_logic(parser, false) : parse_not(parser);
        node = parser_binary(parser, is_or ? VERTEX_NODE_OR : VERTEX_NODE_AND, VERTEX_SIGN_N, begin, node, right);
    }
    return node;
}

/* a if b else c, and all that binds more tightly */
int32_t parser_expression(struct parser *parser)
{
    int32_t begin = parser->token.at.begin;
    parser_deeper(parser);
    int32_t node = parse_logic(parser, true);
    if (parser_is_word(parser, "if")) {
        parser_advance(parser);
        int32_t condition = parse_logic(parser, true);
        parser_take_word(parser, "else", " and the other value");
        int32_t other = parser_expression(parser);
        node = parser_binary(parser, VERTEX_NODE_CHOICE, VERTEX_SIGN_N, begin, node, condition);
        parser_at(parser, node)->c = other;
    }
    parser->depth--;
    return node;
}
