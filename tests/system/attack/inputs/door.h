/* The doors by which bytes of others come in: files that programs read, and sockets. Each takes one mutated input and
 * checks what becomes of it.
 *
 * To add one: a row here, and void door_NAME(void) in door_files.c, door_jobs.c or door_sockets.c.
 */
#ifndef TESTS_SYSTEM_ATTACK_DOOR_H
#define TESTS_SYSTEM_ATTACK_DOOR_H

#include <stddef.h>

/*    name         inputs at length; a tenth else */
/* clang-format off */
#define DOOR_LIST(X)                                                                        \
    /* door_files.c: read before anything runs */                                           \
    X(job_file,        220) /* trainerd --check */                                          \
    X(job_setting,      60) /* … its --set */                                               \
    X(daemon_config,   100) /* trainerd --daemon-config */                                  \
    X(users_file,       60)                                                                 \
    X(token_file,       40) /* trainer-worker --join */                                     \
    X(hosts_file,       60) /* of workers.launcher = "ssh" */                               \
    /* door_jobs.c: read by jobs; older results beside them stay as they are */             \
    X(array,           160) /* .npy of a data folder */                                     \
    X(meta,             50) /* meta.json */                                                 \
    X(partition,        50) /* partition.file */                                            \
    X(model,            60) /* .safetensors that a job begins with */                       \
    X(prediction,       40) /* … that a prediction uses */                                  \
    X(checkpoint,       60) /* --resume */                                                  \
    X(run_folder,       30) /* … the other files of a run that is resumed */                \
    /* door_sockets.c: of a running daemon */                                               \
    X(frame,           160) /* Unix socket */                                               \
    X(http,             80) /* the metrics' port */
/* clang-format on */

#define X(name, n) void door_##name(void);
DOOR_LIST(X)
#undef X

/* Make the valid files that inputs are made of: the users' folders are there. */
void door_files_begin(void);
void door_jobs_begin(void);

/* Write a file of the first user's home, of mode 0600. */
void door_write(const char *name, const void *bytes, size_t n);
/* Read one, at most half of what a mutation holds. Gives how many bytes. */
size_t door_read(const char *name, char *out);
/* Write a mutated copy of a file to another. */
void door_mutate(const char *from, const char *to);

#endif
