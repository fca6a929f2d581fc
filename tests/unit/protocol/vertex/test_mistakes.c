/* What is no vertex program is refused where the mistake is, with a sentence that says what was expected. */
#include "tests/support/vertex_case.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "def layer(v, out, a=1, flag=True):\n"

static const struct {
    const char *text, *message;
} mistakes[] = {
#define BODY(text, message) {HEAD text, message},
#define TEXT(text, message) {text, message},
#include "tests/unit/protocol/vertex/mistakes.def"
};

Test(vertex_mistakes, each_text_is_refused_with_its_message)
{
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        char *printed = NULL, first[1024];
        enum status status = vertex_case_trace(mistakes[i].text, strlen(mistakes[i].text), NULL, vertex_case_facts(),
                                               &printed);
        cr_assert_eq(status, STATUS_CONFIG, "accepted:\n%s", mistakes[i].text);
        snprintf(first, sizeof first, "%.*s", (int)strcspn(status_reason(), "\n"), status_reason());
        char expected[1024];
        snprintf(expected, sizeof expected, VERTEX_CASE_ORIGIN ":%s", mistakes[i].message);
        cr_expect_str_eq(first, expected, "%s\n%s", mistakes[i].text, first);
    }
}

/* A check without data refuses no text that some data would have. */
Test(vertex_mistakes, without_data_only_a_text_s_own_mistakes_are_refused)
{
    size_t n_refused = 0;
    struct vertex_facts unknown = vertex_facts_unknown();
    unknown.index = 0;
    unknown.is_last = false;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        char *printed = NULL;
        n_refused += vertex_case_trace(mistakes[i].text, strlen(mistakes[i].text), NULL, unknown, &printed) !=
                     STATUS_OK;
        free(printed);
    }
    cr_expect_eq(n_refused, sizeof mistakes / sizeof *mistakes - 4, "%zu", n_refused); /* of which widths decide */
}

static void expect_reason(const char *text, const struct vertex_args *args, enum status expected, const char *reason)
{
    char *printed = NULL;
    struct vertex_facts facts = vertex_case_facts();
    facts.n_edge_feature = 0;
    cr_assert_eq(vertex_case_trace(text, strlen(text), args, facts, &printed), expected);
    cr_expect_str_eq(status_reason(), reason, "%s", status_reason());
}

Test(vertex_mistakes, a_message_shows_the_line_and_a_caret)
{
    expect_reason("def layer(v, out):\n    # \xC3\xA9\n    y = relu(v.x) + '\xC3\xA9'\n    return y\n", NULL,
                  STATUS_CONFIG,
                  "case.gnn:3:21: '\xC3\xA9' is a text; expected rows, a weight or a number\n"
                  "        y = relu(v.x) + '\xC3\xA9'\n"
                  "                        ^");
}

Test(vertex_mistakes, a_long_line_is_cut_around_the_caret)
{
    char text[1024] = "def layer(v, out):\n    y = v.x";
    for (int i = 0; i < 60; i++) {
        strcat(text, " + v.x");
    }
    strcat(text, " + w\n    return y\n");
    char *printed = NULL;
    cr_assert_eq(vertex_case_trace(text, strlen(text), NULL, vertex_case_facts(), &printed), STATUS_CONFIG);
    const char *line = strchr(status_reason(), '\n') + 1, *caret = strchr(line, '\n') + 1;
    cr_expect_eq(strcspn(line, "\n"), strlen(caret), "%s",
                 status_reason()); /* the mistake is the line's last character */
    cr_expect_eq(line[strlen(caret) - 1], 'w');
    cr_expect_leq(strlen(caret), 114);
}

Test(vertex_mistakes, features_that_the_data_has_not_are_the_data_s_fault)
{
    expect_reason("def layer(v, out):\n    return sum(sum_columns(e.feature) * e.src.x for e in v.in_edges)\n", NULL,
                  STATUS_DATA,
                  "case.gnn:2:28: reads e.feature, and the data set has no edge_attr.npy\n"
                  "        return sum(sum_columns(e.feature) * e.src.x for e in v.in_edges)\n"
                  "                               ^");
}

Test(vertex_mistakes, an_argument_of_the_job_is_a_parameter_of_the_text)
{
    const struct vertex_args args = vertex_case_args("head=3"), own = vertex_case_args("index=3");
    const char *text = "def layer(v, out, heads=1, slope=0.2, index=0):\n    return v.x\n";
    expect_reason(
        text, &args, STATUS_CONFIG,
        "model.args.head: the program has no parameter of that name; did you mean heads? (layer: heads, slope)");
    expect_reason(text, &own, STATUS_CONFIG,
                  "model.args.index: the program has no parameter of that name (layer: heads, slope)");
}

/* --- limits, to the last --- */

static enum status of_text(const char *text, size_t n)
{
    char *printed = NULL;
    enum status status = vertex_case_trace(text, n, NULL, vertex_case_facts(), &printed);
    free(printed);
    return status;
}

/* HEAD, then `line` n times, then a return. */
static enum status repeated(const char *line, int n, const char *end)
{
    size_t room = sizeof HEAD + (size_t)n * strlen(line) + strlen(end) + 32;
    char *text = malloc(room), *at = text + sprintf(text, HEAD);
    for (int i = 0; i < n; i++) {
        at += sprintf(at, "%s", line);
    }
    at += sprintf(at, "%s    return v.x\n", end);
    enum status status = of_text(text, (size_t)(at - text));
    free(text);
    return status;
}

