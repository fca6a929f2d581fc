/* The pickle opcodes that data need, of protocols 3 and 4 (and 2 without bytes). Everything on the stack is a node,
 * and nothing is ever called. */
#include "partition/files/pickle_tree.h"

#include "protocol/base/memory.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define STACK_MOST 1024
#define MEMO_MOST 1024

struct machine {
    const char *name;
    const uint8_t *bytes, *at, *end;
    struct pickle_tree *tree;
    uint32_t stack[STACK_MOST];
    uint32_t n_stack;
    uint32_t memo[MEMO_MOST];
    uint32_t n_memo;
};

static enum status fail_at(const struct machine *machine, const char *what)
{
    return status_fail(STATUS_DATA, "%s: pickle byte %td: %s", machine->name, machine->at - machine->bytes, what);
}

static uint32_t node_new(struct machine *machine, enum pickle_kind kind)
{
    struct pickle_tree *tree = machine->tree;
    if (tree->n_node == PICKLE_NODE_MOST) {
        return 0;
    }
    tree->nodes[tree->n_node] = (struct pickle_node){.kind = kind};
    return tree->n_node++;
}

static enum status push(struct machine *machine, uint32_t node)
{
    if (node == 0 || machine->n_stack == STACK_MOST) {
        return fail_at(machine, "too large for a matrix, expected a few arrays");
    }
    machine->stack[machine->n_stack++] = node;
    return STATUS_OK;
}

/* The top of the stack, or 0: it is empty, or a mark. */
static uint32_t pop(struct machine *machine)
{
    if (machine->n_stack == 0) {
        return 0;
    }
    uint32_t node = machine->stack[machine->n_stack - 1];
    if (machine->tree->nodes[node].kind == PICKLE_KIND_MARK) {
        return 0;
    }
    machine->n_stack--;
    return node;
}

static bool append(struct machine *machine, uint32_t sequence, uint32_t value)
{
    uint32_t cell = node_new(machine, PICKLE_KIND_CELL);
    struct pickle_node *nodes = machine->tree->nodes;
    if (cell == 0 || nodes[sequence].kind != PICKLE_KIND_SEQUENCE) {
        return false;
    }
    nodes[cell].first = value;
    if (nodes[sequence].last != 0) {
        nodes[nodes[sequence].last].next = cell;
    } else {
        nodes[sequence].first = cell;
    }
    nodes[sequence].last = cell;
    return true;
}

/* Little-endian number of n bytes after the opcode; false when the input ends. */
static bool take_number(struct machine *machine, size_t n, uint64_t *out)
{
    if ((size_t)(machine->end - machine->at) < n) {
        return false;
    }
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        *out |= (uint64_t)machine->at[i] << (8 * i);
    }
    machine->at += n;
    return true;
}

/* A text after its length of n bytes. */
static enum status push_text(struct machine *machine, size_t n)
{
    uint64_t length;
    if (!take_number(machine, n, &length) || length > (uint64_t)(machine->end - machine->at)) {
        return fail_at(machine, "ends in a text, expected it whole");
    }
    uint32_t node = node_new(machine, PICKLE_KIND_TEXT);
    if (node != 0) {
        machine->tree->nodes[node].text = (const char *)machine->at;
        machine->tree->nodes[node].n_text = (size_t)length;
    }
    machine->at += length;
    return push(machine, node);
}

/* A whole number of n bytes; `sign`: two's complement. */
static enum status push_number(struct machine *machine, size_t n, bool sign)
{
    uint64_t value;
    if (n > 8 || !take_number(machine, n, &value)) {
        return fail_at(machine, "ends in a number, or it is larger than 64 bits");
    }
    if (sign && n > 0 && n < 8 && value >> (8 * n - 1) != 0) {
        value -= (uint64_t)1 << (8 * n);
    }
    uint32_t node = node_new(machine, PICKLE_KIND_NUMBER);
    machine->tree->nodes[node].number = node != 0 ? (int64_t)value : 0;
    return push(machine, node);
}

