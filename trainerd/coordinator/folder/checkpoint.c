#include "trainerd/coordinator/folder/checkpoint.h"

#include "models/program/level.h"
#include "protocol/base/memory.h"
#include "protocol/base/version.h"
#include "protocol/files/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define CHECKPOINT_MAGIC 0x54504b4352540a89u /* "\x89\nTRCKPT" */
#define CHECKPOINT_VERSION 6u
#define CHECKPOINT_VERSION_LEAST 5u /* struct state_5 */
#define N_CHECKPOINT_MOST 2
#define ALIGNMENT 64

enum section {
    SECTION_STATE,
    SECTION_JOB,
    SECTION_ARRAY, /* and the next CHECKPOINT_ARRAY_N - 1 */
    SECTION_N = SECTION_ARRAY + CHECKPOINT_ARRAY_N
};

static const char *const section_names[SECTION_N] = {"state",         "job",          "weights",      "first moment",
                                                     "second moment", "best weights", "stale buffers"};

const char *checkpoint_array_name(enum checkpoint_array array)
{
    return section_names[SECTION_ARRAY + array];
}

/* Sections are 64-byte aligned, one after another, with zeros between them: sizes determine places. */
struct head {
    uint64_t magic;
    uint32_t version;
    uint32_t n_section;
    struct {
        uint64_t n_bytes;
        uint64_t hash;
    } section[SECTION_N];
    struct library_ranges libraries;
    uint64_t reserved[5]; /* 0 */
    uint64_t hash;        /* of all before it */
};
_Static_assert(sizeof(struct head) == 3 * ALIGNMENT, "sections are aligned");
_Static_assert(sizeof(struct checkpoint_state) == 720, "a new field is a new version");

/* The state in files of version 5: at most eight metrics. */
struct state_5 {
    int64_t n_epoch, n_stale, best_epoch;
    struct score_5 {
        double loss, valid_loss;
        struct checkpoint_metric of[8];
    } best, last;
    char same[sizeof(struct checkpoint_state) - offsetof(struct checkpoint_state, train_s)];
};
_Static_assert(sizeof(struct state_5) == 672, "it has no holes");

static size_t state_bytes(uint32_t version)
{
    return version == CHECKPOINT_VERSION ? sizeof(struct checkpoint_state) : sizeof(struct state_5);
}

static struct checkpoint_score score_of_5(const struct score_5 *from)
{
    struct checkpoint_score score = {.loss = from->loss, .valid_loss = from->valid_loss};
    for (int i = 0; i < JOB_CHOICES_MOST; i++) {
        score.of[i] = i < 8 ? from->of[i] : (struct checkpoint_metric){NAN, NAN, NAN};
    }
    return score;
}

static void state_read(uint32_t version, const char *from, struct checkpoint_state *out)
{
    struct state_5 old;
    if (version == CHECKPOINT_VERSION) {
        memcpy(out, from, sizeof *out);
        return;
    }
    memcpy(&old, from, sizeof old);
    *out = (struct checkpoint_state){.n_epoch = old.n_epoch,
                                     .n_stale = old.n_stale,
                                     .best_epoch = old.best_epoch,
                                     .best = score_of_5(&old.best),
                                     .last = score_of_5(&old.last)};
    memcpy(&out->train_s, old.same, sizeof old.same);
}

static size_t to_border(size_t n)
{
    return (ALIGNMENT - n % ALIGNMENT) % ALIGNMENT;
}

/* The epochs of a checkpoint's name, -1 for other names. */
static long long epochs_of(const char *name)
{
    long long number = -1;
    char again[64];
    if (sscanf(name, "epoch-%lld.ckpt", &number) != 1) {
        return -1;
    }
    snprintf(again, sizeof again, "epoch-%lld.ckpt", number);
    return strcmp(again, name) == 0 ? number : -1;
}

bool checkpoint_is(const char *name)
{
    return epochs_of(name) >= 0;
}

static int is_checkpoint(const struct dirent *entry)
{
    return checkpoint_is(entry->d_name);
}

static int newest_first(const struct dirent **a, const struct dirent **b)
{
    long long x = epochs_of((*a)->d_name), y = epochs_of((*b)->d_name);
    return (x < y) - (x > y);
}

static void names_release(struct dirent **name, int n)
{
    for (int i = 0; i < n; i++) {
        free(name[i]);
    }
    if (n >= 0) {
        free(name);
    }
}

