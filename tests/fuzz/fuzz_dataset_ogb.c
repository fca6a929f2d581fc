/* Any text as one table of an OGB folder of several node types: refused, or a dataset that keeps its contract. */
#include "tests/fuzz/input_folder.h"

#include <zlib.h>

static const char *const names[] = {
    "raw/num-node-dict.csv.gz",
    "raw/triplet-type-list.csv.gz",
    "raw/relations/author___writes___paper/edge.csv.gz",
    "raw/relations/author___writes___paper/num-edge-list.csv.gz",
    "raw/relations/paper___has___field/edge.csv.gz",
    "raw/relations/paper___has___field/num-edge-list.csv.gz",
    "raw/node-feat/paper/node-feat.csv.gz",
    "raw/node-label/paper/node-label.csv.gz",
    "split/time/paper/train.csv.gz",
    "split/time/paper/valid.csv.gz",
    "split/time/paper/test.csv.gz",
};

#define N_FILE (sizeof names / sizeof *names)

static const char *const texts[N_FILE] = {
    "paper,author,field\n3,2,1\n",
    "author,writes,paper\npaper,has,field\n",
    "0,2\n1,0\n1,2\n",
    "3\n",
    "0,0\n2,0\n",
    "2\n",
    "1,0\n2,3.5\n0,-4e1\n",
    "1\n0\nnan\n",
    "0\n",
    "1\n",
    "2\n",
};

static void *good[N_FILE];
static size_t n_good[N_FILE];

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void packed_write(const char *path, const void *bytes, size_t n_bytes)
{
    gzFile file = gzopen(path, "wb1");
    ASSERT(file != NULL && gzwrite(file, bytes, (unsigned)n_bytes) == (int)n_bytes);
    ASSERT(gzclose(file) == Z_OK);
}

/* Memory is allocated by the file's count of nodes: inputs with a number of seven digits or more are not tried. */
static bool is_large(const uint8_t *bytes, size_t n)
{
    size_t n_digit = 0;
    for (size_t i = 1; i < n && n_digit < 7; i++) {
        n_digit = bytes[i] >= '0' && bytes[i] <= '9' ? n_digit + 1 : 0;
    }
    return n_digit == 7;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    for (size_t i = 0; i < N_FILE; i++) {
        good[i] = (void *)(uintptr_t)texts[i];
        n_good[i] = strlen(texts[i]);
    }
    input_folder = (struct input_folder){
        .n_file = N_FILE, .names = names, .bytes = good, .n_bytes = n_good, .write = packed_write};
    input_folder_make(*argc, *argv);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n > 0 && (bytes[0] % N_FILE > 0 || !is_large(bytes, n))) {
        input_folder_try(bytes, n);
    }
    return 0;
}
