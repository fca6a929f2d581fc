/* Any bytes as a job file, and those after a NUL as a setting over it: refused with a reason, or a job that is the same after it is
 * printed and loaded again. Seeds (written into the corpus folder, the last argument) hold every key and section once. */
#include "protocol/base/log.h"
#include "protocol/job/job.h"
#include "tests/fuzz/seeds.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static const char *const seeds[] = {
    "[dataset]\ngenerator = \"karate\"\n[memory]\nlimit = \"20GiB\"\n",
    "name = 'x'\ndataset.path = \"\"\"a\\u00e9\"\"\"\n[model]\nkind = \"gat\"\nheads = [1, {a.b = 2}]\n",
    "[[train]]\nlr = nan\n[.x]\n",
    "[train]\nlr = fast\nlr = 2 # twice\n[x\n[dataset]\nfeatures = \"one_hot\"\n",
};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    enum { N_SEED = sizeof seeds / sizeof *seeds };
    struct job job;
    job_defaults(&job);
    job.dataset.generator = JOB_GENERATOR_SBM;
    char *text = job_print(&job);
    const char *all[N_SEED + 1] = {text};
    memcpy(all + 1, seeds, sizeof seeds);
    seeds_write(*argc, *argv, all, N_SEED + 1);
    free(text);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static struct job job, again;
    const uint8_t *nul = memchr(bytes, '\0', n);
    size_t n_text = nul == NULL ? n : (size_t)(nul - bytes);
    char *setting = nul == NULL ? NULL : strndup((const char *)nul + 1, n - n_text - 1);
    const char *set[] = {setting};
    enum status status = job_load_text((const char *)bytes, n_text, "fuzz", set, setting != NULL, &job);
    free(setting);
    if (status != STATUS_OK) {
        ASSERT(status == STATUS_CONFIG || status == STATUS_USAGE || status == STATUS_NOMEM);
        return 0;
    }
    char *text = job_print(&job);
    ASSERT(job_load_text(text, strlen(text), "printed", NULL, 0, &again) == STATUS_OK);
    ASSERT(memcmp(&job, &again, sizeof job) == 0);
    free(text);
    return 0;
}