bool checkpoint_exists(const char *folder)
{
    struct dirent **name;
    int n = scandir(folder, &name, is_checkpoint, NULL);
    names_release(name, n);
    return n > 0;
}

void checkpoint_prune(const struct dir *folder, int64_t n_epoch, int64_t rollback)
{
    struct dirent **name;
    int n = scandirat(folder->file, ".", &name, is_checkpoint, newest_first);
    for (int i = 0, n_kept = 0; i < n; i++) {
        long long epochs = epochs_of(name[i]->d_name);
        if (epochs <= n_epoch && n_kept < N_CHECKPOINT_MOST) {
            n_kept++;
        } else if (epochs != rollback) {
            dir_file_remove(folder, name[i]->d_name);
        }
    }
    names_release(name, n);
    dir_asides_remove(folder, checkpoint_is);
}

enum status checkpoint_save(const struct dir *folder, const struct checkpoint *checkpoint, int64_t rollback)
{
    static const char zeros[ALIGNMENT];
    struct head head = {.magic = CHECKPOINT_MAGIC,
                        .version = CHECKPOINT_VERSION,
                        .n_section = SECTION_N,
                        .libraries = checkpoint->libraries};
    struct iovec piece[1 + 2 * SECTION_N] = {{.iov_base = &head, .iov_len = sizeof head}};
    for (int i = 0; i < SECTION_N; i++) {
        const void *from = i == SECTION_STATE ? (const void *)&checkpoint->state
                           : i == SECTION_JOB ? (const void *)checkpoint->job
                                              : (const void *)checkpoint->array[i - SECTION_ARRAY];
        size_t n = i == SECTION_STATE ? sizeof checkpoint->state
                   : i == SECTION_JOB ? checkpoint->n_job
                                      : (size_t)checkpoint->n_float[i - SECTION_ARRAY] * sizeof(float);
        head.section[i].n_bytes = n;
        head.section[i].hash = XXH3_64bits(from, n);
        piece[1 + 2 * i] = (struct iovec){.iov_base = (void *)(uintptr_t)from, .iov_len = n};
        piece[2 + 2 * i] = (struct iovec){.iov_base = (void *)(uintptr_t)zeros, .iov_len = to_border(n)};
    }
    head.hash = XXH3_64bits(&head, offsetof(struct head, hash));

    char name[64];
    snprintf(name, sizeof name, "epoch-%lld.ckpt", (long long)checkpoint->state.n_epoch);
    enum status status = dir_replace(folder, name, piece, 1 + 2 * SECTION_N);
    if (status == STATUS_OK) {
        checkpoint_prune(folder, checkpoint->state.n_epoch, rollback);
    }
    return status;
}

static enum status damaged(const char *origin, const char *where, const char *expected)
{
    return status_fail(STATUS_DATA, "checkpoint '%s' is damaged: %s: expected %s", origin, where, expected);
}

/* Sums beyond this are no job's, and leave room for what is added. */
#define COUNT_MOST (INT64_MAX / 2)

static enum status counts_check(const struct checkpoint_state *s, const char *origin)
{
    const int64_t last = s->n_epoch > 0 ? s->n_epoch - 1 : 0;
    const int64_t back_offs = s->n_guard < LEVEL_BACK_OFFS_MOST ? s->n_guard : LEVEL_BACK_OFFS_MOST;
    const struct {
        const char *name;
        int64_t is, least, most;
    } fields[] = {
        {"n_epoch", s->n_epoch, 0, UINT32_MAX},
        {"best_epoch", s->best_epoch, -1, last},
        {"n_stale", s->n_stale, 0, s->n_epoch},
        {"n_sent", s->n_sent, 0, COUNT_MOST},
        {"n_received", s->n_received, 0, COUNT_MOST},
        {"n_call", s->n_call, 0, COUNT_MOST},
        {"n_metrics_bytes", s->n_metrics_bytes, 0, COUNT_MOST},
        {"n_rollback", s->n_rollback, 0, CHECKPOINT_ROLLBACK_MOST},
        {"n_guard", s->n_guard, 0, s->n_epoch},
        {"n_back_off", s->n_back_off, 0, back_offs},
        {"guard_epoch", s->guard_epoch, -1, last},
        {"plateau_n_bad", s->plateau_n_bad, 0, s->n_epoch},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (fields[i].is < fields[i].least || fields[i].is > fields[i].most) {
            return status_fail(STATUS_DATA, "checkpoint '%s' is damaged: state: %s is %lld, expected %lld to %lld",
                               origin, fields[i].name, (long long)fields[i].is, (long long)fields[i].least,
                               (long long)fields[i].most);
        }
    }
    return STATUS_OK;
}