Test(vertex_limits, a_text_has_64_kib)
{
    char *text = malloc(VERTEX_TEXT_MOST + 1);
    size_t n = (size_t)sprintf(text, HEAD "    return v.x\n#");
    memset(text + n, 'x', VERTEX_TEXT_MOST + 1 - n);
    cr_expect_eq(of_text(text, VERTEX_TEXT_MOST), STATUS_OK, "%s", status_reason());
    cr_expect_eq(of_text(text, VERTEX_TEXT_MOST + 1), STATUS_CONFIG);
    cr_expect_str_eq(status_reason(), "case.gnn: has 65537 bytes; expected a program of at most 65536");
    free(text);
}

Test(vertex_limits, a_layer_has_16384_operations)
{
    /* v.x, then two operations for each line */
    cr_expect_eq(repeated("    a = relu(v.x) * a\n", 0, ""), STATUS_OK);
    const char *line = "        a = dropout(v.x, 0.5)\n";
    cr_expect_eq(repeated("    for i in range(1024):\n", 1, line), STATUS_OK, "%s", status_reason());
    cr_expect_eq(repeated("    for i in range(1024):\n        for j in range(17):\n    ", 1, line), STATUS_CONFIG);
    cr_expect(strstr(status_reason(), "the layer has more than 16399 operations") != NULL, "%s", status_reason());
    cr_expect_eq(repeated("    for i in range(1023):\n        for j in range(16):\n    ", 1, line), STATUS_OK, "%s",
                 status_reason()); /* 16368, and the input; of 3 relations 15 more */
}

Test(vertex_limits, loops_have_1024_steps_and_rows_65536_columns)
{
    cr_expect_eq(repeated("    for i in range(1025):\n", 1, "        a = 3\n"), STATUS_CONFIG);
    cr_expect_eq(repeated("    for i in range(1, 1025):\n", 1, "        a = 3\n"), STATUS_OK);
    cr_expect_eq(repeated("    y = linear('w', v.x, 65536)\n", 1, ""), STATUS_OK);
    cr_expect_eq(repeated("    y = linear('w', v.x, 65537)\n", 1, ""), STATUS_CONFIG);
    cr_expect_eq(repeated("    y = linear('w', v.x, 65535)\n    z = concat(y, linear('u', v.x, 1))\n", 1, ""),
                 STATUS_OK);
    cr_expect_eq(repeated("    y = linear('w', v.x, 65535)\n    z = concat(y, linear('u', v.x, 2))\n", 1, ""),
                 STATUS_CONFIG);
    cr_expect(strstr(status_reason(), "expected at most 65536 columns in a row") != NULL, "%s", status_reason());
}

Test(vertex_limits, nesting_ends_at_64_levels)
{
    char text[4096];
    for (int n = 64; n <= 65; n++) {
        char *at = text + sprintf(text, HEAD);
        for (int i = 0; i < n - 1; i++) { /* the function's own block is one */
            at += sprintf(at, "%*sif flag:\n", i + 1, "");
        }
        at += sprintf(at, "%*sa = 3\n return v.x\n", n, "");
        cr_expect_eq(of_text(text, (size_t)(at - text)), n == 64 ? STATUS_OK : STATUS_CONFIG, "%d: %s", n,
                     status_reason());
    }
    cr_expect(strstr(status_reason(), "blocks are nested more than 64 deep") != NULL, "%s", status_reason());
    for (int n = 63; n <= 65; n++) {
        char *at = text + sprintf(text, HEAD "    return ");
        at += sprintf(at, "%.*sv.x%.*s\n", n, "(((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((",
                      n, "))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))");
        cr_expect_eq(of_text(text, (size_t)(at - text)), n < 64 ? STATUS_OK : STATUS_CONFIG, "%d: %s", n,
                     status_reason());
    }
}

Test(vertex_limits, long_sums_end_where_the_trace_would_be_too_deep)
{
    cr_expect_eq(repeated("    y = v.x\n    y = y + y + y + y + y + y + y + y\n", 100, ""), STATUS_OK, "%s",
                 status_reason());
    char *text = malloc(20000), *at = text + sprintf(text, HEAD "    y = v.x");
    for (int i = 0; i < 600; i++) {
        at += sprintf(at, " + v.x");
    }
    at += sprintf(at, "\n    return y\n");
    cr_expect_eq(of_text(text, (size_t)(at - text)), STATUS_CONFIG);
    cr_expect(strstr(status_reason(), "nested more than 512 deep") != NULL, "%s", status_reason());
    free(text);
}

Test(vertex_limits, statics_take_a_bounded_number_of_steps)
{
    cr_expect_eq(repeated("    for i in range(1000):\n        for j in range(1000):\n", 1, "            a = a + 1\n"),
                 STATUS_CONFIG);
    cr_expect(strstr(status_reason(), "steps before training") != NULL, "%s", status_reason());
}

Test(vertex_limits, settings_before_the_functions_take_fewer_steps)
{
    static const char text[] =
        "a = g(%d)\ndef g(n):\n    for i in range(n):\n        for j in range(100):\n            "
        "s = j\n    return n\ndef layer(v, out):\n    return v.x\n";
    for (int n = 10; n <= 1000; n *= 100) {
        char one[512];
        struct vertex_tree tree;
        bool loops;
        int n_byte = snprintf(one, sizeof one, text, n);
        cr_assert_eq(vertex_tree_parse(one, (size_t)n_byte, "case.gnn", &tree), STATUS_OK);
        cr_expect_eq(vertex_setting(&tree, "self_loops", false, &loops), n == 10 ? STATUS_OK : STATUS_CONFIG);
        vertex_tree_release(&tree);
    }
    cr_expect(strstr(status_reason(), "more than 20000 steps before training, in all its settings") != NULL, "%s",
              status_reason());
}
