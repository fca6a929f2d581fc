/* The classes of a result's test nodes against those that were predicted, by the classes' names. */
#ifndef TRAINERD_CTL_CONFUSION_H
#define TRAINERD_CTL_CONFUSION_H

#include <jansson.h>
#include <stdio.h>

/* Print "confusion" of a result.json, or nothing where it lacks one: a line for each class, with a column for each
 * class that was predicted where there are few. */
void confusion_print(const json_t *result, FILE *file);

#endif
