#include "trainerd/socket/requests.h"

#include <ctype.h>
#include <string.h>

#define FIELD_MOST 16

struct field {
    const char *name;
    enum request_type type;
    bool required;
    const char *help;
};

struct definition {
    const char *name, *help, *gives;
    struct field field[FIELD_MOST]; /* the first without a name ends them */
};

#define REQUEST_BEGIN(name, help, gives)                                                                             \
    {                                                                                                                \
#name, help, gives,                                                                                          \
        {
#define FIELD(type, name, required, help) {#name, REQUEST_TYPE_##type, required, help},
#define REQUEST_END(name)                                                                                            \
    {                                                                                                                \
        NULL, REQUEST_TYPE_TEXT, false, NULL                                                                         \
    }                                                                                                                \
    }                                                                                                                \
    }                                                                                                                \
    ,
static const struct definition definitions[REQUEST_N] = {
#include "trainerd/socket/requests.def"
};

static const char *const type_texts[] = {
#define X(name, text) [REQUEST_TYPE_##name] = text,
    REQUEST_TYPE_LIST(X)
#undef X
};

static bool is_of_type(const json_t *value, enum request_type type);

static bool are_of_type(const json_t *array, enum request_type type)
{
    size_t i;
    const json_t *item;
    json_array_foreach(array, i, item)
    {
        if (!is_of_type(item, type)) {
            return false;
        }
    }
    return json_is_array(array);
}

static bool is_of_type(const json_t *value, enum request_type type)
{
    switch (type) {
    case REQUEST_TYPE_TEXT:
        return json_is_string(value);
    case REQUEST_TYPE_INT:
        return json_is_integer(value);
    case REQUEST_TYPE_REAL:
        return json_is_number(value);
    case REQUEST_TYPE_BOOL:
        return json_is_boolean(value);
    case REQUEST_TYPE_JOB:
        return json_is_integer(value) || json_is_string(value);
    case REQUEST_TYPE_TEXTS:
        return are_of_type(value, REQUEST_TYPE_TEXT);
    case REQUEST_TYPE_LISTS:
        return are_of_type(value, REQUEST_TYPE_TEXTS);
    }
    return false;
}

static const struct field *find_field(const struct definition *definition, const char *name)
{
    const struct field *field = definition->field;
    while (field->name != NULL && strcmp(field->name, name) != 0) {
        field++;
    }
    return field->name != NULL ? field : NULL;
}

static enum status refuse_unknown(const struct definition *definition, const char *name)
{
    char names[256] = "";
    for (const struct field *field = definition->field; field->name != NULL; field++) {
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", n > 0 ? ", " : "", field->name);
    }
    return status_fail(STATUS_USAGE, "%s takes no '%.64s'; it takes %s", definition->name, name,
                       names[0] != '\0' ? names : "nothing");
}

/* Fields that every request has. */
static bool is_head(const char *name)
{
    return strcmp(name, "v") == 0 || strcmp(name, "id") == 0 || strcmp(name, "cmd") == 0;
}

static enum status check_fields(const struct definition *definition, const json_t *request)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)request, name, value)
    {
        const struct field *field = find_field(definition, name);
        if (field == NULL && !is_head(name)) {
            return refuse_unknown(definition, name);
        }
        if (field != NULL && !is_of_type(value, field->type)) {
            return status_fail(STATUS_USAGE, "%s: %s is not %s", definition->name, name, type_texts[field->type]);
        }
    }
    for (const struct field *field = definition->field; field->name != NULL; field++) {
        if (field->required && json_object_get(request, field->name) == NULL) {
            return status_fail(STATUS_USAGE, "%s needs %s: %s", definition->name, field->name,
                               field->help[0] != '\0' ? field->help : type_texts[field->type]);
        }
    }
    return STATUS_OK;
}

enum status request_check(const json_t *request, enum request *out)
{
    const char *name = json_string_value(json_object_get(request, "cmd"));
    if (name == NULL) {
        return status_fail(STATUS_USAGE, "cmd is missing, expected a text: hello, submit, status, …");
    }
    for (int i = 0; i < REQUEST_N; i++) {
        if (strcmp(definitions[i].name, name) == 0) {
            *out = (enum request)i;
            return check_fields(&definitions[i], request);
        }
    }
    return status_fail(STATUS_USAGE, "there is no command '%.64s'; docs/protocol.md lists them", name);
}

void requests_describe(FILE *file)
{
    for (int i = 0; i < REQUEST_N; i++) {
        const struct definition *definition = &definitions[i];
        fprintf(file, "### %s\n\n%c%s.\n", definition->name, toupper(definition->help[0]), definition->help + 1);
        if (definition->field[0].name != NULL) {
            fprintf(file, "\n| field | is | |\n|---|---|---|\n");
        }
        for (const struct field *field = definition->field; field->name != NULL; field++) {
            fprintf(file, "| `%s`%s | %s | %s |\n", field->name, field->required ? "" : " (optional)",
                    type_texts[field->type], field->help);
        }
        fprintf(file, "\nGives: %s.\n%s", definition->gives, i + 1 < REQUEST_N ? "\n" : "");
    }
}