/* GLOBAL: a text up to the end of its line. */
static enum status push_line(struct machine *machine)
{
    const uint8_t *end = memchr(machine->at, '\n', (size_t)(machine->end - machine->at));
    if (end == NULL) {
        return fail_at(machine, "ends in a name, expected it whole");
    }
    uint32_t node = node_new(machine, PICKLE_KIND_TEXT);
    if (node != 0) {
        machine->tree->nodes[node].text = (const char *)machine->at;
        machine->tree->nodes[node].n_text = (size_t)(end - machine->at);
    }
    machine->at = end + 1;
    return push(machine, node);
}

/* STACK_GLOBAL: the two upper values, module and name, as one. */
static enum status push_name(struct machine *machine)
{
    uint32_t name = pop(machine), module = pop(machine), node = node_new(machine, PICKLE_KIND_NAME);
    if (name == 0 || module == 0 || node == 0) {
        return fail_at(machine, "expected a module and a name");
    }
    machine->tree->nodes[node].first = module;
    machine->tree->nodes[node].last = name;
    return push(machine, node);
}

static enum status push_global(struct machine *machine)
{
    enum status status = push_line(machine);
    if (status == STATUS_OK) {
        status = push_line(machine);
    }
    if (status != STATUS_OK) {
        return status;
    }
    return push_name(machine);
}

/* The last n values as one sequence. */
static enum status push_tuple(struct machine *machine, uint32_t n)
{
    uint32_t sequence = node_new(machine, PICKLE_KIND_SEQUENCE);
    if (n > machine->n_stack || sequence == 0) {
        return fail_at(machine, "takes more values than there are");
    }
    for (uint32_t i = machine->n_stack - n; i < machine->n_stack; i++) {
        if (!append(machine, sequence, machine->stack[i])) {
            return fail_at(machine, "too large for a matrix, expected a few arrays");
        }
    }
    machine->n_stack -= n;
    return push(machine, sequence);
}

/* Number of values above the last mark, which is removed. -1: there is no mark. */
static int64_t mark_take(struct machine *machine)
{
    for (uint32_t i = machine->n_stack; i > 0; i--) {
        if (machine->tree->nodes[machine->stack[i - 1]].kind == PICKLE_KIND_MARK) {
            uint32_t n = machine->n_stack - i;
            memmove(&machine->stack[i - 1], &machine->stack[i], n * sizeof *machine->stack);
            machine->n_stack--;
            return n;
        }
    }
    return -1;
}

/* Append the last n values to the list or dict below them. */
static enum status extend(struct machine *machine, int64_t n)
{
    if (n < 0 || (int64_t)machine->n_stack < n + 1) {
        return fail_at(machine, "takes more values than there are");
    }
    uint32_t sequence = machine->stack[machine->n_stack - (uint32_t)n - 1];
    for (uint32_t i = machine->n_stack - (uint32_t)n; i < machine->n_stack; i++) {
        if (!append(machine, sequence, machine->stack[i])) {
            return fail_at(machine, "expected a list or dict of few values");
        }
    }
    machine->n_stack -= (uint32_t)n;
    return STATUS_OK;
}

/* REDUCE and NEWOBJ: an object made by a name from arguments. BUILD: its state. */
static enum status object_step(struct machine *machine, bool build)
{
    uint32_t upper = pop(machine), lower = pop(machine);
    struct pickle_node *nodes = machine->tree->nodes;
    if (upper == 0 || lower == 0 || nodes[lower].kind != (build ? PICKLE_KIND_OBJECT : PICKLE_KIND_NAME)) {
        return fail_at(machine, "expected an object");
    }
    if (build) {
        nodes[lower].state = upper;
        return push(machine, lower);
    }
    uint32_t object = node_new(machine, PICKLE_KIND_OBJECT);
    nodes[object].maker = lower;
    nodes[object].first = upper;
    return push(machine, object);
}

static enum status memo_put(struct machine *machine, size_t n)
{
    uint64_t slot = machine->n_memo;
    if ((n > 0 && !take_number(machine, n, &slot)) || slot >= MEMO_MOST || machine->n_stack == 0) {
        return fail_at(machine, "remembers too much for a matrix");
    }
    machine->memo[slot] = machine->stack[machine->n_stack - 1];
    machine->n_memo++;
    return STATUS_OK;
}

static enum status memo_get(struct machine *machine, size_t n)
{
    uint64_t slot;
    if (!take_number(machine, n, &slot) || slot >= MEMO_MOST || machine->memo[slot] == 0) {
        return fail_at(machine, "recalls what was never remembered");
    }
    return push(machine, machine->memo[slot]);
}

