/* Names of other libraries in a program, and what to write instead. Knows no operations, only words. */
#include "protocol/vertex/trace_state.h"

#include <ctype.h>
#include <string.h>

static const struct {
    const char *name, *instead;
} foreign[] = {
#define FOREIGN(name, instead) {#name, instead},
#include "protocol/vertex/foreign.def"
#undef FOREIGN
};

/* LeakyReLU and leaky_relu are one word. */
static bool is_spelled(const char *a, const char *b)
{
    for (;; a++, b++) {
        a += *a == '_';
        b += *b == '_';
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) {
            return false;
        }
        if (*a == '\0') {
            return true;
        }
    }
}

bool trace_foreign(const char *name, char out[TRACE_FOREIGN_BYTES])
{
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        if (strcmp(foreign[i].name, name) == 0) {
            snprintf(out, TRACE_FOREIGN_BYTES, "; %s", foreign[i].instead);
            return true;
        }
    }
    for (int i = 0; trace_word_at(i) != NULL; i++) {
        if (is_spelled(trace_word_at(i), name)) {
            char form[64];
            trace_word_form(i, form);
            snprintf(out, TRACE_FOREIGN_BYTES, "; write %s", form);
            return true;
        }
    }
    out[0] = '\0';
    return false;
}
