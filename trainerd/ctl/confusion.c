/* See confusion.h. */
#include "trainerd/ctl/confusion.h"

#include "trainerd/ctl/base/columns.h"
#include "trainerd/ctl/base/text.h"

#include <stdio.h>
#include <string.h>

#define MATRIX_CLASSES_MOST 10 /* columns: a table has 16 */
#define MATRIX_NAMES_MOST 60   /* bytes of all names together, so that a line fits a terminal */
#define LINES_MOST 40

static void add_integer(struct table *table, const json_t *value)
{
    table_add(table, figure_whole((double)json_integer_value(value)).text);
}

static void add_percent(struct table *table, const json_t *value)
{
    table_add(table, json_is_number(value) ? figure_fraction(json_number_value(value)).text : "-");
}

/* The class's name, or its number. */
static void add_name(struct table *table, const json_t *names, size_t k)
{
    const char *name = json_string_value(json_array_get(names, k));
    table_add(table, name != NULL ? name : figure_whole((double)k).text);
}

static bool matrix_fits(const json_t *names, size_t n_class)
{
    size_t n_byte = 0;
    for (size_t k = 0; k < n_class; k++) {
        n_byte += json_string_length(json_array_get(names, k));
    }
    return n_class <= MATRIX_CLASSES_MOST && n_byte <= MATRIX_NAMES_MOST;
}

void confusion_print(const json_t *result, FILE *file)
{
    static const char *const columns[] = {"nodes", "recall", "precision"};
    const json_t *confusion = json_object_get(result, "confusion"), *support = json_object_get(confusion, "support");
    const json_t *names = json_object_get(json_object_get(result, "dataset"), "class_names");
    const json_t *matrix = json_object_get(confusion, "matrix");
    size_t n_class = json_array_size(support), n_line = n_class < LINES_MOST ? n_class : LINES_MOST;
    size_t n_shown = json_is_array(matrix) && matrix_fits(names, n_class) ? n_class : 0;
    if (n_class == 0) {
        return;
    }
    struct table table;
    table_init(&table, (int)(1 + n_shown + 3));
    memset(table.is_right + 1, true, n_shown + 3);
    table_add(&table, "class");
    for (size_t k = 0; k < n_shown; k++) {
        add_name(&table, names, k);
    }
    for (int i = 0; i < 3; i++) {
        table_add(&table, columns[i]);
    }
    for (size_t k = 0; k < n_line; k++) {
        add_name(&table, names, k);
        for (size_t other = 0; other < n_shown; other++) {
            add_integer(&table, json_array_get(json_array_get(matrix, k), other));
        }
        add_integer(&table, json_array_get(support, k));
        add_percent(&table, json_array_get(json_object_get(confusion, "recall"), k));
        add_percent(&table, json_array_get(json_object_get(confusion, "precision"), k));
    }
    fprintf(file, "\n%s of the %s nodes%s\n", n_shown > 0 ? "confusion matrix" : "classes",
            field_text(confusion, "split"),
            n_shown > 0 ? ": a row for each class, a column for each prediction" : "");
    table_print(&table, file, text_columns(file), NULL);
    if (n_line < n_class) {
        fprintf(file, "and %zu more classes, in result.json\n", n_class - n_line);
    }
}
