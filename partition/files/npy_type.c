#include "partition/files/npy_type.h"

size_t npy_type_size(enum npy_type type)
{
    static const size_t sizes[] = {
#define X(name, letter, size, text) size,
        NPY_TYPE_LIST(X)
#undef X
    };
    return sizes[type];
}

char npy_type_letter(enum npy_type type)
{
    static const char letters[] = {
#define X(name, letter, size, text) letter,
        NPY_TYPE_LIST(X)
#undef X
    };
    return letters[type];
}

const char *npy_type_text(enum npy_type type)
{
    static const char *const texts[] = {
#define X(name, letter, size, text) text,
        NPY_TYPE_LIST(X)
#undef X
    };
    return texts[type];
}
