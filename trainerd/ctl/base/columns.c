#include "trainerd/ctl/base/columns.h"

#include "protocol/base/memory.h"
#include "trainerd/ctl/base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LAST_LEAST 20 /* columns that the last column of a table keeps: "waiting, position 12" */

void table_init(struct table *table, int n_column)
{
    *table = (struct table){.n_column = n_column};
}

void table_add(struct table *table, const char *text)
{
    table->cell = memory_list_grow(table->cell, (int32_t)table->n_cell, sizeof *table->cell);
    table->cell[table->n_cell++] = text_printable(text);
}

/* The last column before this one that is not left out; a table keeps one at least. */
static int kept_before(const bool *is_out, int column)
{
    do {
        column--;
    } while (column > 0 && is_out[column]);
    return column;
}

static void print_row(const struct table *table, char *const *cell, const int *widest, const bool *is_out, FILE *file,
                      int n_columns)
{
    int column = 0, last = kept_before(is_out, table->n_column), end = kept_before(is_out, last);
    for (int i = 0; i < last; i++) {
        int pad = is_out[i] ? 0 : widest[i] - text_width(cell[i]);
        bool is_end = i == end && cell[last][0] == '\0'; /* of the line: no padding */
        if (!is_out[i]) {
            fprintf(file, "%*s%s%*s%s", table->is_right[i] ? pad : 0, "", cell[i],
                    table->is_right[i] || is_end ? 0 : pad, "", is_end ? "" : "  ");
            column += widest[i] + 2;
        }
    }
    int n_most = n_columns - column, pad = table->is_right[last] ? widest[last] - text_width(cell[last]) : 0;
    bool is_cut = n_columns > 0 && n_most < pad + text_width(cell[last]);
    int n_byte = is_cut ? text_prefix_bytes(cell[last], n_most > 0 ? n_most : 0) : -1;
    fprintf(file, "%*s%.*s\n", is_cut ? 0 : pad, "", n_byte, cell[last]);
}

/* How wide its lines are, when the last column is cut as far as it may be. */
static int lines_width(const struct table *table, const int *widest, const bool *is_out)
{
    int n = 0, last = 0;
    for (int i = 0; i < table->n_column; i++) {
        n += is_out[i] ? 0 : widest[i] + 2;
        last = is_out[i] ? last : widest[i];
    }
    return n - 2 - (last > LAST_LEAST ? last - LAST_LEAST : 0);
}

/* Leave out empty columns, and those of the least worth until lines are narrow enough. */
static void leave_out(const struct table *table, const int *widest, int n_columns, bool *is_out)
{
    for (int i = 0; i < table->n_column; i++) {
        is_out[i] = table->worth[i] > 0;
        for (size_t at = (size_t)(table->n_column + i); at < table->n_cell && is_out[i];
             at += (size_t)table->n_column) {
            is_out[i] = table->cell[at][0] == '\0' || strcmp(table->cell[at], "-") == 0;
        }
    }
    while (n_columns > 0 && lines_width(table, widest, is_out) > n_columns) {
        int least = -1;
        for (int i = 0; i < table->n_column; i++) {
            bool may_go = table->worth[i] > 0 && !is_out[i];
            least = may_go && (least < 0 || table->worth[i] < table->worth[least]) ? i : least;
        }
        if (least < 0) {
            return;
        }
        is_out[least] = true;
    }
}

void table_print(struct table *table, FILE *file, int n_columns, bool *is_out)
{
    int widest[TABLE_COLUMNS_MOST] = {0};
    bool left_out[TABLE_COLUMNS_MOST];
    size_t n_column = (size_t)table->n_column;
    for (size_t i = 0; i < table->n_cell; i++) {
        int w = text_width(table->cell[i]);
        widest[i % n_column] = w > widest[i % n_column] ? w : widest[i % n_column];
    }
    leave_out(table, widest, n_columns, left_out);
    for (size_t i = 0; i + n_column <= table->n_cell; i += n_column) {
        print_row(table, table->cell + i, widest, left_out, file, n_columns);
    }
    for (size_t i = 0; i < table->n_cell; i++) {
        free(table->cell[i]);
    }
    if (is_out != NULL) {
        memcpy(is_out, left_out, n_column * sizeof *is_out);
    }
    free(table->cell);
    *table = (struct table){.n_column = table->n_column};
}

/* --- columns --- */

static const json_t *value_of(const json_t *row, const char *path)
{
    char key[64];
    const char *dot;
    for (; (dot = strchr(path, '.')) != NULL; path = dot + 1) {
        snprintf(key, sizeof key, "%.*s", (int)(dot - path), path);
        row = json_object_get(row, key);
    }
    return json_object_get(row, path);
}

char *cell_text(const json_t *row, const char *path)
{
    const char *text = json_string_value(value_of(row, path));
    return text_format("%s", text != NULL ? text : "");
}

char *cell_word(const json_t *row, const char *path)
{
    const char *text = json_string_value(value_of(row, path));
    return text_format("%s", text != NULL && text[0] != '\0' ? text : "-");
}

char *cell_integer(const json_t *row, const char *path)
{
    const json_t *value = value_of(row, path);
    return json_is_integer(value) ? text_format("%lld", (long long)json_integer_value(value)) : text_format("-");
}

char *cell_number(const json_t *row, const char *path)
{
    return json_integer_value(value_of(row, path)) != 0 ? cell_integer(row, path) : text_format("%s", "");
}

static char *cell_unit(const json_t *row, const char *path, struct figure (*print)(double value))
{
    const json_t *value = value_of(row, path);
    return text_format("%s", print(json_is_number(value) ? json_number_value(value) : NAN).text);
}

char *cell_bytes(const json_t *row, const char *path)
{
    return cell_unit(row, path, figure_bytes);
}

char *cell_duration(const json_t *row, const char *path)
{
    return cell_unit(row, path, figure_seconds);
}

char *cell_percent(const json_t *row, const char *path)
{
    return cell_unit(row, path, figure_fraction);
}

char *cell_moment(const json_t *row, const char *path)
{
    return cell_unit(row, path, text_moment);
}

char *cell_metric(const json_t *row, const char *path)
{
    return text_format("%s", text_metric(row, path).text);
}

char *cell_list(const json_t *row, const char *path)
{
    const json_t *list = value_of(row, path);
    return json_array_size(list) > 0 ? text_list(list) : text_format("-");
}

void columns_print(const struct column *column, int n_column, const json_t *rows, int n_columns)
{
    struct table table;
    size_t r;
    const json_t *row;
    table_init(&table, n_column);
    for (int i = 0; i < n_column; i++) {
        table.is_right[i] = column[i].is_right;
        table.worth[i] = column[i].worth;
        if (column[i].title != NULL) {
            table_add(&table, column[i].title);
        }
    }
    json_array_foreach(rows, r, row)
    {
        for (int i = 0; i < n_column; i++) {
            char *text = column[i].cell(row, column[i].path);
            table_add(&table, text);
            free(text);
        }
    }
    table_print(&table, stdout, n_columns, NULL);
}
