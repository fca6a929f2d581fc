/* The injections of the campaign: what one user does to the daemon and to another, and what befalls processes, clocks
 * and disks.
 *
 * To add one: a row here, and void injection_NAME(enum user who, enum user other) in a file of its kind. Each leaves
 * the daemon running, or dead where faults_may_kill.
 */
#ifndef TESTS_SYSTEM_ATTACK_INJECTION_H
#define TESTS_SYSTEM_ATTACK_INJECTION_H

#include "tests/system/attack/user.h"

/*    name                        weight */
/* clang-format off */
#define INJECTION_LIST(X)                                                                                      \
    /* injection_files.c */                                                                                    \
    X(links_in_own_output,        4) /* an output folder full of links to others' files */                     \
    X(links_in_others_output,     5) /* … of another user's job, whose folder lies where all may write */      \
    X(output_becomes_a_link,      4) /* a folder that a run is at work in is moved, and a link put there */    \
    X(job_file_edited,            2) /* job.toml changes after its job was admitted */                         \
    X(closed_paths_named,         5) /* data, partitions, models and outputs that only others can reach */     \
    X(state_folder_planted,       2) /* files, folders and links of the state folder */                        \
    X(descriptors_taken,          6) /* of the coordinator's own files: cut, grown, with holes, with lies */   \
    /* injection_requests.c */                                                                                 \
    X(others_job_asked,           8) /* cancel, resume, … and reading of another user's job */                 \
    X(administrator_played,       3) /* backup, drain, undrain, audit */                                       \
    X(own_jobs_driven,            6) /* cancel, resume, checkpoint, scale of one's own */                      \
    X(submission_abused,          4) /* fields out of range, names with blanks and bytes, thousands of jobs */ \
    X(others_signalled,           3) /* signals to the daemon, and to processes of others */                   \
    /* injection_connections.c */                                                                              \
    X(half_frames,                4)                                                                           \
    X(malformed_frames,           5)                                                                           \
    X(long_frames,                3)                                                                           \
    X(idle_connections,           3) /* by the hundred */                                                      \
    X(unread_streams,             4) /* of clients that never read */                                          \
    X(http_flood,                 3)                                                                           \
    X(http_nonsense,              3)                                                                           \
    /* injection_faults.c */                                                                                   \
    X(daemon_killed,              5)                                                                           \
    X(daemon_ended,               2)                                                                           \
    X(daemon_stopped,             3)                                                                           \
    X(daemon_hung_up,             2)                                                                           \
    X(coordinator_killed,         7)                                                                           \
    X(coordinator_stopped,        4)                                                                           \
    X(worker_killed,              7)                                                                           \
    X(worker_stopped,             4)                                                                           \
    X(planner_killed,             4)                                                                           \
    X(all_killed,                 2) /* as when the machine loses its power */                                 \
    X(disk_filled,                2) /* the state folder's, where it could be made small */                   \
    X(store_set_back,             2) /* to a copy of a moment before, with its -wal */
/* clang-format on */

#define X(name, weight) void injection_##name(enum user who, enum user other);
INJECTION_LIST(X)
#undef X

/* Start the daemon with faults that are drawn. Whether daemons may still be killed: a campaign's last part keeps one,
 * to count what it keeps open. */
void faults_start_daemon(void);
extern bool faults_may_kill;

/* Put the state folder on a small disk of its own, where this process may; before the daemon is started / take it
 * away. */
void faults_disk_begin(void);
void faults_disk_end(void);

#endif
