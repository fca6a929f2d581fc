#include "partition/files/npy_type.h"

static const struct {
    char letter;
    size_t size;
    const char *text;
} types[] = {
#define X(name, letter, size, text) {letter, size, text},
    NPY_TYPE_LIST(X)
#undef X
};

size_t npy_type_size(enum npy_type type)
{
    return types[type].size;
}

char npy_type_letter(enum npy_type type)
{
    return types[type].letter;
}

const char *npy_type_text(enum npy_type type)
{
    return types[type].text;
}
