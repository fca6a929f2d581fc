/* TOML text to a flat list of entries in the order of the text: the only user of toml++.
 *
 * Independent of jobs: the reader decides which sections and keys are valid. Two levels are listed, top-level keys
 * and the keys of top-level tables ("sections"); what is nested deeper stays one entry of type TABLE or ARRAY, for
 * the reader to refuse. toml_read_all lists the keys of a section's tables, too. An array of texts has them as its
 * items.
 */
#ifndef PROTOCOL_TOML_H
#define PROTOCOL_TOML_H

#include "protocol/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOML_DEPTH_MOST 32 /* nested values, and dots in one key */

/*         name    what an error message calls it */
/* clang-format off */
#define TOML_TYPE_LIST(X)      \
    X(TEXT,  "a text")         \
    X(INT,   "a whole number") \
    X(REAL,  "a number")       \
    X(BOOL,  "true or false")  \
    X(TIME,  "a date or time") \
    X(ARRAY, "an array")       \
    X(TABLE, "a table")        \
    X(WORD,  "a word without quotes") \
    X(FAULT, "a mistake")
/* clang-format on */

enum toml_type {
#define X(name, text) TOML_TYPE_##name,
    TOML_TYPE_LIST(X)
#undef X
};

struct toml_position {
    uint32_t line, column; /* from 1; columns count characters */
};

struct toml_entry {
    const char *section; /* "" at the top level */
    const char *table;   /* of the section, that has the key; NULL: the section itself */
    const char *key;
    enum toml_type type;
    struct toml_position key_at, value_at;
    const char *text;        /* TEXT, WORD; FAULT: what is wrong at key_at; else "" */
    int64_t integer;         /* INT */
    double real;             /* REAL; may be nan or infinite */
    bool boolean;            /* BOOL */
    const char *const *item; /* ARRAY: n_item texts; NULL where it has something else */
    size_t n_item;
};

struct toml_list {
    struct toml_entry *entry; /* ascending by key_at */
    size_t n_entry;
    void *store; /* owns the texts */
};

/* Parse n_bytes of text. `origin` stands for the file's name in messages.
 *
 *   owns    borrows the text; the caller owns *out: toml_release
 *   errors  STATUS_CONFIG "ORIGIN:LINE:COLUMN: …" for bytes that are not UTF-8, a syntax error, a key or section that
 *           is there twice, nesting past TOML_DEPTH_MOST, an escaped NUL; *out untouched then
 *   cost    a few times the text in memory; the depth is checked before the parser, whose tables end recursively
 */
enum status toml_read(const char *text, size_t n_bytes, const char *origin, struct toml_list *out);

/* The same, and go on after a syntax error where the rest of the text can be read without it. The error is an entry
 * FAULT, with no section or key; a value that lacks quotes, alone in its line, is a WORD, and so is one that is
 * missing.
 *
 *   errors  as toml_read, but for syntax errors
 *   cost    a text of at most 64 KiB is parsed twice for each error, up to 16 of them; a longer one ends at its first
 */
enum status toml_read_all(const char *text, size_t n_bytes, const char *origin, struct toml_list *out);

void toml_release(struct toml_list *list);

/* A text as a TOML string: in quotes; quotes, backslashes and control characters escaped. The caller frees it. */
char *toml_quote(const char *text);

/* "a text", "a whole number", … */
const char *toml_type_text(enum toml_type type);

#endif
