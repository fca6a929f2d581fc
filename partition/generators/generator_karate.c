/* Zachary's karate club: 34 members, 78 friendships, and the club that each joined after the split. One feature
 * column per member, as in Kipf & Welling's example; four members' clubs are known (two leaders, two of their
 * friends).
 * source  Zachary, Journal of Anthropological Research 33 (1977)
 */
#include "partition/files/dataset_store.h"
#include "partition/generators/generator.h"
#include "partition/graph/features_csr.h"

#define N_MEMBER 34
#define N_FRIENDSHIP 78

static const uint8_t friendships[N_FRIENDSHIP][2] = {
    {0, 1},   {0, 2},   {0, 3},   {0, 4},   {0, 5},   {0, 6},   {0, 7},   {0, 8},   {0, 10},  {0, 11},
    {0, 12},  {0, 13},  {0, 17},  {0, 19},  {0, 21},  {0, 31},  {1, 2},   {1, 3},   {1, 7},   {1, 13},
    {1, 17},  {1, 19},  {1, 21},  {1, 30},  {2, 3},   {2, 7},   {2, 8},   {2, 9},   {2, 13},  {2, 27},
    {2, 28},  {2, 32},  {3, 7},   {3, 12},  {3, 13},  {4, 6},   {4, 10},  {5, 6},   {5, 10},  {5, 16},
    {6, 16},  {8, 30},  {8, 32},  {8, 33},  {9, 33},  {13, 33}, {14, 32}, {14, 33}, {15, 32}, {15, 33},
    {18, 32}, {18, 33}, {19, 33}, {20, 32}, {20, 33}, {22, 32}, {22, 33}, {23, 25}, {23, 27}, {23, 29},
    {23, 32}, {23, 33}, {24, 25}, {24, 27}, {24, 31}, {25, 31}, {26, 29}, {26, 33}, {27, 33}, {28, 31},
    {28, 33}, {29, 32}, {29, 33}, {30, 32}, {30, 33}, {31, 32}, {31, 33}, {32, 33},
};

/* By member: the club joined (h: the teacher's, o: the officers'), and the split (t train, v valid, e test). */
static const char clubs[N_MEMBER + 1] = "hhhhhhhhhohhhhoohhohohoooooooooooo";
static const char splits[N_MEMBER + 1] = "tteeveveeveveeveevevevevevevevevtt";

static enum status friendships_read(void *self, int64_t first, int64_t n, int64_t *source, int64_t *destination)
{
    (void)self;
    for (int64_t i = 0; i < n; i++) {
        source[i] = friendships[first + i][0];
        destination[i] = friendships[first + i][1];
    }
    return STATUS_OK;
}

static enum status identity_features(struct dataset *out)
{
    enum status status = features_csr_blocks(out, N_MEMBER);
    for (int64_t member = 0; member < N_MEMBER && status == STATUS_OK; member++) {
        out->features.indptr[member + 1] = member + 1;
        out->features.indices[member] = (uint32_t)member;
        out->features.data[member] = 1.0f;
    }
    out->facts.n_feature = N_MEMBER;
    return status;
}

enum status generator_karate(const struct job *job, struct dataset *out)
{
    const struct edge_source source = {
        .file = "karate", .unit = "friendship", .n_edge = N_FRIENDSHIP, .read = friendships_read};
    out->n_node = N_MEMBER;
    out->facts.n_class = 2;
    enum status status = dataset_graph_build(job, &source, true, out);
    if (status == STATUS_OK) {
        status = identity_features(out);
    }
    if (status == STATUS_OK) {
        status = dataset_store_block(out->store, MEMORY_OTHER, N_MEMBER, sizeof *out->labels.classes,
                                     &out->labels.classes);
    }
    if (status == STATUS_OK) {
        status = dataset_store_block(out->store, MEMORY_OTHER, N_MEMBER, sizeof *out->labels.split,
                                     &out->labels.split);
    }
    for (int64_t member = 0; member < N_MEMBER && status == STATUS_OK; member++) {
        out->labels.classes[member] = clubs[member] == 'o';
        out->labels.split[member] = splits[member] == 't'   ? DATASET_SPLIT_TRAIN
                                    : splits[member] == 'v' ? DATASET_SPLIT_VALID
                                                            : DATASET_SPLIT_TEST;
    }
    out->labels.splits = (struct dataset_splits){.origin = DATASET_ORIGIN_GIVEN, .n = 1};
    if (status != STATUS_OK) {
        return status;
    }
    return dataset_split_finish(out);
}
