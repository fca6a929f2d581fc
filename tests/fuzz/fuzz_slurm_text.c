/* Any bytes as what squeue and sbatch print, and as daemon.slurm_options. */
#include "protocol/base/log.h"
#include "trainerd/daemon/slurm/slurm_text.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void look_check(void *context, const struct slurm_look *look)
{
    (void)context;
    ASSERT(look->number > 0 && look->number <= SLURM_NUMBER_MOST && look->job > 0 && look->attempt > 0);
    ASSERT(strlen(look->name) < sizeof look->name && strlen(look->why) < sizeof look->why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    char *text = malloc(n_bytes + 1), *copy = malloc(n_bytes + 1), *words[SLURM_OPTIONS_MOST];
    memcpy(text, data, n_bytes);
    text[n_bytes] = '\0';
    int64_t number;
    size_t n;
    slurm_looks_read((const char *)data, n_bytes, "0", look_check, NULL);
    if (slurm_number_read(text, &number) == STATUS_OK) {
        ASSERT(number > 0 && number <= SLURM_NUMBER_MOST);
    }
    if (slurm_options_read(text, copy, words, &n) == STATUS_OK) {
        for (size_t i = 0; i < n; i++) {
            ASSERT(strncmp(words[i], "--", 2) == 0);
        }
    }
    free(text);
    free(copy);
    return 0;
}
