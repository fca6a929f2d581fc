/* Any bytes as the journal of an output folder: refused, or paths of result files alone, result.json the last, and a run's folder in its
 * home. */
#include "protocol/base/log.h"
#include "trainerd/coordinator/folder/publish.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct publish_journal journal;
    char *text = malloc(n > 0 ? n : 1);
    ASSERT(text != NULL);
    memcpy(text, bytes, n);
    if (publish_decode(text, n, "home", &journal) == STATUS_OK) {
        ASSERT(strncmp(journal.run, ".run-", 5) == 0 && strchr(journal.run, '/') == NULL);
        ASSERT(journal.files.n > 0 && strcmp(journal.files.path[journal.files.n - 1], "result.json") == 0);
        for (int i = 0; i < journal.files.n; i++) {
            ASSERT(result_file_is(journal.files.path[i]) &&
                   strstr(journal.files.path[i], "..") != journal.files.path[i]);
        }
    }
    result_files_release(&journal.files);
    free(text);
    return 0;
}
