#include "protocol/toml/toml.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct toml_list list;

static enum status parse(const char *text)
{
    return toml_read(text, strlen(text), "x.toml", &list);
}

/* `n` times `piece`, between two ends. */
static char *repeat(const char *begin, const char *piece, size_t n, const char *end)
{
    char *out = malloc(strlen(begin) + n * strlen(piece) + strlen(end) + 1), *at = out;
    at += sprintf(at, "%s", begin);
    for (size_t i = 0; i < n; i++) {
        at += sprintf(at, "%s", piece);
    }
    sprintf(at, "%s", end);
    return out;
}

static void refused(const char *text, const char *part)
{
    enum status status = parse(text);
    cr_assert_eq(status, STATUS_CONFIG, "%.60s", text);
    cr_assert_not_null(strstr(status_reason(), part), "'%s' is not in: %s", part, status_reason());
}

Test(toml, entries_come_in_the_order_of_the_text_with_their_places)
{
    cr_assert_eq(parse("z = 1\n\n[b]\ny = \"text\"\n  x = 2.5\n[a]\nw = true\n"), STATUS_OK, "%s", status_reason());
    static const struct {
        const char *section, *key;
        enum toml_type type;
        uint32_t line, column, value_column;
    } want[] = {{"", "z", TOML_TYPE_INT, 1, 1, 5},   {"", "b", TOML_TYPE_TABLE, 3, 2, 0},
                {"b", "y", TOML_TYPE_TEXT, 4, 1, 5}, {"b", "x", TOML_TYPE_REAL, 5, 3, 7},
                {"", "a", TOML_TYPE_TABLE, 6, 2, 0}, {"a", "w", TOML_TYPE_BOOL, 7, 1, 5}};
    cr_assert_eq(list.n_entry, sizeof want / sizeof *want);
    for (size_t i = 0; i < list.n_entry; i++) {
        const struct toml_entry *entry = &list.entry[i];
        cr_assert_str_eq(entry->section, want[i].section);
        cr_assert_str_eq(entry->key, want[i].key);
        cr_assert_eq(entry->type, want[i].type);
        cr_assert_eq(entry->key_at.line, want[i].line, "%s", entry->key);
        cr_assert_eq(entry->key_at.column, want[i].column, "%s", entry->key);
        cr_assert(want[i].value_column == 0 || entry->value_at.column == want[i].value_column, "%s", entry->key);
    }
    cr_assert_eq(list.entry[0].integer, 1);
    cr_assert_str_eq(list.entry[2].text, "text");
    cr_assert_eq(list.entry[3].real, 2.5);
    cr_assert(list.entry[5].boolean);
    toml_release(&list);
    cr_assert_eq(list.n_entry, 0);
}

Test(toml, what_is_nested_deeper_than_a_section_is_one_entry)
{
    cr_assert_eq(parse("a = [1, [2]]\n[s]\nt = {u = 1}\n[s.v]\nw = 1\n[[s.x]]\n"), STATUS_OK, "%s", status_reason());
    cr_assert_eq(list.n_entry, 5);
    cr_assert_eq(list.entry[0].type, TOML_TYPE_ARRAY);
    cr_assert_str_eq(list.entry[2].key, "t");
    cr_assert_eq(list.entry[2].type, TOML_TYPE_TABLE);
    cr_assert_str_eq(list.entry[3].key, "v");
    cr_assert_eq(list.entry[3].type, TOML_TYPE_TABLE);
    cr_assert_eq(list.entry[4].type, TOML_TYPE_ARRAY);
    toml_release(&list);
}

Test(toml, an_empty_text_has_no_entries)
{
    static const char *const empty[] = {"", "\n\n", "# only a comment", "\xef\xbb\xbf"};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        cr_assert_eq(parse(empty[i]), STATUS_OK, "%s", status_reason());
        cr_assert_eq(list.n_entry, 0);
        toml_release(&list);
    }
}

Test(toml, numbers_that_are_none_are_told_as_they_are)
{
    cr_assert_eq(parse("a = nan\nb = -inf\nc = 1979-05-27\n"), STATUS_OK);
    cr_assert(isnan(list.entry[0].real));
    cr_assert(isinf(list.entry[1].real));
    cr_assert_eq(list.entry[2].type, TOML_TYPE_TIME);
    toml_release(&list);
}

