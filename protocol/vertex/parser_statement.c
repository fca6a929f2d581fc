/* The rules of the grammar for statements, functions and the text. */
#include "protocol/vertex/parser.h"

#include "protocol/base/memory.h"

static int32_t parse_block(struct parser *parser);

/* An expression, or several behind commas, linked: the first. */
static int32_t parse_list(struct parser *parser, int *n_out)
{
    int32_t first = parser_expression(parser), last = first;
    for (*n_out = 1; parser_is_sign(parser, VERTEX_SIGN_COMMA); ++*n_out) {
        parser_advance(parser);
        int32_t item = parser_expression(parser);
        parser_at(parser, last)->next = item;
        last = item;
    }
    return first;
}

/* A target is a variable, or a value of every node. */
static void check_target(struct parser *parser, int32_t target)
{
    const struct vertex_node *node = parser_at(parser, target);
    if (node->kind == VERTEX_NODE_NAME) {
        parser_slot(parser, node->name);
        return;
    }
    bool fits = node->kind == VERTEX_NODE_FIELD && parser_at(parser, node->a)->kind == VERTEX_NODE_NAME &&
                vertex_name_is(&parser->tree, parser_at(parser, node->a)->name, "v");
    if (!fits) {
        parser_fail(parser, node->at, "not to be assigned to; expected NAME = … or v.NAME = …");
    }
}

static int32_t parse_assign(struct parser *parser)
{
    int n_target, n_value = 0;
    int32_t begin = parser->token.at.begin, targets = parse_list(parser, &n_target);
    if (parser->status == STATUS_OK && parser->token.kind == VERTEX_TOKEN_NEWLINE) {
        parser_fail(parser, parser_at(parser, targets)->at,
                    "a value that nothing uses; expected NAME = …, v.NAME = … or return …");
    } else if (!parser_is_sign(parser, VERTEX_SIGN_ASSIGN)) {
        parser_expected(parser, "= behind the names, or the end of the line");
    }
    for (int32_t t = targets; t >= 0 && parser->status == STATUS_OK; t = parser_at(parser, t)->next) {
        check_target(parser, t);
    }
    parser_advance(parser);
    int32_t values = parse_list(parser, &n_value);
    if (n_target != n_value) {
        parser_fail(parser, parser_at(parser, targets)->at, "%d name%s before the = and %d value%s behind it",
                    n_target, n_target == 1 ? "" : "s", n_value, n_value == 1 ? "" : "s");
    }
    return parser_binary(parser, VERTEX_NODE_ASSIGN, VERTEX_SIGN_ASSIGN, begin, targets, values);
}

/* if, elif: … [elif | else: …] */
static int32_t parse_if(struct parser *parser)
{
    int32_t begin = parser->token.at.begin, other = -1;
    parser_deeper(parser);
    parser_advance(parser);
    int32_t condition = parser_expression(parser), block = parse_block(parser);
    if (parser_is_word(parser, "elif")) {
        other = parse_if(parser);
    } else if (parser_is_word(parser, "else")) {
        parser_advance(parser);
        other = parse_block(parser);
    }
    int32_t node = parser_binary(parser, VERTEX_NODE_IF, VERTEX_SIGN_N, begin, condition, block);
    parser_at(parser, node)->c = other;
    parser->depth--;
    return node;
}

/* for NAME in range([a,] b): … */
static int32_t parse_for(struct parser *parser)
{
    int32_t begin = parser->token.at.begin, from = -1;
    parser_advance(parser);
    int32_t name = parser_take_name(parser, "the name of the loop's number");
    parser_take_word(parser, "in", " range(…)");
    if (!parser_is_word(parser, "range")) {
        parser_fail(parser, parser->token.at,
                    "a loop runs over range(…); over edges there are sum(…), mean(…), max(…), min(…), var(…) and "
                    "std(…)");
    }
    parser_advance(parser);
    parser_take_sign(parser, VERTEX_SIGN_OPEN, " behind range");
    int32_t to = parser_expression(parser);
    if (parser_is_sign(parser, VERTEX_SIGN_COMMA)) {
        from = to;
        parser_advance(parser);
        to = parser_expression(parser);
    }
    parser_take_sign(parser, VERTEX_SIGN_CLOSE, " behind range's two numbers");
    struct vertex_span at = {begin, parser->last.end};
    int32_t block = parse_block(parser);
    int32_t node = parser_binary(parser, VERTEX_NODE_FOR, VERTEX_SIGN_N, begin, from, to);
    parser_at(parser, node)->at = at;
    parser_at(parser, node)->name = name;
    parser_at(parser, node)->slot = name >= 0 ? parser_slot(parser, name) : -1;
    parser_at(parser, node)->body = block;
    return node;
}

/* The end of a statement's line. */
static void end_line(struct parser *parser)
{
    if (parser->token.kind != VERTEX_TOKEN_NEWLINE) {
        parser_expected(parser, "the end of the line");
    }
    parser_advance(parser);
}

static int32_t parse_statement(struct parser *parser)
{
    int32_t begin = parser->token.at.begin, node;
    if (parser_is_word(parser, "if")) {
        return parse_if(parser);
    }
    if (parser_is_word(parser, "for")) {
        return parse_for(parser);
    }
    if (parser_is_word(parser, "return")) {
        parser_advance(parser);
        int32_t value = parser_expression(parser);
        node = parser_binary(parser, VERTEX_NODE_RETURN, VERTEX_SIGN_N, begin, value, -1);
    } else {
        node = parse_assign(parser);
    }
    end_line(parser);
    return node;
}

