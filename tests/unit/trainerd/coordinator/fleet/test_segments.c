/* What is swept from the folder of shared memory, and what is not. */
#include "trainerd/coordinator/fleet/segments.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static char name[64], path[128];

/* A segment of this process's, open. */
static int segment_make(const char *prefix)
{
    snprintf(name, sizeof name, "/%s_%d", prefix, (int)getpid());
    snprintf(path, sizeof path, "/dev/shm%s", name);
    int file = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    cr_assert_geq(file, 0);
    cr_assert_eq(ftruncate(file, 4096), 0);
    return file;
}

static void segment_remove(void)
{
    shm_unlink(name);
}

TestSuite(segments, .fini = segment_remove);

Test(segments, one_that_nobody_has_open_is_removed)
{
    close(segment_make("ucx_shm_posix_test"));
    cr_assert_geq(segments_sweep("/dev/shm"), 1);
    cr_assert_neq(access(path, F_OK), 0);
}

Test(segments, one_that_a_process_has_open_stays)
{
    int file = segment_make("ucx_shm_posix_test");
    segments_sweep("/dev/shm");
    cr_assert_eq(access(path, F_OK), 0);
    close(file);
}

Test(segments, one_that_is_only_mapped_stays)
{
    int file = segment_make("ucx_shm_posix_test");
    void *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    cr_assert_neq(mapped, MAP_FAILED);
    close(file);
    segments_sweep("/dev/shm");
    cr_assert_eq(access(path, F_OK), 0);
    munmap(mapped, 4096);
}

Test(segments, other_programs_names_stay)
{
    close(segment_make("another_test"));
    segments_sweep("/dev/shm");
    cr_assert_eq(access(path, F_OK), 0);
}

Test(segments, a_folder_that_is_not_there_holds_none)
{
    cr_assert_eq(segments_sweep("/dev/shm/none of this name"), 0);
}
