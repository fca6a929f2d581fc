/* Shared memory that a killed process left behind in /dev/shm.
 *
 * UCX gives a segment a name, opens it and takes the name away again; a process that dies in between leaves the segment for ever.
 * Knows no fleet: only names that are UCX's, and whether anybody has them open.
 */
#ifndef TRAINERD_SEGMENTS_H
#define TRAINERD_SEGMENTS_H

/* Remove UCX's segments in `folder` ("/dev/shm") that are this user's and that no process has open or mapped. What cannot be told
 * stays. Returns how many were removed. cost  one look at each name */
int segments_sweep(const char *folder);

#endif
