/* Shared memory that a killed process left in /dev/shm.
 *
 * UCX creates a named segment, opens it and unlinks the name; a process that is killed in between leaves the segment
 * for ever. Knows no fleet: only UCX's names, and whether a process has a segment open.
 */
#ifndef TRAINERD_SEGMENTS_H
#define TRAINERD_SEGMENTS_H

/* Remove this user's UCX segments in `folder` ("/dev/shm") that no process has open or mapped; in doubt, a segment
 * stays. Returns how many were removed. cost  one open per segment */
int segments_sweep(const char *folder);

#endif
