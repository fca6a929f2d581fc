#include "protocol/printable.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

size_t printable_length(const char *text)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* what so many bytes must hold: less is a second spelling */
    const unsigned char *at = (const unsigned char *)text;
    if (at[0] < 0x80) {
        return at[0] >= 0x20 && at[0] != 0x7f;
    }
    size_t n = at[0] < 0xc0 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf8 ? 4 : 0;
    uint32_t character = at[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
        character = character << 6 | (at[i] & 0x3f);
    }
    bool control = character < 0xa0, surrogate = character >= 0xd800 && character < 0xe000;
    return n > 0 && character >= least[n] && character <= 0x10ffff && !control && !surrogate ? n : 0;
}

void printable_copy(const char *text, char *out, size_t room)
{
    size_t at = 0;
    while (*text != '\0') {
        char escape[5];
        size_t n = printable_length(text);
        const char *from = text;
        text += n > 0 ? n : 1;
        if (n == 0) {
            n = (size_t)snprintf(escape, sizeof escape, "\\x%02x", (unsigned char)*from);
            from = escape;
        }
        if (at + n >= room) {
            break;
        }
        memcpy(out + at, from, n);
        at += n;
    }
    out[at] = '\0';
}
