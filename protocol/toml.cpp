/* The only file that sees toml++ (header-only). Nothing of C++ leaves it: entries are plain structs whose texts live in the
 * store, exceptions become a status. Bytes are checked for UTF-8 and depth before the parser sees them.
 */
#include <stdexcept>
#include <string_view>

namespace {

struct parser_bug : std::logic_error {
    using std::logic_error::logic_error;
};

/* toml++ 3.3 asserts of a table header's first character ("[.a]") what it refuses properly a few lines later. */
constexpr bool is_refused_later(std::string_view condition)
{
    return condition == "is_bare_key_character(*cp) || is_string_delimiter(*cp)";
}

/* A function, since a throw inside some of the parser's noexcept functions would be warned of at each. */
[[noreturn]] void give_up(const char *condition)
{
    throw parser_bug(condition);
}

} // namespace

/* With exceptions off the parser is noexcept, so that neither a failed assertion nor a lack of memory could be caught. */
#define TOML_EXCEPTIONS 1
#define TOML_ASSERT(condition) \
    ((condition) || is_refused_later(#condition) ? static_cast<void>(0) : give_up(#condition))
#define TOML_MAX_NESTED_VALUES 32
#include <toml++/toml.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <new>
#include <string>
#include <vector>

extern "C" {
#include "protocol/toml.h"
}

static_assert(TOML_MAX_NESTED_VALUES == TOML_DEPTH_MOST, "one depth for values and keys");

namespace {

struct store {
    std::deque<std::string> texts; /* a deque: addresses stay */
    std::vector<toml_entry> entries;
    toml_position nul_at{}; /* of a text or key with a NUL inside, which C would cut there */

    const char *keep(std::string_view text, toml_position at = {})
    {
        if (text.find('\0') != text.npos) {
            nul_at = at;
        }
        return texts.emplace_back(text).c_str();
    }
};

/* Walks the characters of the text and knows the place. */
struct cursor {
    std::string_view text;
    size_t at = 0;
    toml_position place{1, 1};

    /* Bytes of the character at `at`; 0 when it is not UTF-8 (too short, overlong, surrogate, past U+10FFFF). */
    size_t width() const
    {
        auto byte = [&](size_t i) { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u; };
        unsigned lead = byte(0);
        if (lead < 0x80) {
            return 1;
        }
        size_t n = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
        if (lead < 0xc2 || lead > 0xf4) {
            return 0;
        }
        for (size_t i = 1; i < n; i++) {
            if ((byte(i) & 0xc0) != 0x80) {
                return 0;
            }
        }
        bool wrong = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f) ||
                     (lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f);
        return wrong ? 0 : n;
    }

    void step(size_t n_bytes)
    {
        if (text[at] == '\n') {
            place.line++;
            place.column = 1;
        } else {
            place.column++;
        }
        at += n_bytes;
    }

    bool starts(std::string_view what) const
    {
        return text.substr(at, what.size()) == what;
    }
};

/* Step over a string that begins here, as TOML does: up to its closing quotes; one line only unless tripled. */
void skip_string(cursor &c)
{
    char quote = c.text[c.at];
    std::string triple(3, quote);
    bool tripled = c.starts(triple);
    std::string_view close = tripled ? std::string_view(triple) : std::string_view(triple).substr(0, 1);
    for (size_t i = 0; i < close.size(); i++) {
        c.step(1);
    }
    while (c.at < c.text.size() && !c.starts(close) && (tripled || c.text[c.at] != '\n')) {
        if (quote == '"' && c.text[c.at] == '\\' && c.at + 1 < c.text.size()) {
            c.step(1);
        }
        c.step(std::max<size_t>(c.width(), 1));
    }
    /* A tripled string may end in two quotes of its own. */
    size_t most = tripled ? 5 : 1;
    for (size_t i = 0; i < most && c.at < c.text.size() && c.text[c.at] == quote; i++) {
        c.step(1);
    }
}

status check_encoding(std::string_view text, const char *origin)
{
    for (cursor c{text}; c.at < text.size();) {
        size_t n = c.width();
        if (n == 0) {
            return status_fail(STATUS_CONFIG, "%s:%u:%u: byte 0x%02x is not UTF-8 text", origin, c.place.line,
                               c.place.column, static_cast<unsigned char>(text[c.at]));
        }
        c.step(n);
    }
    return STATUS_OK;
}

/* Every dot of a key makes a table inside a table, and toml++ bounds values only. */
status check_depth(std::string_view text, const char *origin)
{
    int n_dot = 0;
    for (cursor c{text}; c.at < text.size();) {
        switch (text[c.at]) {
        case '"':
        case '\'':
            skip_string(c);
            continue;
        case '#':
            while (c.at < text.size() && text[c.at] != '\n') {
                c.step(std::max<size_t>(c.width(), 1));
            }
            continue;
        case '.':
            if (++n_dot > TOML_DEPTH_MOST) {
                return status_fail(STATUS_CONFIG, "%s:%u:%u: a key of more than %d nested tables", origin,
                                   c.place.line, c.place.column, TOML_DEPTH_MOST);
            }
            break;
        case '\n':
        case '=':
        case ',':
            n_dot = 0;
            break;
        default:
            break;
        }
        c.step(std::max<size_t>(c.width(), 1));
    }
    return STATUS_OK;
}

toml_position position(const toml::source_region &region)
{
    return {region.begin.line, region.begin.column};
}

void collect(store &store, const char *section, const toml::table &table)
{
    for (auto &&[key, node] : table) {
        toml_entry entry{};
        entry.section = section;
        entry.key_at = position(key.source());
        entry.value_at = position(node.source());
        entry.key = store.keep(key.str(), entry.key_at);
        entry.text = "";
        switch (node.type()) {
        case toml::node_type::string:
            entry.type = TOML_TYPE_TEXT;
            entry.text = store.keep(node.as_string()->get(), entry.value_at);
            break;
        case toml::node_type::integer:
            entry.type = TOML_TYPE_INT;
            entry.integer = node.as_integer()->get();
            break;
        case toml::node_type::floating_point:
            entry.type = TOML_TYPE_REAL;
            entry.real = node.as_floating_point()->get();
            break;
        case toml::node_type::boolean:
            entry.type = TOML_TYPE_BOOL;
            entry.boolean = node.as_boolean()->get();
            break;
        case toml::node_type::array:
            entry.type = TOML_TYPE_ARRAY;
            break;
        case toml::node_type::table:
            entry.type = TOML_TYPE_TABLE;
            break;
        default:
            entry.type = TOML_TYPE_TIME;
            break;
        }
        store.entries.push_back(entry);
        if (entry.type == TOML_TYPE_TABLE && section[0] == '\0') {
            collect(store, entry.key, *node.as_table());
        }
    }
}

status parse(std::string_view text, const char *origin, toml_list *out)
{
    toml::table table = toml::parse(text);
    auto kept = std::make_unique<store>();
    collect(*kept, "", table);
    if (kept->nul_at.line > 0) {
        return status_fail(STATUS_CONFIG, "%s:%u:%u: a NUL character inside a text", origin, kept->nul_at.line,
                           kept->nul_at.column);
    }
    std::stable_sort(kept->entries.begin(), kept->entries.end(), [](const toml_entry &a, const toml_entry &b) {
        return a.key_at.line != b.key_at.line ? a.key_at.line < b.key_at.line : a.key_at.column < b.key_at.column;
    });
    out->entry = kept->entries.data();
    out->n_entry = kept->entries.size();
    out->store = kept.release();
    return STATUS_OK;
}

} // namespace

extern "C" enum status toml_read(const char *text, size_t n_bytes, const char *origin, struct toml_list *out)
{
    std::string_view view(text, n_bytes);
    status failure = check_encoding(view, origin);
    if (failure == STATUS_OK) {
        failure = check_depth(view, origin);
    }
    if (failure != STATUS_OK) {
        return failure;
    }
    try {
        return parse(view, origin, out);
    } catch (const toml::parse_error &error) {
        std::string_view what = error.description();
        return status_fail(STATUS_CONFIG, "%s:%u:%u: %.*s", origin, error.source().begin.line,
                           error.source().begin.column, static_cast<int>(what.size()), what.data());
    } catch (const std::bad_alloc &) {
        return status_fail(STATUS_NOMEM, "%s: no memory for %zu bytes of TOML", origin, n_bytes);
    } catch (const std::exception &bug) {
        return status_fail(STATUS_CONFIG, "%s: the TOML parser gave up: '%s' does not hold", origin, bug.what());
    }
}

extern "C" void toml_release(struct toml_list *list)
{
    delete static_cast<store *>(list->store);
    *list = {};
}

extern "C" const char *toml_type_text(enum toml_type type)
{
    static const char *const texts[] = {
#define X(name, text) text,
        TOML_TYPE_LIST(X)
#undef X
    };
    return texts[type];
}
