/* The store's file: who may open it, its versions, damage, full disks. */
#include "tests/support/daemon/store_case.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(store_file, .init = folder_make, .fini = folder_remove);

Test(store_file, only_the_owner_can_read_the_file)
{
    struct store *store = store_case_open();
    store_case_insert(store, "a", "");
    static const char *const names[] = {"jobs.sqlite", "jobs.sqlite-wal", "lock"};
    for (size_t i = 0; i < 3; i++) {
        struct stat about;
        cr_assert_eq(stat(folder_path(names[i]), &about), 0, "%s", names[i]);
        cr_assert_eq(about.st_mode & 0777, 0600, "%s", names[i]);
    }
    store_close(store);
}

Test(store_file, a_second_daemon_is_refused)
{
    struct store *first = store_case_open(), *second = NULL;
    pid_t child = fork();
    if (child == 0) {
        bool refused = store_open(folder, &second) == STATUS_PEER && second == NULL &&
                       strstr(status_reason(), "another daemon serves") != NULL &&
                       strstr(status_reason(), folder) != NULL;
        _exit(refused ? 0 : 1);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0, "%d", status);
    store_close(first);
    second = store_case_open();
    store_close(second);
}

Test(store_file, a_child_that_outlives_the_daemon_does_not_keep_the_next_one_out)
{
    int ends[2];
    char byte;
    cr_assert_eq(pipe(ends), 0);
    pid_t daemon = fork();
    if (daemon == 0) {
        struct store *store;
        bool opened = store_open(folder, &store) == STATUS_OK;
        if (fork() == 0) { /* until the test has ended */
            close(ends[1]);
            _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
        }
        _exit(opened ? 0 : 1);
    }
    int status = 0;
    cr_assert_eq(waitpid(daemon, &status, 0), daemon);
    cr_assert_eq(status, 0);
    struct store *store = store_case_open();
    store_close(store);
    close(ends[1]);
}

Test(store_file, a_file_that_is_no_store_is_refused_with_its_name)
{
    folder_write("jobs.sqlite", "these are the words of a text file, long enough to be no SQLite header at all\n");
    struct store *store;
    cr_assert_eq(store_open(folder, &store), STATUS_DATA);
    cr_assert(strstr(status_reason(), "jobs.sqlite") && strstr(status_reason(), "expected a job store"), "%s",
              status_reason());
}

Test(store_file, another_programs_file_is_refused)
{
    store_case_sql("CREATE TABLE songs (name TEXT)");
    struct store *store;
    expect_fails(store_open(folder, &store), STATUS_DATA, "another program's");
}

Test(store_file, every_store_has_an_id_of_its_own_that_stays)
{
    char id[STORE_ID_BYTES];
    struct store *store = store_case_open();
    snprintf(id, sizeof id, "%s", store_id(store));
    cr_assert_eq(strspn(id, "0123456789abcdef"), 32, "%s", id);
    store_close(store);
    store = store_case_open();
    cr_assert_str_eq(store_id(store), id);
    store_close(store);
    cr_assert_eq(unlink(folder_path("jobs.sqlite")), 0);
    store = store_case_open();
    cr_assert_str_neq(store_id(store), id);
    store_close(store);
}

Test(store_file, on_a_full_disk_nothing_is_kept_by_halves_and_later_all_goes_on)
{
    struct store *store = store_case_open();
    store_case_insert(store, "before", "");
    signal(SIGXFSZ, SIG_IGN);
    struct stat about;
    cr_assert_eq(stat(folder_path("jobs.sqlite-wal"), &about), 0);
    struct rlimit was, limit;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &was), 0);
    limit = (struct rlimit){.rlim_cur = (rlim_t)about.st_size, .rlim_max = was.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    enum { N = 40 }; /* more than one page of the file */
    struct job_record records[N];
    struct store_submission all[N];
    for (int i = 0; i < N; i++) {
        records[i] = store_case_record("meanwhile");
        all[i] = store_case_submission;
    }
    int64_t existing;
    enum status status = store_insert(store, records, all, N, &existing);
    struct job_record first = store_case_record("before");
    first.id = 1;
    first.state = JOB_STATE_FAILED;
    enum status changed = store_update(store, &first, NULL);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &was), 0);
    cr_assert_eq(status, STATUS_IO);
    cr_assert_eq(changed, STATUS_IO);
    cr_assert(strstr(status_reason(), "cannot save a change of a job") && strstr(status_reason(), "jobs.sqlite"),
              "%s", status_reason());
    store_case_find(store);
    cr_assert_eq(store_case_n, 1);
    cr_assert_eq(store_case_found[0].state, JOB_STATE_QUEUED);
    cr_assert_eq(store_case_insert(store, "after", ""), 2);
    store_close(store);
    store = store_case_open();
    store_case_find(store);
    cr_assert_eq(store_case_n, 2);
    cr_assert_str_eq(store_case_found[1].name, "after");
    store_close(store);
}

Test(store_file, a_folder_that_cannot_be_made_is_named)
{
    folder_write("file", "");
    struct store *store;
    expect_fails(store_open(folder_path("file/state"), &store), STATUS_CREATE, "file/state");
}
