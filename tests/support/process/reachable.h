/* Test programs of root in a folder that other users cannot enter, as root's home is: they run as a copy, with copies of
 * the programs, in a folder that all can, since tests start programs as other users.
 */
#ifndef TESTS_SUPPORT_REACHABLE_H
#define TESTS_SUPPORT_REACHABLE_H

/* Called before main: returns at once where nothing has to be copied, else the process
 * becomes a shell that runs the copy to its end, and exits as it. */
void reachable_begin(int argc, char **argv);

#endif
