/* Another user sends datagrams to the sockets by which a job's processes wake each other
 * (protocol/transport/wakeup.h). */
#include "protocol/base/clock.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/fleet_case.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/machines.h"
#include "tests/support/process/patience.h"
#include "tests/system/attack/user.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { N_WORKER = 2, SOCKETS_MOST = 32, ROUNDS = 2000 };

enum { NAME_BYTES = 64 };

/* The abstract name of a Unix socket, as /proc/net/unix shows it to every user; "": without a name. */
static void name_of(unsigned long wanted, char out[NAME_BYTES])
{
    FILE *all = fopen("/proc/net/unix", "r");
    char line[256];
    out[0] = '\0';
    cr_assert_not_null(all);
    while (fgets(line, sizeof line, all) != NULL) {
        unsigned long inode;
        char name[NAME_BYTES];
        if (sscanf(line, "%*s %*s %*s %*s %*s %*s %lu @%63s", &inode, name) == 2 && inode == wanted) {
            memcpy(out, name, sizeof name);
        }
    }
    fclose(all);
}

/* Add the names of a process's sockets; how many there are now. */
static int names_add(pid_t pid, struct sockaddr_un names[SOCKETS_MOST], int n)
{
    char path[PATH_MAX], target[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *files = opendir(path);
    for (struct dirent *entry; files != NULL && n < SOCKETS_MOST && (entry = readdir(files)) != NULL;) {
        unsigned long inode;
        ssize_t n_target = readlinkat(dirfd(files), entry->d_name, target, sizeof target - 1);
        target[n_target > 0 ? n_target : 0] = '\0';
        if (sscanf(target, "socket:[%lu]", &inode) == 1) {
            names[n] = (struct sockaddr_un){.sun_family = AF_UNIX};
            name_of(inode, names[n].sun_path + 1);
            n += names[n].sun_path[1] != '\0';
        }
    }
    if (files != NULL) {
        closedir(files);
    }
    return n;
}

/* The sockets of a job; how many. */
static int names_find(pid_t coordinator, struct sockaddr_un names[SOCKETS_MOST])
{
    pid_t workers[N_WORKER];
    int n = names_add(coordinator, names, 0), n_worker = fleet_workers(coordinator, workers, N_WORKER);
    for (int i = 0; i < n_worker; i++) {
        n = names_add(workers[i], names, n);
    }
    return n;
}

/* As another user: datagrams of no bytes, one and many, to each of them. */
static void flood(const struct sockaddr_un names[], int n)
{
    static const char bytes[5000];
    static const size_t sizes[] = {0, 1, sizeof bytes, 0};
    int file = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    user_become(USER_FIRST);
    for (int i = 0; i < n; i++) {
        socklen_t n_name = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(names[i].sun_path + 1));
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            sendto(file, bytes, sizes[k], 0, (const struct sockaddr *)&names[i], n_name);
        }
    }
    user_leave();
    close(file);
}

/* From its start on, and in thousands while it trains. */
Test(attack_wakeup, datagrams_of_another_user_stop_no_job, .timeout = 900)
{
    static struct process coordinator;
    struct sockaddr_un names[SOCKETS_MOST];
    char program[PATH_MAX];
    if (!users_make()) {
        cr_skip_test("only root can act as another user");
    }
    program_find("trainer-coordinator", program, sizeof program);
    folder_write("job.toml", "[dataset]\ngenerator = \"karate\"\n[partition]\nparts = 2\n[model]\nkind = "
                             "\"gcn\"\n[train]\nepochs = 100000000\n"
                             "[workers]\ncount = 2\nthreads = 1\n[output]\ndir = \"out\"\n");
    process_start(&coordinator, NULL, folder, NULL, (const char *const[]){program, "--config", "job.toml", NULL});
    double since = clock_s();
    int n = 0;
    while (n < 1 + N_WORKER && patience_left(since)) { /* one each, at least */
        n = names_find(coordinator.pid, names);
        flood(names, n);
    }
    process_await(&coordinator, "epoch 1/");
    n = names_find(coordinator.pid, names);
    cr_assert_geq(n, 1 + N_WORKER);
    for (int i = 0; i < ROUNDS; i++) {
        flood(names, n);
    }
    cr_assert_eq(kill(coordinator.pid, SIGTERM), 0);
    int code = process_finish(&coordinator);
    cr_assert_eq(code, 75, "exit %d: %s", code, coordinator.words);
    expect_words(coordinator.words, "interrupted after ");
    folder_remove();
}