Test(toml, a_syntax_error_names_file_line_and_column)
{
    refused("a = 1\nb = = 2\n", "x.toml:2:5: ");
    refused("a = \"open\nb = 1\n", "x.toml:1:");
    refused("a = 1\na = 2\n", "x.toml:2:");
    refused("[a]\n[b]\n[a]\n", "x.toml:3:");
    refused("a\n", "x.toml:1:2: ");
    refused("a = 1 b = 2\n", "x.toml:1:7: ");
    refused("[", "x.toml:1:");
    refused("[.a]", "x.toml:1:2: ");
    refused("a = 1\n[\n", "x.toml:2:2: ");
    refused("[[[", "x.toml:1:3: ");
    refused("# \xc3\xa9\nme = [[} = fo\n[b]\n", "x.toml:2:8: unexpected character");
}

Test(toml, bytes_that_are_not_utf_8_are_named_with_their_place)
{
    refused("a = \"\xc3\xa9\"\nb = \"\xc3\xa9\xff\"\n", "x.toml:2:7: byte 0xff is not UTF-8");
    refused("\xc0\x80", "x.toml:1:1: byte 0xc0");
    refused("# \xed\xa0\x80", "x.toml:1:3: byte 0xed");
    refused("# \xf4\x90\x80\x80", "x.toml:1:3: byte 0xf4");
    refused("# \xe0\x80\x80", "x.toml:1:3: byte 0xe0");
    refused("# \xf0\x80\x80\x80", "x.toml:1:3: byte 0xf0");
    refused("# \xe2\x82", "x.toml:1:3: byte 0xe2");
    cr_assert_eq(parse("a = \"\xf0\x9f\x98\x80 \xe2\x82\xac\"\n"), STATUS_OK, "%s", status_reason());
    cr_assert_str_eq(list.entry[0].text, "\xf0\x9f\x98\x80 \xe2\x82\xac");
    toml_release(&list);
}

Test(toml, letters_past_ascii_are_texts_and_no_white_space)
{
    cr_assert_eq(parse("a = \"\"\"x\\\n\xc3\xa9\"\"\"\n"), STATUS_OK, "%s", status_reason());
    cr_assert_str_eq(list.entry[0].text, "x\xc3\xa9");
    toml_release(&list);
    refused("cl\xc3\xa9 = 1\n", "x.toml:1:3: ");
    refused("\xc3\xa9 = 1\n", "x.toml:1:1: ");
    refused("a = \"\"\"\\\xc3\xa9\"\"\"\n", "x.toml:1:");
}

Test(toml, an_escaped_nul_is_refused_in_texts_and_keys)
{
    refused("a = 1\nb = \"x\\u0000y\"\n", "x.toml:2:5: a NUL");
    refused("[s]\n\"x\\u0000y\" = 1\n", "x.toml:2:1: a NUL");
    cr_assert_eq(toml_read("a = 1\0b", 7, "x.toml", &list), STATUS_CONFIG);
}

