#include "protocol/vertex/lexer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const sign_text[] = {
#define X(name, text) text,
    VERTEX_SIGN_LIST(X)
#undef X
};

const char *vertex_sign_text(enum vertex_sign sign)
{
    return sign_text[sign];
}

void vertex_lexer_init(const struct vertex_source *source, struct vertex_lexer *out)
{
    *out = (struct vertex_lexer){.source = source, .begins = true};
}

static char byte_at(const struct vertex_lexer *lexer, int32_t at)
{
    return at < lexer->source->n ? lexer->source->text[at] : '\0';
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_name(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_' || is_digit(byte);
}

static enum status fail(const struct vertex_lexer *lexer, int32_t begin, int32_t end, const char *what)
{
    return vertex_fail(lexer->source, (struct vertex_span){begin, end}, "%s", what);
}

/* One character, whose bytes belong together. */
static enum status unknown_character(const struct vertex_lexer *lexer, int32_t at)
{
    char quoted[VERTEX_QUOTE_BYTES];
    int32_t end = at + 1;
    while (end < lexer->source->n && (byte_at(lexer, end) & 0xC0) == 0x80) {
        end++;
    }
    vertex_quote(lexer->source, (struct vertex_span){at, end}, quoted);
    return vertex_fail(lexer->source, (struct vertex_span){at, end}, "'%s' is not part of programs; " VERTEX_GRAMMAR,
                       byte_at(lexer, at) == '\0' ? "\\0" : quoted);
}

static void skip_comment(struct vertex_lexer *lexer)
{
    while (lexer->at < lexer->source->n && byte_at(lexer, lexer->at) != '\n') {
        lexer->at++;
    }
}

/* Spaces, comments and, within brackets, line ends. */
static void skip_blank(struct vertex_lexer *lexer)
{
    for (;;) {
        char byte = byte_at(lexer, lexer->at);
        if (byte == '#') {
            skip_comment(lexer);
        } else if (lexer->at < lexer->source->n &&
                   (byte == ' ' || byte == '\r' || byte == '\t' || (byte == '\n' && lexer->n_open > 0))) {
            lexer->at++;
        } else {
            return;
        }
    }
}

/* The spaces of a line with more than a comment: a new block, the end of blocks, or neither. Leaves `at` behind
 * them. */
static enum status measure_indent(struct vertex_lexer *lexer, bool *opens_out)
{
    int32_t begin;
    do { /* lines without anything in them do not count */
        begin = lexer->at;
        while (byte_at(lexer, lexer->at) == ' ') {
            lexer->at++;
        }
        if (byte_at(lexer, lexer->at) == '\t') {
            return fail(lexer, lexer->at, lexer->at + 1, "a tab; expected spaces before a statement");
        }
        if (byte_at(lexer, lexer->at) == '#') {
            skip_comment(lexer);
        }
        if (byte_at(lexer, lexer->at) == '\r') {
            lexer->at++;
        }
    } while (byte_at(lexer, lexer->at) == '\n' && lexer->at++ < lexer->source->n);
    int column = lexer->at < lexer->source->n ? lexer->at - begin : 0;
    *opens_out = column > lexer->indent[lexer->n_indent];
    if (*opens_out) {
        if (lexer->n_indent == VERTEX_LEVEL_MOST) {
            return vertex_fail(lexer->source, (struct vertex_span){lexer->at, lexer->at},
                               "blocks are nested more than %d deep", VERTEX_LEVEL_MOST);
        }
        lexer->indent[++lexer->n_indent] = column;
        return STATUS_OK;
    }
    while (column < lexer->indent[lexer->n_indent]) {
        lexer->n_indent--;
        lexer->n_close++;
    }
    return column == lexer->indent[lexer->n_indent]
               ? STATUS_OK
               : vertex_fail(lexer->source, (struct vertex_span){lexer->at, lexer->at},
                             "%d spaces before the statement; expected as many as a block above, %d or %d", column,
                             lexer->indent[lexer->n_indent], lexer->indent[lexer->n_indent + 1]);
}

static enum status read_number(struct vertex_lexer *lexer, struct vertex_token *out)
{
    char digits[64];
    int32_t begin = lexer->at, end = begin;
    for (; is_name(byte_at(lexer, end)) || byte_at(lexer, end) == '.' ||
           ((byte_at(lexer, end) == '-' || byte_at(lexer, end) == '+') && (byte_at(lexer, end - 1) | 0x20) == 'e');
         end++) {
    }
    size_t n = (size_t)(end - begin);
    bool fits = n < sizeof digits;
    if (fits) {
        memcpy(digits, lexer->source->text + begin, n);
        digits[n] = '\0';
    }
    char *rest = digits;
    out->number = fits ? strtod(digits, &rest) : 0.0;
    bool zeros = digits[0] == '0' && is_digit(digits[1]);
    if (!fits || *rest != '\0' || zeros || strpbrk(digits, "xXpPnN") != NULL || !isfinite(out->number)) {
        return fail(lexer, begin, end, "not a number; expected digits such as 3, 0.5 or 1e-6");
    }
    out->kind = VERTEX_TOKEN_NUMBER;
    out->at = (struct vertex_span){begin, end};
    lexer->at = end;
    return STATUS_OK;
}

static enum status read_text(struct vertex_lexer *lexer, struct vertex_token *out)
{
    char quote = byte_at(lexer, lexer->at);
    int32_t begin = lexer->at + 1, end = begin;
    while (end < lexer->source->n && byte_at(lexer, end) != quote && byte_at(lexer, end) != '\n') {
        if (byte_at(lexer, end) == '\\') {
            return fail(lexer, end, end + 1, "a backslash; texts of programs are taken as they are, without escapes");
        }
        end++;
    }
    if (byte_at(lexer, end) != quote || end == lexer->source->n) {
        return fail(lexer, begin - 1, end, "the text does not end in its line; expected the same quote behind it");
    }
    if (end == begin && byte_at(lexer, end + 1) == quote) {
        return fail(lexer, begin - 1, end + 2,
                    "texts over several lines are not part of programs; expected # comments");
    }
    *out = (struct vertex_token){.kind = VERTEX_TOKEN_TEXT, .at = {begin, end}};
    lexer->at = end + 1;
    return STATUS_OK;
}

static enum status read_name(struct vertex_lexer *lexer, struct vertex_token *out)
{
    int32_t begin = lexer->at, end = begin;
    while (is_name(byte_at(lexer, end))) {
        end++;
    }
    if (byte_at(lexer, end) == '"' || byte_at(lexer, end) == '\'') {
        return vertex_fail(lexer->source, (struct vertex_span){begin, end},
                           "%.*s\"…\" is not part of programs; " VERTEX_GRAMMAR,
                           (int)(end - begin < 20 ? end - begin : 20), lexer->source->text + begin);
    }
    if ((byte_at(lexer, end) & 0x80) != 0) {
        return unknown_character(lexer, end);
    }
    *out = (struct vertex_token){.kind = VERTEX_TOKEN_NAME, .at = {begin, end}};
    lexer->at = end;
    return STATUS_OK;
}

/* Open brackets are remembered, for the message where they do not close, and since lines go on within them. */
static enum status count_brackets(struct vertex_lexer *lexer, const struct vertex_token *token)
{
    bool opens = token->sign == VERTEX_SIGN_OPEN || token->sign == VERTEX_SIGN_OPEN_SQUARE;
    bool closes = token->sign == VERTEX_SIGN_CLOSE || token->sign == VERTEX_SIGN_CLOSE_SQUARE;
    if (opens && lexer->n_open == VERTEX_LEVEL_MOST) {
        return vertex_fail(lexer->source, token->at, "brackets are nested more than %d deep", VERTEX_LEVEL_MOST);
    }
    if (opens) {
        lexer->open[lexer->n_open++] = token->at.begin;
    }
    if (closes) {
        bool is_round = token->sign == VERTEX_SIGN_CLOSE;
        if (lexer->n_open == 0 || (byte_at(lexer, lexer->open[lexer->n_open - 1]) == '(') != is_round) {
            return vertex_fail(lexer->source, token->at, "there is no %s that this %s closes", is_round ? "(" : "[",
                               is_round ? ")" : "]");
        }
        lexer->n_open--;
    }
    return STATUS_OK;
}

static enum status read_sign(struct vertex_lexer *lexer, struct vertex_token *out)
{
    static const char *const others[] = {"//", "->", ":=", "+=", "-=", "*=", "/=", "@=", "**="};
    const char *text = lexer->source->text + lexer->at;
    size_t left = (size_t)(lexer->source->n - lexer->at);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        size_t n = strlen(others[i]);
        if (n <= left && memcmp(text, others[i], n) == 0) {
            return vertex_fail(lexer->source, (struct vertex_span){lexer->at, lexer->at + (int32_t)n},
                               "%s is not part of programs; %s", others[i],
                               strcmp(others[i], "+=") == 0 ? "write y = y + …" : VERTEX_GRAMMAR);
        }
    }
    for (int s = 0; s < VERTEX_SIGN_N; s++) {
        size_t n = strlen(sign_text[s]);
        if (n <= left && memcmp(text, sign_text[s], n) == 0) {
            *out = (struct vertex_token){
                .kind = VERTEX_TOKEN_SIGN, .at = {lexer->at, lexer->at + (int32_t)n}, .sign = (enum vertex_sign)s};
            enum status status = count_brackets(lexer, out);
            lexer->at += (int32_t)n;
            return status;
        }
    }
    return unknown_character(lexer, lexer->at);
}

