#include "tests/system/attack/mutation.h"

#include "tests/system/attack/campaign.h"

#include <ctype.h>
#include <string.h>

#define N_OF(array) ((uint32_t)(sizeof(array) / sizeof *(array)))
enum { N_MOST = MUTATION_BYTES - 1 };

static const char *const words[] = {"-1",
                                    "0",
                                    "-3",
                                    "99999999999999999999999",
                                    "9223372036854775807",
                                    "-9223372036854775808",
                                    "1e999",
                                    "nan",
                                    "-inf",
                                    "0x7fffffff",
                                    "4294967296",
                                    "18446744073709551615",
                                    "1.5",
                                    "\"\"",
                                    "[]",
                                    "{}",
                                    "null",
                                    "true",
                                    "\xff\xfe",
                                    "\xc0\xaf",
                                    "\xed\xa0\x80",
                                    "\\u0000",
                                    "../../../../etc/shadow",
                                    "'",
                                    "\"",
                                    "\r\n",
                                    "\t",
                                    "%s%n%s",
                                    "<f16",
                                    ">f4",
                                    "|O",
                                    "int8",
                                    "F64",
                                    "(3, -2)",
                                    "(99999999999, 99999999999)",
                                    "()"};

/* Replace bytes from..from+n by a word, as far as there is room. */
static size_t splice(char *out, size_t n_out, size_t from, size_t n, const char *word, size_t n_word)
{
    if (n_out - n + n_word > N_MOST) {
        return n_out;
    }
    memmove(out + from + n_word, out + from + n, n_out - from - n);
    memcpy(out + from, word, n_word);
    return n_out - n + n_word;
}

/* A number of the text, or what stands at a drawn place where the text has no number. */
static size_t replace_number(char *out, size_t n)
{
    const char *word = words[campaign_draw(N_OF(words))];
    size_t from = campaign_draw((uint32_t)n + 1), length = 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = (from + i) % n;
        if (isdigit((unsigned char)out[at])) {
            from = at;
            break;
        }
    }
    while (from + length < n && isdigit((unsigned char)out[from + length])) {
        length++;
    }
    return splice(out, n, from, length, word, strlen(word));
}

static size_t nest(char *out, size_t n)
{
    static char deep[8192];
    size_t n_deep = 1 + campaign_draw(4000);
    memset(deep, "[{(\""[campaign_draw(4)], n_deep);
    return splice(out, n, campaign_draw((uint32_t)n + 1), 0, deep, n_deep);
}

static size_t repeat(char *out, size_t n)
{
    static char piece[MUTATION_BYTES];
    size_t from = campaign_draw((uint32_t)n), n_piece = 1 + campaign_draw((uint32_t)(n - from));
    memcpy(piece, out + from, n_piece);
    return splice(out, n, campaign_draw((uint32_t)n + 1), 0, piece, n_piece);
}

static size_t change(char *out, size_t n)
{
    if (n == 0) {
        return splice(out, 0, 0, 0, "x", 1);
    }
    switch (campaign_draw(9)) {
    case 0: /* bits */
        for (uint32_t i = 1 + campaign_draw(8); i > 0; i--) {
            out[campaign_draw((uint32_t)n)] ^= (char)(1u << campaign_draw(8));
        }
        return n;
    case 1: /* one of the first bits: a head */
        out[campaign_draw((uint32_t)(n < 128 ? n : 128))] ^= (char)(1u << campaign_draw(8));
        return n;
    case 2:
        return campaign_draw((uint32_t)n);
    case 3: { /* a piece is missing */
        size_t from = campaign_draw((uint32_t)n);
        return splice(out, n, from, 1 + campaign_draw((uint32_t)(n - from)), "", 0);
    }
    case 4:
        return repeat(out, n);
    case 5:
        return nest(out, n);
    case 6: { /* numbers of the file's own kind, in binary */
        static const unsigned char values[][8] = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
                                                  {0, 0, 0, 0, 0, 0, 0, 0x80},
                                                  {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
                                                  {0, 0, 0xc0, 0x7f, 0, 0, 0xc0, 0x7f}};
        size_t n_byte = n < 8 ? n : 8;
        memcpy(out + campaign_draw((uint32_t)(n - n_byte + 1)), values[campaign_draw(4)], n_byte);
        return n;
    }
    default:
        return replace_number(out, n);
    }
}

size_t mutation_make(const void *bytes, size_t n, char out[MUTATION_BYTES])
{
    memcpy(out, bytes, n);
    for (uint32_t i = campaign_draw(3) == 0 ? 2 + campaign_draw(2) : 1; i > 0; i--) {
        n = change(out, n);
    }
    out[n] = '\0';
    return n;
}
