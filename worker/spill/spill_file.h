/* A file without a name and the threads that move memory to it and back.
 *
 * Orders begin in the order in which they were given. One that takes memory begins when all before it that give some
 * back are executed: a caller never has more than it meant to. One of the same bytes as another waits for it. Knows
 * addresses and offsets alone.
 */
#ifndef WORKER_SPILL_FILE_H
#define WORKER_SPILL_FILE_H

#include "protocol/base/status.h"

#include <stddef.h>
#include <stdint.h>

struct spill_file;

enum spill_order {
    SPILL_ORDER_FRESH, /* the memory may be touched: zeros */
    SPILL_ORDER_READ,  /* the same, with what the file holds */
    SPILL_ORDER_WRITE, /* to the file, and the memory is given back: touching it ends the process */
    SPILL_ORDER_DROP,  /* the same without writing */
    SPILL_ORDER_CLEAN  /* to the file, and the memory stays */
};

/* Make a file in `dir` that is gone when the process is, however it ends.
 *
 *   owns    the caller owns *out: spill_file_close
 *   errors  STATUS_IO the folder is missing, read-only or no folder, with the system's reason
 */
enum status spill_file_open(const char *dir, struct spill_file **out);
void spill_file_close(struct spill_file *file);

/* Make the file n_bytes (a multiple of the page) longer, disk space included; *offset_out is where they begin.
 * errors  STATUS_IO a full disk */
enum status spill_file_grow(struct spill_file *file, int64_t n_bytes, int64_t *offset_out);

/* Give an order for pages of memory and of the file; returns its ticket. Waits only while very many orders are
 * open. */
uint64_t spill_file_order(struct spill_file *file, enum spill_order order, void *at, int64_t offset, size_t n_bytes);

/* Wait until an order, and all before it, are executed. errors  STATUS_IO the first failure of any order since
 * opening */
enum status spill_file_wait(struct spill_file *file, uint64_t ticket);

#endif