/* The text is over: the last line ends, then the blocks, then nothing more comes. */
static enum status read_end(struct vertex_lexer *lexer, struct vertex_token *out)
{
    if (lexer->n_open > 0) {
        int32_t at = lexer->open[lexer->n_open - 1];
        return vertex_fail(lexer->source, (struct vertex_span){at, at + 1}, "this %c is not closed",
                           byte_at(lexer, at));
    }
    out->kind = lexer->begins ? VERTEX_TOKEN_END : VERTEX_TOKEN_NEWLINE;
    lexer->begins = true;
    return STATUS_OK;
}

enum status vertex_lexer_next(struct vertex_lexer *lexer, struct vertex_token *out)
{
    bool opens = false;
    if (lexer->begins && lexer->n_close == 0) {
        enum status status = measure_indent(lexer, &opens);
        if (status != STATUS_OK) {
            return status;
        }
    }
    *out = (struct vertex_token){.at = {lexer->at, lexer->at}};
    if (opens || lexer->n_close > 0) {
        lexer->n_close -= !opens;
        lexer->begins = lexer->n_close > 0 || lexer->at >= lexer->source->n;
        out->kind = opens ? VERTEX_TOKEN_INDENT : VERTEX_TOKEN_DEDENT;
        return STATUS_OK;
    }
    skip_blank(lexer);
    out->at = (struct vertex_span){lexer->at, lexer->at};
    if (lexer->at >= lexer->source->n) {
        return read_end(lexer, out);
    }
    lexer->begins = false;
    char byte = byte_at(lexer, lexer->at);
    if (byte == '\n') {
        lexer->at++;
        lexer->begins = true;
        out->kind = VERTEX_TOKEN_NEWLINE;
        return STATUS_OK;
    }
    if (byte == '"' || byte == '\'') {
        return read_text(lexer, out);
    }
    if (is_digit(byte) || (byte == '.' && is_digit(byte_at(lexer, lexer->at + 1)))) {
        return read_number(lexer, out);
    }
    return is_name(byte) ? read_name(lexer, out) : read_sign(lexer, out);
}
