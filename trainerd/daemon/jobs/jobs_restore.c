/* Another store for the jobs of a state folder, while no daemon has it open. */
#include "protocol/files/file.h"
#include "trainerd/daemon/jobs/jobs.h"
#include "trainerd/daemon/store/folders.h"

#include <limits.h>
#include <stdio.h>

/* The folder of jobs' folders, as a restore or a repair finds it. */
static enum status folder_of(const char *base, char out[PATH_MAX])
{
    return snprintf(out, PATH_MAX, "%s/jobs", base) < PATH_MAX - 64
               ? file_folder_make(out, NULL)
               : status_fail(STATUS_CREATE, "the path of the folder for jobs is too long: '%.64s…'", base);
}

enum status jobs_restore(const char *state_folder, const char *shared, const char *from, struct store_repaired *out)
{
    char folder[PATH_MAX];
    int64_t highest = 0;
    enum status status = folder_of(shared != NULL ? shared : state_folder, folder);
    if (status == STATUS_OK) {
        status = folders_highest(folder, &highest);
    }
    if (status != STATUS_OK || (status = from != NULL ? store_restore(state_folder, from, highest, out)
                                                      : store_repair(state_folder, highest, out)) != STATUS_OK) {
        return status;
    }
    return folders_mark(folder, out->id);
}
