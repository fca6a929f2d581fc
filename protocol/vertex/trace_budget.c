/* What a trace may take: steps, and bytes of texts. */
#include "protocol/base/memory.h"
#include "protocol/vertex/trace_state.h"

#include <string.h>

enum status trace_charge(struct trace *trace, int32_t node, int64_t n_step)
{
    trace->budget->n_step -= n_step;
    return trace->budget->n_step >= 0
               ? STATUS_OK
               : TRACE_FAIL(trace, node, "the text takes more than %d steps before training, in all its %s",
                            trace->n_step_most, trace->n_step_most == VERTEX_SETTINGS_MOST ? "settings" : "layers");
}

static const char *keep_text(struct trace *trace, const char *text, size_t n)
{
    char *copy = memory_alloc(n + 1, 1);
    memcpy(copy, text, n);
    trace->text = memory_list_grow(trace->text, trace->n_text, sizeof *trace->text);
    trace->text[trace->n_text++] = copy;
    return copy;
}

enum status trace_keep(struct trace *trace, int32_t node, const char *text, size_t n, const char **out)
{
    if (n > VERTEX_STRING_MOST) {
        return TRACE_FAIL(trace, node, "the text has %zu bytes; expected at most %d", n, VERTEX_STRING_MOST);
    }
    trace->budget->n_byte -= (int64_t)n + 32; /* with what a block takes */
    if (trace->budget->n_byte < 0) {
        return TRACE_FAIL(trace, node, "the program makes more than %d bytes of texts, in all its layers",
                          VERTEX_STRINGS_MOST);
    }
    *out = keep_text(trace, text, n);
    return STATUS_OK;
}

const char *trace_keep_name(struct trace *trace, int32_t name)
{
    const struct vertex_span at = trace->tree->name[name];
    return keep_text(trace, trace->tree->source.text + at.begin, (size_t)(at.end - at.begin));
}
