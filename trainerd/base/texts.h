/* Lists of texts that end with NULL, as a program's arguments and environment are. */
#ifndef TRAINERD_TEXTS_H
#define TRAINERD_TEXTS_H

#include <stddef.h>

struct texts {
    char **text; /* n, then NULL; NULL: nothing was added yet */
    size_t n;
};

/* Add a text, as printf makes it. owns  the caller releases the list with texts_free(texts->text) */
void texts_add(struct texts *texts, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* NULL is allowed. */
void texts_free(char **text);

#endif
