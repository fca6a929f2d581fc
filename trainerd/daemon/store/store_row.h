/* A job's record as a row of the store: table and statements are made from one list of columns. */
#ifndef TRAINERD_DAEMON_STORE_ROW_H
#define TRAINERD_DAEMON_STORE_ROW_H

#include "trainerd/daemon/store/job_record.h"

#include <sqlite3.h>
#include <stddef.h>

/* Columns of a record, without its id. */
extern const int store_row_n;

/* "name TEXT, uid INTEGER, …" / "name, uid, …" / "?, ?, …" / "state = ?4, … WHERE id = ?N", written to out. The last
 * leaves out what never changes, so that an update touches no index of that. Its parameters have columns' numbers. */
enum store_row_form { STORE_ROW_DECLARED, STORE_ROW_NAMES, STORE_ROW_MARKS, STORE_ROW_SET };
#define STORE_ROW_BYTES 1280
void store_row_print(enum store_row_form form, char out[STORE_ROW_BYTES]);

/* Bind a record to parameters from number `first` on; texts are borrowed until the statement is reset. */
int store_row_bind(sqlite3_stmt *statement, int first, const struct job_record *record);

/* A column of the present row as text, until the next step; "" where it is NULL. */
const char *store_text(sqlite3_stmt *statement, int column);

/* Read a record, but its id, from columns from `first` on. errors  STATUS_DATA unknown state or reason */
enum status store_row_read(sqlite3_stmt *statement, int first, struct job_record *out);

#endif
