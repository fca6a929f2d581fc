/* Any bytes as one file of a typed and weighted npy folder with features of edges: refused, or a dataset that keeps its contract. */
#include "tests/fuzz/input_folder.h"

#include "partition/files/npy.h"
#include "tests/support/graphs/npy_save.h"

enum { N_NODE = 6, N_EDGE = 8 };

static const char *const names[] = {"meta.json",        "edges.npy",   "edge_type.npy",      "edge_weight.npy",
                                    "node_type.npy",    "feat_t0.npy", "feat_t1_indptr.npy", "feat_t1_indices.npy",
                                    "feat_t1_data.npy", "labels.npy",  "train_idx.npy",      "edge_attr.npy",
                                    "class_names.json"};

#define N_FILE (sizeof names / sizeof *names)

static const char meta[] =
    "{\"name\": \"six\", \"nodes\": 6, \"relations\": 2, \"features\": {\"1\": {\"features\": 3}}}";
static const char class_names[] = "[\"a\", \"b \\n\"]";
static const int64_t edges[] = {0, 1, 2, 3, 4, 5, 0, 3, 1, 0, 3, 2, 5, 4, 2, 3}, types[] = {0, 0, 1, 1, 0, 1, 0, 1};
static const float weights[] = {1, 0.5f, 2, 0, 3, 1, 1, 4}, dense[] = {1, 0, 2, 3, 0, 4}, data[] = {1, 2, 3};
static const float rows[2 * N_EDGE] = {1, 0.5f, 2, 0, 3, 1, 1, 4, -1, -2, 0, 0, 5, 6, 7, 8};
static const int64_t node_type[] = {0, 1, 2, 0, 1, 0}, indptr[] = {0, 1, 3}, indices[] = {2, 0, 1};
static const int64_t labels[] = {0, 1, 0, 1, -1, 0}, train[] = {0, 1};

static const struct {
    enum npy_type type;
    int rank;
    int64_t shape[2];
    const void *values;
} arrays[N_FILE] = {
    {NPY_TYPE_N, 0, {0, 0}, NULL},
    {NPY_TYPE_I64, 2, {2, N_EDGE}, edges},
    {NPY_TYPE_I64, 1, {N_EDGE, 0}, types},
    {NPY_TYPE_F32, 1, {N_EDGE, 0}, weights},
    {NPY_TYPE_I64, 1, {N_NODE, 0}, node_type},
    {NPY_TYPE_F32, 2, {3, 2}, dense},
    {NPY_TYPE_I64, 1, {3, 0}, indptr},
    {NPY_TYPE_I64, 1, {3, 0}, indices},
    {NPY_TYPE_F32, 1, {3, 0}, data},
    {NPY_TYPE_I64, 1, {N_NODE, 0}, labels},
    {NPY_TYPE_I64, 1, {2, 0}, train},
    {NPY_TYPE_F32, 2, {N_EDGE, 2}, rows},
};

static void *good[N_FILE];
static size_t n_good[N_FILE];

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* An array's bytes in .npy format, through a file. */
static void array_encode(size_t i)
{
    char path[] = "/tmp/trainerd-fuzz-XXXXXX";
    int file = mkstemp(path);
    ASSERT(file >= 0 &&
           npy_save(path, arrays[i].type, arrays[i].rank, arrays[i].shape, arrays[i].values) == STATUS_OK);
    close(file);
    FILE *saved = fopen(path, "rb");
    ASSERT(saved != NULL);
    good[i] = malloc(4096);
    n_good[i] = fread(good[i], 1, 4096, saved);
    fclose(saved);
    unlink(path);
}

static void text_keep(size_t i, const char *text)
{
    good[i] = strdup(text);
    ASSERT(good[i] != NULL);
    n_good[i] = strlen(text);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    text_keep(0, meta);
    text_keep(N_FILE - 1, class_names);
    for (size_t i = 1; i < N_FILE - 1; i++) {
        array_encode(i);
    }
    input_folder = (struct input_folder){
        .n_file = N_FILE, .names = names, .bytes = good, .n_bytes = n_good, .write = input_folder_write};
    input_folder_make(*argc, *argv);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n > 0) {
        input_folder_try(bytes, n);
    }
    return 0;
}
