#include "trainerd/base/texts.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void texts_add(struct texts *texts, const char *format, ...)
{
    va_list values;
    texts->text = memory_grow(texts->text, (texts->n + 2) * sizeof *texts->text);
    va_start(values, format);
    int n_byte = vasprintf(&texts->text[texts->n++], format, values);
    va_end(values);
    ASSERT(n_byte >= 0);
    texts->text[texts->n] = NULL;
}

void texts_free(char **text)
{
    for (size_t i = 0; text != NULL && text[i] != NULL; i++) {
        free(text[i]);
    }
    free(text);
}
