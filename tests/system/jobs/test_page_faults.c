/* What an epoch takes of the system: no memory that it gives back, page after page. The address sanitizer has an allocator
 * of its own, which does, so that its build has no such test. */
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"

#include <criterion/criterion.h>
#include <sys/resource.h>

#ifndef __SANITIZE_ADDRESS__

/* Starts of the same job differ by some 1 200. Products that gave their packed weights back took 470 to 2 000 an epoch. */
#define FEW 4
#define MORE 44
#define FAULTS_MOST 64 /* of an epoch, of all processes */

TestSuite(page_faults, .init = folder_make, .fini = folder_remove, .timeout = 900);

static long faults_of(const char *settings, int n_epoch)
{
    struct rusage before, after;
    getrusage(RUSAGE_CHILDREN, &before);
    job_run("%s --set train.epochs=%d --set output.dir=o%d", settings, n_epoch, n_epoch);
    getrusage(RUSAGE_CHILDREN, &after);
    return after.ru_minflt - before.ru_minflt;
}

static void expect_few(const char *settings)
{
    long few = faults_of(settings, FEW), more = faults_of(settings, MORE);
    cr_expect_leq(more - few, (MORE - FEW) * FAULTS_MOST, "%s: %ld page faults in %d epochs, %ld in %d", settings,
                  few, FEW, more, MORE);
}

Test(page_faults, of_an_epoch_are_few_for_each_kind)
{
    static const char *const kinds[] = {"gcn",
                                        "sage",
                                        "gat",
                                        "gatv2",
                                        "gin",
                                        "appnp",
                                        "sgc",
                                        "gcnii",
                                        "agnn",
                                        "rgcn",
                                        "transformer",
                                        "gcn --set workers.count=2",
                                        "sage --set train.precision=bf16",
                                        "gcn --set train.products=bf16",
                                        "gcn --set workers.count=2 --set exchange.codec=int8"};
    folder_write("job.toml",
                 "[dataset]\ngenerator = \"sbm\"\nnodes = 600\ndegree = 6\nfeatures = 128\n[partition]\n"
                 "parts = 2\ncache = \"off\"\n[model]\nlayers = 3\nhidden = 256\n[workers]\nthreads = 1\n");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char settings[128];
        snprintf(settings, sizeof settings, "--set model.kind=%s", kinds[i]);
        expect_few(settings);
    }
}
#endif