static enum status skip(struct machine *machine, size_t n)
{
    uint64_t unused;
    return take_number(machine, n, &unused) ? STATUS_OK : fail_at(machine, "ends too early");
}

/* Opcodes that use values on the stack, and those of the memo. */
static enum status combine_step(struct machine *machine, uint8_t opcode)
{
    switch (opcode) {
    case 0x85:
    case 0x86:
    case 0x87:
        return push_tuple(machine, opcode - 0x84u);
    case 't': {
        int64_t n = mark_take(machine);
        return n < 0 ? fail_at(machine, "takes more values than there are") : push_tuple(machine, (uint32_t)n);
    }
    case 'a':
        return extend(machine, 1);
    case 's':
        return extend(machine, 2);
    case 'e':
    case 'u':
        return extend(machine, mark_take(machine));
    case 'R':
    case 0x81:
        return object_step(machine, false);
    case 'b':
        return object_step(machine, true);
    case 'q':
        return memo_put(machine, 1);
    case 'r':
        return memo_put(machine, 4);
    case 0x94:
        return memo_put(machine, 0);
    case 'h':
        return memo_get(machine, 1);
    case 'j':
        return memo_get(machine, 4);
    default:
        return fail_at(machine, "opcode that a matrix has no use for");
    }
}

static enum status step(struct machine *machine, uint8_t opcode)
{
    switch (opcode) {
    case 0x80:
        return skip(machine, 1); /* PROTO */
    case 0x95:
        return skip(machine, 8); /* FRAME */
    case 'N':
        return push(machine, node_new(machine, PICKLE_KIND_NONE));
    case '(':
        return push(machine, node_new(machine, PICKLE_KIND_MARK));
    case ')':
    case ']':
    case '}':
        return push(machine, node_new(machine, PICKLE_KIND_SEQUENCE));
    case 0x88:
    case 0x89:
        return push_number(machine, 0, false); /* True and False: the value is not needed */
    case 'K':
        return push_number(machine, 1, false);
    case 'M':
        return push_number(machine, 2, false);
    case 'J':
        return push_number(machine, 4, true);
    case 0x8a: { /* LONG1 */
        uint64_t n;
        return take_number(machine, 1, &n) ? push_number(machine, (size_t)n, true)
                                           : fail_at(machine, "ends too early");
    }
    case 'C':
    case 'U':
    case 0x8c:
        return push_text(machine, 1);
    case 'B':
    case 'T':
    case 'X':
        return push_text(machine, 4);
    case 0x8d:
    case 0x8e:
        return push_text(machine, 8);
    case 'c':
        return push_global(machine);
    case 0x93:
        return push_name(machine);
    default:
        return combine_step(machine, opcode);
    }
}

enum status pickle_tree_build(const char *name, const char *bytes, size_t n_bytes, struct pickle_tree *out)
{
    struct machine *machine = memory_alloc(1, sizeof *machine);
    machine->name = name;
    machine->bytes = machine->at = (const uint8_t *)bytes;
    machine->end = machine->bytes + n_bytes;
    machine->tree = out;
    out->n_node = 1;
    enum status status = STATUS_OK;
    bool stopped = false;
    while (status == STATUS_OK && !stopped) {
        if (machine->at == machine->end) {
            status = fail_at(machine, "ends too early");
            break;
        }
        uint8_t opcode = *machine->at++;
        stopped = opcode == '.';
        status = stopped ? STATUS_OK : step(machine, opcode);
    }
    if (status == STATUS_OK && (machine->at != machine->end || machine->n_stack != 1)) {
        status = fail_at(machine, "goes on after its end, or leaves values over");
    }
    if (status == STATUS_OK) {
        out->top = machine->stack[0];
    }
    free(machine);
    return status;
}

uint32_t pickle_item(const struct pickle_tree *tree, uint32_t sequence, int i)
{
    if (tree->nodes[sequence].kind != PICKLE_KIND_SEQUENCE) {
        return 0;
    }
    uint32_t cell = tree->nodes[sequence].first;
    for (; i > 0 && cell != 0; i--) {
        cell = tree->nodes[cell].next;
    }
    return cell == 0 ? 0 : tree->nodes[cell].first;
}
