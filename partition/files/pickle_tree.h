/* The tree that pickle_tree.c builds and pickle_csr.c reads. Nodes are numbers into `nodes`; 0 means no node. */
#ifndef PARTITION_PICKLE_TREE_H
#define PARTITION_PICKLE_TREE_H

#include "protocol/base/status.h"

#include <stddef.h>
#include <stdint.h>

#define PICKLE_NODE_MOST 4096

enum pickle_kind {
    PICKLE_KIND_NONE = 1,
    PICKLE_KIND_NUMBER,   /* integers and booleans */
    PICKLE_KIND_TEXT,     /* text and bytes alike: a span of the input */
    PICKLE_KIND_NAME,     /* a class or function: `first` is the text of its module, `last` that of its name */
    PICKLE_KIND_SEQUENCE, /* tuple, list, or dict as key, value, key, value … */
    PICKLE_KIND_OBJECT,   /* made by calling `maker` with `first`'s items; `state` as set afterwards */
    PICKLE_KIND_CELL,     /* an item of a sequence: `first` is the value, `next` the next cell */
    PICKLE_KIND_MARK
};

struct pickle_node {
    enum pickle_kind kind;
    int64_t number;
    const char *text;
    size_t n_text;
    uint32_t first, last, next; /* of a sequence: first and last cell */
    uint32_t maker, state;
};

struct pickle_tree {
    struct pickle_node nodes[PICKLE_NODE_MOST];
    uint32_t n_node;
    uint32_t top; /* the value of the whole pickle */
};

/* Run the opcodes at `bytes`; errors  STATUS_DATA "NAME: pickle byte N: …" */
enum status pickle_tree_build(const char *name, const char *bytes, size_t n_bytes, struct pickle_tree *out);

/* Item `i` of a sequence, or 0. */
uint32_t pickle_item(const struct pickle_tree *tree, uint32_t sequence, int i);

#endif