Test(toml, a_million_brackets_are_refused_at_once, .timeout = 60)
{
    static const struct {
        const char *begin, *piece, *end;
    } cases[] = {{"a = ", "[", ""},
                 {"a = ", "{b=", ""},
                 {"", "[", ""},
                 {"a", ".a", " = 1"},
                 {"[a", ".a", "]"},
                 {"[[a", ".a", "]]"},
                 {"a", " . a", " = 1"},
                 {"a", ".\"=\"", " = 1"},
                 {"a", ".'\"'", " = 1"},
                 {"x = {y = \"\"\"q\"\"\"\", b", ".b", " = 1}"},
                 {"x = {y = \"\"\"q\"\"\"\"\", b", ".b", " = 1}"},
                 {"x = {y = '''q''''', b", ".b", " = 1}"},
                 {"x = {y = \"\\\"\", b", ".b", " = 1}"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = repeat(cases[i].begin, cases[i].piece, 1000000, cases[i].end);
        refused(text, "x.toml:1:");
        free(text);
    }
}

Test(toml, dots_inside_texts_and_numbers_are_no_nesting)
{
    char *dots = repeat("a = \"", "./", 200, "\"\nb = '''");
    char *text = repeat(dots, "..\n", 200, "'''\nc = [");
    char *whole = repeat(text, "1.5, ", 200, "] # ................................................\n");
    cr_assert_eq(parse(whole), STATUS_OK, "%s", status_reason());
    cr_assert_eq(list.n_entry, 3);
    toml_release(&list);
    free(dots);
    free(text);
    free(whole);
}

Test(toml, as_many_sections_as_a_job_file_can_hold_are_read_in_seconds, .timeout = 120)
{
    size_t room = 1 << 20, at = 0;
    char *text = malloc(room + 32);
    int n = 0;
    for (; at < room / 2; n++) {
        at += (size_t)sprintf(text + at, "[x%d.a]\n", n);
    }
    for (int i = 0; i < n && at < room; i++) {
        at += (size_t)sprintf(text + at, "[x%d]\n", i);
    }
    cr_assert_eq(toml_read(text, at, "x.toml", &list), STATUS_OK, "%s", status_reason());
    toml_release(&list);
    free(text);
}

Test(toml, a_quoted_text_reads_back_as_itself)
{
    char every[256], line[2048];
    for (int c = 1; c < 128; c++) {
        every[c - 1] = (char)c;
    }
    strcpy(every + 127, "\xc3\xa9");
    char *quoted = toml_quote(every);
    snprintf(line, sizeof line, "a = %s", quoted);
    cr_assert_eq(parse(line), STATUS_OK, "%s", status_reason());
    cr_assert_str_eq(list.entry[0].text, every);
    toml_release(&list);
    free(quoted);
}

Test(toml, the_rest_of_a_text_is_read_past_its_mistakes)
{
    static const char text[] = "a = 1\nb = = 2\n[s]\nc = fast # so\nd = 1\nd = 2\ne = \"x\"\n";
    cr_assert_eq(toml_read_all(text, strlen(text), "x.toml", &list), STATUS_OK, "%s", status_reason());
    static const struct {
        const char *key;
        enum toml_type type;
        uint32_t line, column;
    } want[] = {{"a", TOML_TYPE_INT, 1, 5},  {"", TOML_TYPE_FAULT, 2, 5}, {"s", TOML_TYPE_TABLE, 3, 0},
                {"c", TOML_TYPE_WORD, 4, 5}, {"d", TOML_TYPE_INT, 5, 5},  {"", TOML_TYPE_FAULT, 6, 0},
                {"e", TOML_TYPE_TEXT, 7, 5}};
    cr_assert_eq(list.n_entry, sizeof want / sizeof *want);
    for (size_t i = 0; i < list.n_entry; i++) {
        const struct toml_entry *entry = &list.entry[i];
        cr_expect_str_eq(entry->key, want[i].key);
        cr_expect_eq(entry->type, want[i].type, "%s", want[i].key);
        cr_expect_eq(entry->key_at.line, want[i].line, "%s", want[i].key);
        cr_expect(want[i].column == 0 || entry->value_at.column == want[i].column, "%s %u", want[i].key,
                  entry->value_at.column);
    }
    cr_expect_str_eq(list.entry[3].text, "fast");
    toml_release(&list);
    refused(text, "x.toml:2:5: ");
    refused("[s]\nc = fast\n", "x.toml:2:5: found fast; expected a text in quotes");
}

Test(toml, what_follows_a_mistake_that_may_go_on_is_left_alone)
{
    static const struct {
        const char *text;
        size_t n_entry, n_fault;
    } cases[] = {{"a = [1,\nb = 2\nc = 3\n", 1, 1},        /* an array that does not end */
                 {"a = \"\"\"x\nb = 1\n", 1, 1},           /* a text that does not end */
                 {"a = 1\n[b\nc = 2\n[d]\ne = 3\n", 2, 1}, /* keys below a broken header would be another section's */
                 {"# \xc3\xa9\nme = [[} = fo\n[b]\n", 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n_fault = 0;
        cr_assert_eq(toml_read_all(cases[i].text, strlen(cases[i].text), "x.toml", &list), STATUS_OK, "%s",
                     status_reason());
        for (size_t k = 0; k < list.n_entry; k++) {
            n_fault += list.entry[k].type == TOML_TYPE_FAULT;
        }
        cr_expect_eq(list.n_entry, cases[i].n_entry, "%s: %zu", cases[i].text, list.n_entry);
        cr_expect_eq(n_fault, cases[i].n_fault, "%s: %zu", cases[i].text, n_fault);
        toml_release(&list);
    }
}

Test(toml, a_thousand_mistakes_are_not_all_looked_for)
{
    char *text = repeat("", "a = = 1\n", 1000, "");
    size_t n = strlen(text);
    cr_assert_eq(toml_read_all(text, n, "x.toml", &list), STATUS_OK, "%s", status_reason());
    cr_expect_leq(list.n_entry, 20);
    toml_release(&list);
    free(text);
}
