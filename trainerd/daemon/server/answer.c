#include "trainerd/daemon/server/answer.h"

static json_t *begin(json_t *id)
{
    json_t *answer = json_object();
    json_object_set_new(answer, "id", id != NULL ? json_incref(id) : json_null());
    return answer;
}

json_t *answer_new(const json_t *request)
{
    json_t *answer = begin(json_object_get(request, "id"));
    json_object_set_new(answer, "ok", json_true());
    return answer;
}

json_t *answer_failure(const json_t *request, enum status status)
{
    json_t *answer = begin(json_object_get(request, "id"));
    json_object_set_new(answer, "ok", json_false());
    json_object_set_new(answer, "exit_code", json_integer(status_exit_code(status)));
    json_object_set_new(answer, "error", json_string(status_reason()));
    return answer;
}

json_t *answer_event(json_t *id, const char *event)
{
    json_t *answer = begin(id);
    json_object_set_new(answer, "event", json_string(event));
    return answer;
}

json_t *answer_end(json_t *id)
{
    json_t *answer = begin(id);
    json_object_set_new(answer, "end", json_true());
    return answer;
}