static enum status state_check(const struct checkpoint_state *s, const char *origin)
{
    const struct {
        const char *name;
        double is;
    } fields[] = {{"train_s", s->train_s}, {"plateau_lr", s->plateau_lr}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (!(fields[i].is >= 0.0 && fields[i].is <= DBL_MAX)) {
            return status_fail(STATUS_DATA,
                               "checkpoint '%s' is damaged: state: %s is %g, expected a finite number from 0 on",
                               origin, fields[i].name, fields[i].is);
        }
    }
    if (memchr(s->dataset, '\0', sizeof s->dataset) == NULL) {
        return damaged(origin, "state", "a dataset's fingerprint");
    }
    return counts_check(s, origin);
}

static bool are_ranges(const struct library_ranges *libraries)
{
    bool are = true;
    for (int l = 0; l < LIBRARY_N; l++) {
        const struct library_range *range = &libraries->of[l];
        are = are && range->least <= range->most && range->most < LIBRARY_MOST;
    }
    return are;
}

/* Head and sizes; at_out gets where each section begins. */
static enum status head_check(const struct head *head, size_t n_bytes, const char *origin, size_t at_out[SECTION_N])
{
    if (n_bytes < sizeof *head) {
        return damaged(origin, "head", "192 bytes, the file has fewer");
    }
    if (head->magic != CHECKPOINT_MAGIC) {
        return status_fail(STATUS_DATA, "'%s' is not a checkpoint of trainerd", origin);
    }
    if (head->version < CHECKPOINT_VERSION_LEAST || head->version > CHECKPOINT_VERSION) {
        return status_fail(STATUS_DATA,
                           "checkpoint '%s' has version %u, expected %u, that of trainerd " TRAINERD_VERSION
                           ": resume it with the trainerd that wrote it, or start the job anew",
                           origin, head->version, CHECKPOINT_VERSION);
    }
    static const uint64_t zeros[sizeof head->reserved / sizeof *head->reserved];
    if (head->hash != XXH3_64bits(head, offsetof(struct head, hash)) || head->n_section != SECTION_N ||
        !are_ranges(&head->libraries) || memcmp(head->reserved, zeros, sizeof zeros) != 0) {
        return damaged(origin, "head", "another checksum");
    }
    size_t at = sizeof *head;
    for (int i = 0; i < SECTION_N; i++) {
        size_t n = head->section[i].n_bytes;
        at_out[i] = at;
        if (n > n_bytes - at || to_border(n) > n_bytes - at - n) {
            return damaged(origin, section_names[i], "more bytes, the file ends before");
        }
        at += n + to_border(n);
    }
    return at == n_bytes ? STATUS_OK : damaged(origin, "end", "fewer bytes");
}

/* Sizes and places of the arrays, whose sections begin at `at`. */
static enum status arrays_read(const struct head *head, const char *from, const size_t at[SECTION_N],
                               const char *origin, struct checkpoint *out)
{
    for (int a = 0; a < CHECKPOINT_ARRAY_N; a++) {
        const char *name = section_names[SECTION_ARRAY + a];
        size_t n = head->section[SECTION_ARRAY + a].n_bytes;
        if (a == CHECKPOINT_ARRAY_WEIGHTS && (n == 0 || n % sizeof(float) != 0)) {
            return damaged(origin, name, "one float32 or more");
        }
        if (a == CHECKPOINT_ARRAY_BUFFERS && n % sizeof(float) != 0) {
            return damaged(origin, name, "whole float32s");
        }
        if (a != CHECKPOINT_ARRAY_BUFFERS && n != 0 && n != head->section[SECTION_ARRAY].n_bytes) {
            return damaged(origin, name, "as many numbers as weights");
        }
        out->n_float[a] = (int64_t)(n / sizeof(float));
        out->array[a] = n > 0 ? (const float *)(const void *)(from + at[SECTION_ARRAY + a]) : NULL;
    }
    return STATUS_OK;
}

