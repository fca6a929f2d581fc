/* A text as a TOML basic string, quotes included. */
#include "protocol/base/memory.h"
#include "protocol/toml/toml.h"

#include <stdio.h>
#include <string.h>

char *toml_quote(const char *text)
{
    static const char special[] = "\b\t\n\f\r\"\\";
    static const char letter[] = "btnfr\"\\";
    size_t room = 6 * strlen(text) + 3, at = 0;
    char *out = memory_alloc(room, 1);
    out[at++] = '"';
    for (; *text != '\0'; text++) {
        const char *found = strchr(special, *text);
        unsigned char c = (unsigned char)*text;
        if (found != NULL) {
            out[at++] = '\\';
            out[at++] = letter[found - special];
        } else if (c < 0x20 || c == 0x7f) {
            at += (size_t)snprintf(out + at, room - at, "\\u%04x", c);
        } else {
            out[at++] = *text;
        }
    }
    out[at++] = '"';
    return out;
}
