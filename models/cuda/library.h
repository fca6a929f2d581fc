/* A library of the vendor's that is opened at run time, where the machine has it. Emulated, its functions are the
 * emulator's. */
#ifndef MODELS_CUDA_LIBRARY_H
#define MODELS_CUDA_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

/* What finds a function of the emulator's by its name; NULL in other builds. */
#ifdef CUDA_EMULATED
#define CUDA_LIBRARY_EMULATED(find) find
#else
#define CUDA_LIBRARY_EMULATED(find) NULL
#endif

/* Fill in a library's functions, one pointer after another in the order of their names. places: its file names, of
 * which the first that there is is taken; both lists end with NULL. It stays open: it has threads. false: the machine
 * lacks the library, or it one of them */
bool cuda_library_find(const char *const *places, const char *const *names, void *(*emulated)(const char *name),
                       void *functions_out);

#endif
