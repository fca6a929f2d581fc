/* A vendor library, opened at run time if the machine has it. Emulated builds use the emulator's functions. */
#ifndef MODELS_CUDA_LIBRARY_H
#define MODELS_CUDA_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

/* Finds a function of the emulator by its name; NULL in other builds. */
#ifdef CUDA_EMULATED
#define CUDA_LIBRARY_EMULATED(find) find
#else
#define CUDA_LIBRARY_EMULATED(find) NULL
#endif

/* Fill in a library's functions, one pointer after another in the order of their names. places: its possible file
 * names, of which the first existing one is opened; both lists end with NULL. It stays open, since it has threads.
 * false: the machine lacks the library, or the library lacks a function */
bool cuda_library_find(const char *const *places, const char *const *names, void *(*emulated)(const char *name),
                       void *functions_out);

#endif
