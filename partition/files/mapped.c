/* The list of mapped files, in which a handler of SIGBUS finds the file of an address.
 *
 * The handler may call any function: it interrupts code that reads bytes, never the C library.
 */
#include "partition/files/mapped.h"

#include "protocol/base/log.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAPPED_MOST 64

static struct mapped {
    void *at; /* NULL: free */
    size_t n_byte;
    dev_t device;
    ino_t number; /* of the file, which may get another name */
    char name[PATH_MAX];
} list[MAPPED_MOST];

static void (*ends)(enum status status);
static struct mapped shorter; /* the first file with an error, when it was closed */

/* Bytes of the file now; its former bytes if another file has its name. */
static size_t size_now(const struct mapped *row)
{
    struct stat now;
    bool is_it = stat(row->name, &now) == 0 && now.st_dev == row->device && now.st_ino == row->number;
    return is_it ? (size_t)now.st_size : row->n_byte;
}

static enum status fail_shorter(const struct mapped *row)
{
    return status_fail(
        STATUS_DATA,
        "%s: has %zu bytes and had %zu when it was opened: expected a data set that does not change during the run",
        row->name, size_now(row), row->n_byte);
}

static const struct mapped *find(const void *address)
{
    for (int i = 0; i < MAPPED_MOST; i++) {
        if (list[i].at != NULL && (uintptr_t)address - (uintptr_t)list[i].at < list[i].n_byte) {
            return &list[i];
        }
    }
    return NULL;
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    static atomic_flag is_ending = ATOMIC_FLAG_INIT;
    (void)context;
    const struct mapped *lost = find(info->si_addr);
    if (lost == NULL) {
        signal(number, SIG_DFL); /* the access is repeated, and ends the process */
        return;
    }
    if (atomic_flag_test_and_set(&is_ending)) {
        pause(); /* another thread ends the process */
    }
    enum status status = size_now(lost) < lost->n_byte
                             ? fail_shorter(lost)
                             : status_fail(STATUS_IO,
                                           "%s: cannot read byte %zu: the disk or file server returned an error",
                                           lost->name, (size_t)((uintptr_t)info->si_addr - (uintptr_t)lost->at));
    ends(status);
    _exit(status_exit_code(status));
}

void mapped_install(void (*end)(enum status status))
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    ends = end;
    sigaction(SIGBUS, &action, NULL);
}

enum status mapped_open(int file, const char *name, size_t n_byte, void **out)
{
    struct mapped *row = list;
    while (row < list + MAPPED_MOST && row->at != NULL) {
        row++;
    }
    ASSERT(row < list + MAPPED_MOST);
    struct stat info;
    void *at = fstat(file, &info) == 0 ? mmap(NULL, n_byte, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
    if (at == MAP_FAILED) {
        return status_fail(STATUS_IO, "%s: cannot map %zu bytes: %s", name, n_byte, strerror(errno));
    }
    snprintf(row->name, sizeof row->name, "%s", name);
    row->device = info.st_dev;
    row->number = info.st_ino;
    row->n_byte = n_byte;
    row->at = at;
    *out = at;
    return STATUS_OK;
}

void mapped_close(void *map, size_t n_byte)
{
    for (int i = 0; i < MAPPED_MOST; i++) {
        if (list[i].at == map) {
            shorter = shorter.at == NULL && size_now(&list[i]) < n_byte ? list[i] : shorter;
            list[i].at = NULL;
        }
    }
    munmap(map, n_byte);
}

enum status mapped_check(enum status status)
{
    const struct mapped *found = shorter.at != NULL ? &shorter : NULL;
    for (int i = 0; i < MAPPED_MOST && found == NULL; i++) {
        found = list[i].at != NULL && size_now(&list[i]) < list[i].n_byte ? &list[i] : NULL;
    }
    status = found != NULL ? fail_shorter(found) : status;
    shorter.at = NULL;
    return status;
}
