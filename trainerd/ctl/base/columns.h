/* Tables: cells that are collected, then printed; tables of JSON objects, one a row, from a list of columns. */
#ifndef TRAINERD_CTL_COLUMNS_H
#define TRAINERD_CTL_COLUMNS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#define TABLE_COLUMNS_MOST 16

/* Cells are collected, then printed, each column as wide as its widest cell. The first row has the titles. */
struct table {
    int n_column;
    char **cell;
    size_t n_cell;
    bool is_right[TABLE_COLUMNS_MOST]; /* numbers */
    /* 0: the column stays; else it is left out when empty, or when lines are too wide, the smallest first. */
    int worth[TABLE_COLUMNS_MOST];
};

void table_init(struct table *table, int n_column);
void table_add(struct table *table, const char *text); /* made printable; the next cell, row by row */
/* Where a line would be wider than n_columns (0: never), columns are left out, and then the last one is cut. is_out,
 * unless NULL: which columns were left out, n_column. Releases the table. */
void table_print(struct table *table, FILE *file, int n_columns, bool *is_out);

/* A column of rows that are JSON objects. */
struct column {
    const char *title;                                  /* NULL in all columns: no row of titles */
    const char *path;                                   /* of the value in a row: keys, dots between them */
    char *(*cell)(const json_t *row, const char *path); /* its text; the caller frees it */
    bool is_right;                                      /* as struct table's */
    int worth;
};

/* Kinds of cells; "-" where the value is missing or of another type, "" by cell_text and cell_number. */
char *cell_text(const json_t *row, const char *path);
char *cell_word(const json_t *row, const char *path);
char *cell_number(const json_t *row, const char *path); /* an integer; "" where it is 0 */
char *cell_integer(const json_t *row, const char *path);
char *cell_bytes(const json_t *row, const char *path);
char *cell_duration(const json_t *row, const char *path);
char *cell_percent(const json_t *row, const char *path);
char *cell_moment(const json_t *row, const char *path);
char *cell_metric(const json_t *row, const char *path); /* text_metric; a key alone */
char *cell_list(const json_t *row, const char *path);   /* "0, 2" of an array */

/* Print a row of titles, then the rows; n_columns as of table_print. */
void columns_print(const struct column *column, int n_column, const json_t *rows, int n_columns);

#endif