/* ":" and the statements of the lines below, one level deeper: the first. */
static int32_t parse_block(struct parser *parser)
{
    int32_t first = -1, last = -1;
    parser_take_sign(parser, VERTEX_SIGN_COLON, "");
    if (parser->token.kind != VERTEX_TOKEN_NEWLINE) {
        parser_expected(parser, "statements in the lines below");
    }
    parser_advance(parser);
    if (parser->token.kind != VERTEX_TOKEN_INDENT) {
        parser_fail(parser, parser->token.at, "expected a statement, with more spaces before it");
    }
    parser_advance(parser);
    while (parser->status == STATUS_OK && parser->token.kind != VERTEX_TOKEN_DEDENT) {
        if (parser->token.kind == VERTEX_TOKEN_INDENT) {
            parser_expected(parser, "the column of the statement before");
        }
        int32_t statement = parse_statement(parser);
        first = first < 0 ? statement : first;
        if (last >= 0) {
            parser_at(parser, last)->next = statement;
        }
        last = statement;
    }
    parser_advance(parser);
    return first;
}

/* NAME [= static] */
static int32_t parse_parameter(struct parser *parser, bool wants_default)
{
    int32_t begin = parser->token.at.begin, name = parser_take_name(parser, "the name of a parameter"), value = -1;
    struct vertex_span at = {begin, parser->last.end};
    if (name >= 0 && parser->slot_in[name] == parser->function) {
        parser_fail(parser, at, "there is a parameter of that name already");
    }
    if (parser_is_sign(parser, VERTEX_SIGN_ASSIGN)) {
        parser_advance(parser);
        value = parser_expression(parser);
    } else if (wants_default) {
        parser_fail(parser, at, "parameters without a default stand before those with one");
    }
    int32_t node = parser_binary(parser, VERTEX_NODE_PARAMETER, VERTEX_SIGN_N, begin, value, -1);
    parser_at(parser, node)->at = at;
    parser_at(parser, node)->name = name;
    parser_at(parser, node)->slot = name >= 0 ? parser_slot(parser, name) : -1;
    return node;
}

/* Parameters behind "(", up to ")": the first. */
static int32_t parse_parameters(struct parser *parser)
{
    int32_t first = -1, last = -1;
    while (parser->status == STATUS_OK && !parser_is_sign(parser, VERTEX_SIGN_CLOSE)) {
        int32_t node = parse_parameter(parser, last >= 0 && parser_at(parser, last)->a >= 0);
        first = first < 0 ? node : first;
        if (last >= 0) {
            parser_at(parser, last)->next = node;
        }
        last = node;
        if (!parser_is_sign(parser, VERTEX_SIGN_CLOSE)) {
            parser_take_sign(parser, VERTEX_SIGN_COMMA, " or ) behind a parameter");
        }
    }
    parser_take_sign(parser, VERTEX_SIGN_CLOSE, "");
    return first;
}

/* Variables of the function that has been read: names are looked up among them first, as in Python. */
static void resolve(struct parser *parser, int32_t first)
{
    for (int32_t i = first; i < parser->tree.n_node; i++) {
        struct vertex_node *node = parser_at(parser, i);
        if (node->kind == VERTEX_NODE_NAME && node->name >= 0 && parser->slot_in[node->name] == parser->function) {
            node->slot = parser->slot_of[node->name];
        }
    }
}

static void parse_function(struct parser *parser)
{
    struct vertex_tree *tree = &parser->tree;
    int32_t first = tree->n_node;
    tree->function = memory_list_grow(tree->function, tree->n_function, sizeof *tree->function);
    tree->function[tree->n_function] = (struct vertex_function){.parameters = -1, .body = -1};
    parser->function = tree->n_function++;
    parser_advance(parser);
    struct vertex_span at = parser->token.at;
    int32_t name = parser_take_name(parser, "the name of a function");
    for (int32_t f = 0; f < parser->function; f++) {
        if (tree->function[f].name == name) {
            parser_fail(parser, at, "there is a function of that name on line %d already",
                        vertex_line(&tree->source, tree->function[f].at.begin));
        }
    }
    parser_take_sign(parser, VERTEX_SIGN_OPEN, " and parameters");
    int32_t parameters = parse_parameters(parser), body = parse_block(parser);
    struct vertex_function *function = &tree->function[parser->function];
    function->at = at;
    function->name = name;
    function->parameters = parameters;
    function->body = body;
    resolve(parser, first);
}

/* NAME = static, before the functions */
static int32_t parse_setting(struct parser *parser)
{
    int32_t begin = parser->token.at.begin, name = parser_take_name(parser, "def, or NAME = a value");
    int32_t target = parser_node(parser, VERTEX_NODE_NAME, begin);
    parser_at(parser, target)->name = name;
    parser_take_sign(parser, VERTEX_SIGN_ASSIGN, " and a value");
    int32_t value = parser_expression(parser);
    end_line(parser);
    return parser_binary(parser, VERTEX_NODE_ASSIGN, VERTEX_SIGN_ASSIGN, begin, target, value);
}

void parser_text(struct parser *parser)
{
    int32_t last = -1;
    parser_advance(parser);
    while (parser->status == STATUS_OK && parser->token.kind != VERTEX_TOKEN_END) {
        if (parser_is_word(parser, "def")) {
            parse_function(parser);
        } else if (parser->tree.n_function > 0) {
            parser_expected(parser, "def, or the end of the text");
        } else {
            int32_t setting = parse_setting(parser);
            *(last < 0 ? &parser->tree.settings : &parser_at(parser, last)->next) = setting;
            last = setting;
        }
    }
}
