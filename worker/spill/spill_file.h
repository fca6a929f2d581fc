/* A file without a name and the thread that moves memory to it and back, one order after another.
 *
 * Orders are executed in the order in which they were given: a caller that gives memory back before it asks for more
 * never has more than it meant to. Knows addresses and offsets alone.
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
    SPILL_ORDER_DROP   /* the same without writing */
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
