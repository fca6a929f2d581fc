#include "protocol/transport/neighbour.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

Test(neighbour, a_process_names_its_namespaces)
{
    char self[NEIGHBOUR_BYTES], again[NEIGHBOUR_BYTES];
    unsigned long ipc, net, pid;
    neighbour_self(self);
    neighbour_self(again);
    cr_assert_eq(sscanf(self, "ipc:[%lu] net:[%lu] pid:[%lu]", &ipc, &net, &pid), 3, "%s", self);
    cr_assert_str_eq(self, again);
}

/* Each kind of namespace makes a difference; a new one of processes has its first process in a child. */
Test(neighbour, one_in_another_namespace_names_others)
{
    static const int kinds[] = {CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWPID};
    char self[NEIGHBOUR_BYTES];
    neighbour_self(self);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        int state;
        pid_t child = fork();
        if (child == 0) {
            if (unshare(kinds[i]) != 0) {
                _exit(77);
            }
            pid_t inner = fork();
            if (inner == 0) {
                char other[NEIGHBOUR_BYTES];
                neighbour_self(other);
                _exit(strlen(other) < NEIGHBOUR_BYTES - 1 && strcmp(self, other) != 0 ? 0 : 1);
            }
            _exit(waitpid(inner, &state, 0) == inner && WIFEXITED(state) ? WEXITSTATUS(state) : 2);
        }
        cr_assert_eq(waitpid(child, &state, 0), child);
        cr_assert(WIFEXITED(state));
        if (WEXITSTATUS(state) == 77) {
            cr_skip_test("namespaces need root");
        }
        cr_assert_eq(WEXITSTATUS(state), 0, "kind %zu", i);
    }
}
