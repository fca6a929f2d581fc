/* The element types of .npy arrays that are read: one list. */
#ifndef PARTITION_NPY_TYPE_H
#define PARTITION_NPY_TYPE_H

#include <stddef.h>

/*       name  letter size  text */
/* clang-format off */
#define NPY_TYPE_LIST(X)     \
    X(BOOL, 'b', 1, "bool")  \
    X(I8, 'i', 1, "int8")    \
    X(I16, 'i', 2, "int16")  \
    X(I32, 'i', 4, "int32")  \
    X(I64, 'i', 8, "int64")  \
    X(U8, 'u', 1, "uint8")   \
    X(U16, 'u', 2, "uint16") \
    X(U32, 'u', 4, "uint32") \
    X(U64, 'u', 8, "uint64") \
    X(F16, 'f', 2, "float16") \
    X(F32, 'f', 4, "float32") \
    X(F64, 'f', 8, "float64")
/* clang-format on */

enum npy_type {
#define X(name, letter, size, text) NPY_TYPE_##name,
    NPY_TYPE_LIST(X)
#undef X
        NPY_TYPE_N
};

size_t npy_type_size(enum npy_type type);
char npy_type_letter(enum npy_type type);      /* NumPy's kind: 'f' */
const char *npy_type_text(enum npy_type type); /* "float32" */

#endif
