/* Limits of processes and threads, before a job starts. */
#include "trainerd/coordinator/machines/room.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* As a user that nothing else runs as, where this is root's test: the limit does not hold for root. */
static int check_as_user(rlim_t most, const char **words)
{
    static struct job job;
    static const char set[] = "[dataset]\ngenerator = 'karate'\n[workers]\ncount = 4\nthreads = 2\n";
    cr_assert_eq(job_load_text(set, strlen(set), "job", NULL, 0, &job), STATUS_OK);
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {most, most};
        bool is_other = geteuid() != 0 || setuid(64321) == 0;
        enum status status = is_other && setrlimit(RLIMIT_NPROC, &limit) == 0 ? room_for_tasks(&job) : STATUS_BUG;
        for (; status == STATUS_NOMEM && *words != NULL; words++) {
            status = strstr(status_reason(), *words) != NULL ? status : STATUS_BUG;
        }
        _exit(status == STATUS_OK ? 0 : status == STATUS_NOMEM ? 71 : 70);
    }
    int ended;
    cr_assert_eq(waitpid(child, &ended, 0), child);
    cr_assert(WIFEXITED(ended));
    return WEXITSTATUS(ended);
}

Test(room, too_few_processes_and_threads_are_refused_with_both_numbers_and_what_to_set)
{
    /* four workers of two threads: 2 + 4 (2 + 2) besides the process itself */
    const char *few[] = {"may start 5 more", "the job needs 18", "ulimit -u", "workers.threads", NULL};
    if (geteuid() == 0) { /* others may run beside a user's own test */
        cr_expect_eq(check_as_user(6, few), 71);
        cr_expect_eq(check_as_user(19, few), 0);
    }
    const char *none[] = {"may start 0 more", NULL};
    cr_expect_eq(check_as_user(1, none), 71);
}
