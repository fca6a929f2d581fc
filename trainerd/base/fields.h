/* Fields of JSON objects: read with a default, and numbers written; whole numbers in texts. */
#ifndef TRAINERD_FIELDS_H
#define TRAINERD_FIELDS_H

#include <jansson.h>
#include <stdint.h>

/* "" / NaN / 0 where the field is missing, null or of another type. */
const char *field_text(const json_t *object, const char *key);
double field_number(const json_t *object, const char *key);
int64_t field_integer(const json_t *object, const char *key);

/* A number, null when it is not finite. */
json_t *number_json(double value);

/* Digits at *at, which moves behind them; -1: none, or a number above `most`. */
int64_t digits_read(const char **at, int64_t most);

#endif
