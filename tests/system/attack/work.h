/* The jobs of a campaign, and what may become of each: a job that was not tampered with ends with the bits of one
 * that ran undisturbed. */
#ifndef TESTS_SYSTEM_ATTACK_WORK_H
#define TESTS_SYSTEM_ATTACK_WORK_H

#include "tests/system/attack/user.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct work {
    int64_t id;
    enum user who;
    int kind;
    /* Its owner, or the place where it writes, keeps it from succeeding: it may end in any documented way. */
    bool is_fouled;
    bool is_cancelled; /* its owner has asked for that */
    bool has_ended;
    char dir[96]; /* its output folder, in its owner's home */
};

enum { WORK_KINDS = 5, WORK_KIND_LONG = 4 };

/* Run each kind of job undisturbed, once, and keep the checksum of its weights. */
void works_begin(void);

/* Submit a job of this kind. NULL: a folder of its own.
 *
 *   setting  "section.key=value" over its file, NULL: none
 */
struct work *work_submit(enum user who, int kind, const char *dir, const char *setting, bool is_fouled);

/* A job of that user that is drawn, among those that have not ended, or all; NULL: no such job. */
struct work *work_draw(enum user who, bool is_open);

/* Jobs that are open may fail from here on: what all share has failed them. */
void works_foul_open(void);

/* Jobs that have ended are open again where the daemon says so: its store was set back. */
void works_reopen(void);

/* Ask the daemon, as root, about all jobs that were open, and check those that have ended. Gives how many are open.
 */
size_t works_look(void);
/* Wait until all have ended. */
void works_settle(void);

/* How many were submitted; how many ended with the bits of the undisturbed job. */
size_t works_n(void);
size_t works_n_same(void);

#endif
