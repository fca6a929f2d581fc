#include "trainerd/base/fields.h"

#include <math.h>

int64_t digits_read(const char **at, int64_t most)
{
    int64_t number = **at >= '0' && **at <= '9' ? 0 : -1;
    for (; **at >= '0' && **at <= '9'; ++*at) {
        const int digit = **at - '0';
        if (number > most / 10 || number * 10 > most - digit) {
            return -1;
        }
        number = number * 10 + digit;
    }
    return number;
}

const char *field_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

double field_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

int64_t field_integer(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

json_t *number_json(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}
