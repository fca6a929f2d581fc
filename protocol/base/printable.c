#include "protocol/base/printable.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Characters that are invisible, or that change the place or visibility of others: both sets of controls, direction
 * (bidi), line separators, characters without width, and fillers. They are Unicode's Default_Ignorable_Code_Point
 * without variation selectors (which emoji need), its Bidi_Control, Zl and Zp, and interlinear annotation.
 * Ascending. */
static const struct {
    uint32_t first, last;
} unseen[] = {
    {0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},     {0x34f, 0x34f},     {0x61c, 0x61c},     {0x115f, 0x1160},
    {0x17b4, 0x17b5}, {0x180b, 0x180f}, {0x200b, 0x200f}, {0x2028, 0x202e},   {0x2060, 0x206f},   {0x3164, 0x3164},
    {0xfeff, 0xfeff}, {0xffa0, 0xffa0}, {0xfff0, 0xfffb}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe00ff},
};

static bool is_seen(uint32_t character)
{
    size_t i = 0;
    while (i < sizeof unseen / sizeof *unseen && unseen[i].last < character) {
        i++;
    }
    return i == sizeof unseen / sizeof *unseen || character < unseen[i].first;
}

/* *out: the character; its bytes, 0 at the end. */
static size_t decode(const char *text, uint32_t *out)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* least code point of that many bytes */
    const unsigned char *at = (const unsigned char *)text;
    size_t n = at[0] < 0x80 ? 1 : at[0] < 0xc0 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf8 ? 4 : 0;
    uint32_t character = n == 1 ? at[0] : at[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
        character = character << 6 | (at[i] & 0x3f);
    }
    bool surrogate = character >= 0xd800 && character < 0xe000;
    *out = character;
    return n > 0 && character >= least[n] && character <= 0x10ffff && !surrogate ? n : 0;
}

size_t printable_character(const char *text)
{
    uint32_t character;
    return decode(text, &character);
}

size_t printable_length(const char *text)
{
    uint32_t character = 0;
    size_t n = decode(text, &character);
    return n > 0 && is_seen(character) ? n : 0;
}

bool printable_is(const char *text)
{
    while (*text != '\0' && printable_length(text) > 0) {
        text += printable_length(text);
    }
    return *text == '\0';
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
