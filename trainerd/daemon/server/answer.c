#include "trainerd/daemon/server/answer.h"

#include <stdarg.h>

json_t *answer_new(const json_t *request)
{
    return json_pack("{s:O?, s:b}", "id", json_object_get(request, "id"), "ok", 1);
}

json_t *answer_with(const json_t *request, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    json_t *answer = answer_new(request), *fields = json_vpack_ex(NULL, 0, format, values);
    va_end(values);
    json_object_update(answer, fields);
    json_decref(fields);
    return answer;
}

json_t *answer_failure(const json_t *request, enum status status)
{
    return json_pack("{s:O?, s:b, s:i, s:s}", "id", json_object_get(request, "id"), "ok", 0, "exit_code",
                     status_exit_code(status), "error", status_reason());
}

json_t *answer_event(json_t *id, const char *event)
{
    return json_pack("{s:O?, s:s}", "id", id, "event", event);
}

json_t *answer_end(json_t *id)
{
    return json_pack("{s:O?, s:b}", "id", id, "end", 1);
}
