/* Text from outside, fit to stand in one line for people: printable UTF-8 as it is, every other byte as \xNN.
 *
 * Control characters (of both sets), those that change the direction of text or end a line, those without a width,
 * and bytes that are no UTF-8, reach neither a terminal nor a log: what is shown is what is there.
 */
#ifndef PROTOCOL_PRINTABLE_H
#define PROTOCOL_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the printable character that `text` begins with, 1 to 4; 0 when it begins with none. */
size_t printable_length(const char *text);

/* Bytes of the character that it begins with, printable or not; 0: it is no UTF-8. */
size_t printable_character(const char *text);

/* Does it consist only of such characters? */
bool printable_is(const char *text);

/* Copy the text as far as there is room, and never cut a character or an escape.
 *
 *   units   room in bytes, with the NUL that ends *out
 *   owns    borrows both, which do not overlap
 */
void printable_copy(const char *text, char *out, size_t room);

#endif