enum status checkpoint_decode(const void *bytes, size_t n_bytes, const char *origin, struct checkpoint *out)
{
    const struct head *head = bytes;
    const char *from = bytes;
    size_t at[SECTION_N];
    enum status status = head_check(head, n_bytes, origin, at);
    if (status != STATUS_OK) {
        return status;
    }
    struct checkpoint read = {
        .job = from + at[SECTION_JOB], .n_job = head->section[SECTION_JOB].n_bytes, .libraries = head->libraries};
    for (int i = 0; i < SECTION_N; i++) {
        size_t n = head->section[i].n_bytes;
        if (XXH3_64bits(from + at[i], n) != head->section[i].hash) {
            return damaged(origin, section_names[i], "another checksum");
        }
        for (size_t k = 0; k < to_border(n); k++) {
            if (from[at[i] + n + k] != 0) {
                return damaged(origin, section_names[i], "zeros up to the next section");
            }
        }
    }
    status = arrays_read(head, from, at, origin, &read);
    if (status != STATUS_OK) {
        return status;
    }
    if (head->section[SECTION_STATE].n_bytes != state_bytes(head->version)) {
        return damaged(origin, section_names[SECTION_STATE], "another length");
    }
    state_read(head->version, from + at[SECTION_STATE], &read.state);
    status = state_check(&read.state, origin);
    if (status == STATUS_OK) {
        *out = read;
    }
    return status;
}

static enum status unreadable(const char *path, const char *why)
{
    return status_fail(STATUS_DATA, "cannot read checkpoint '%s': %s", path, why);
}

static enum status load_one(const char *path, struct checkpoint *out)
{
    /* Without O_NONBLOCK opening a pipe waits for its writer. */
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        return unreadable(path, strerror(errno));
    }
    struct stat stat_of = {0};
    bool is_plain = fstat(file, &stat_of) == 0 && S_ISREG(stat_of.st_mode);
    const size_t n_bytes = (size_t)stat_of.st_size;
    void *bytes = NULL;
    enum status status = is_plain ? memory_acquire(MEMORY_OTHER, n_bytes, 1, &bytes)
                                  : unreadable(path, "not a plain file");
    if (status == STATUS_OK) {
        int error = file_read(file, bytes, n_bytes);
        status = error == 0 ? checkpoint_decode(bytes, n_bytes, path, out)
                            : unreadable(path, error == ENODATA ? "it became shorter meanwhile" : strerror(error));
    }
    close(file);
    if (status != STATUS_OK) {
        memory_release(MEMORY_OTHER, bytes, n_bytes, 1);
        return status;
    }
    out->bytes = bytes;
    out->n_bytes = n_bytes;
    snprintf(out->path, sizeof out->path, "%s", path);
    return STATUS_OK;
}

enum status checkpoint_load(const char *folder, int64_t n_most, struct checkpoint *out)
{
    struct dirent **name;
    int n = scandir(folder, &name, is_checkpoint, newest_first);
    if (n <= 0) {
        names_release(name, n);
        return status_fail(STATUS_NO_INPUT, "nothing to resume: '%s' holds no epoch-*.ckpt", folder);
    }
    enum status status = STATUS_DATA;
    char warning[sizeof out->warning] = "", path[PATH_MAX];
    for (int i = 0; i < n && status == STATUS_DATA; i++) {
        if (epochs_of(name[i]->d_name) > n_most) {
            continue;
        }
        snprintf(path, sizeof path, "%s/%s", folder, name[i]->d_name);
        status = load_one(path, out);
        if (status != STATUS_OK && warning[0] == '\0') {
            snprintf(warning, sizeof warning, "%s", status_reason());
        }
    }
    names_release(name, n);
    if (status == STATUS_DATA && warning[0] == '\0') {
        return status_fail(STATUS_NO_INPUT, "'%s' holds no checkpoint of at most %lld epochs", folder,
                           (long long)n_most);
    }
    if (status == STATUS_DATA) {
        return status_fail(STATUS_DATA, "%s%s", warning, n > 1 ? "; the older ones are damaged, too" : "");
    }
    if (status == STATUS_OK) {
        memcpy(out->warning, warning, sizeof warning);
    }
    return status;
}

void checkpoint_release(struct checkpoint *checkpoint)
{
    memory_release(MEMORY_OTHER, checkpoint->bytes, checkpoint->n_bytes, 1);
    *checkpoint = (struct checkpoint){0};
}
