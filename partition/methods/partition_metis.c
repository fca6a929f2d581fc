/* METIS's k-way partitioner behind our signature.
 *
 * It traps SIGTERM and SIGABRT while it runs, and treats a request to stop as its own error. So it runs in a separate
 * process, which ends with ours. Sums of weights must fit its 32 bits, and it may leave parts empty: this file
 * handles both.
 * source  Karypis & Kumar, "Multilevel k-way partitioning scheme for irregular graphs", JPDC 48 (1998)
 */
#include "partition/methods/partition_metis.h"
#include "partition/graph/undirected.h"
#include "partition/methods/partition_coarsen.h"
#include "partition/methods/partition_method.h"
#include "partition/part/partition.h"
#include "protocol/base/cgroup.h"
#include "protocol/base/memory.h"
#include "protocol/base/program.h"
#include "protocol/files/file.h"

#include <errno.h>
#include <fcntl.h>
#include <metis.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Exit codes of the process that runs METIS. */
enum { CHILD_DONE, CHILD_NOMEM, CHILD_FAILED };

_Static_assert(sizeof(idx_t) == sizeof(int32_t), "undirected_build makes METIS's indices 32 bits wide");

#define ENTRIES_FEW (1 << 20) /* METIS takes a second for a graph of so many */

/* Of METIS, and of what is coarsened before, over all levels; of an edge in one direction. */
#define METIS_LEAST_BYTES (4 << 20)
#define METIS_ENTRY_BYTES 48
#define METIS_NODE_BYTES 320
#define COARSEN_ENTRY_BYTES 10
#define COARSEN_NODE_BYTES 48

#define TEXT_OF(value) #value
#define TEXT(value) TEXT_OF(value)

const char *partition_library(void)
{
    return "METIS " TEXT(METIS_VER_MAJOR) "." TEXT(METIS_VER_MINOR) "." TEXT(METIS_VER_SUBMINOR) ", " TEXT(
        IDXTYPEWIDTH) "-bit indices";
}

static int constraint_count(int balance)
{
    return balance == JOB_BALANCE_BOTH ? 2 : 1;
}

/* Weights of every node, one per constraint, scaled down where their sum would pass 2^31 - 1. */
static void weigh(const struct dataset *dataset, int balance, int32_t *weight)
{
    int n_constraint = constraint_count(balance);
    int shift = 0;
    while (((dataset->n_edge + dataset->n_node) >> shift) + dataset->n_node > INT32_MAX) {
        shift++;
    }
    for (int64_t v = 0; v < dataset->n_node; v++) {
        int64_t by_edges = (partition_weight(dataset, JOB_BALANCE_EDGES, v) >> shift) + (shift > 0);
        weight[v * n_constraint] = balance == JOB_BALANCE_EDGES ? (int32_t)by_edges : 1;
        if (n_constraint == 2) {
            weight[v * 2 + 1] = (int32_t)by_edges;
        }
    }
}

struct call {
    struct undirected *graph;
    const struct job *job;
    int objective; /* JOB_OBJECTIVE_ */
    int32_t n_part;
    int32_t *weight;
};

/* Outputs of METIS's process: owners to its parent, errors to a file in memory. */
struct child {
    int to_parent, words;
};

void metis_obey(int code)
{
    static off_t n_seen;
    off_t n_printed = lseek(STDERR_FILENO, 0, SEEK_END);
    if (code != METIS_OK && n_printed == n_seen) {
        int number = code == METIS_ERROR_MEMORY ? SIGABRT : SIGTERM;
        signal(number, SIG_DFL);
        raise(number);
    }
    n_seen = n_printed;
}

/* Returns 0, or METIS's own code. */
static int metis(const void *context, const struct weighted_graph *graph, int32_t *owner)
{
    const struct call *call = context;
    idx_t options[METIS_NOPTIONS];
    METIS_SetDefaultOptions(options);
    options[METIS_OPTION_NUMBERING] = 0;
    options[METIS_OPTION_SEED] = (idx_t)call->job->partition.seed;
    options[METIS_OPTION_OBJTYPE] = call->objective == JOB_OBJECTIVE_VOLUME ? METIS_OBJTYPE_VOL : METIS_OBJTYPE_CUT;
    idx_t n_node = graph->n_node, n_constraint = graph->n_constraint, parts = call->n_part, value = 0;
    int code = METIS_PartGraphKway(&n_node, &n_constraint, graph->indptr, graph->indices, graph->node_weight, NULL,
                                   graph->edge_weight, &parts, NULL, NULL, options, &value, owner);
    metis_obey(code);
    return code == METIS_OK ? 0 : code;
}

/* Volumes are of whole graphs: a coarsened one does not tell how many of a cluster's rows travel. */
static int parts_make(const struct call *call, int32_t *owner)
{
    const struct weighted_graph graph = {.n_node = (int32_t)call->graph->n_node,
                                         .n_constraint = constraint_count(call->job->partition.balance),
                                         .indptr = call->graph->indptr,
                                         .indices = call->graph->indices,
                                         .node_weight = call->weight};
    return call->objective == JOB_OBJECTIVE_VOLUME
               ? metis(call, &graph, owner)
               : coarsen_parts(&graph, ENTRIES_FEW, call->n_part, metis, call, owner);
}

/* The process that runs METIS. It ends with its parent, and by the signals that end a process: its parent handles
 * them (saving, reporting). METIS's remarks are discarded, since stdout belongs to results. Its errors go to
 * `words`. */
_Noreturn static void child_run(const struct call *call, const struct child *child, pid_t parent,
                                const sigset_t *mask, int32_t *owner)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(CHILD_FAILED);
    }
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        signal(ends[i], SIG_DFL);
    }
    sigprocmask(SIG_SETMASK, mask, NULL);
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0 || dup2(child->words, STDERR_FILENO) < 0) {
        _exit(CHILD_FAILED);
    }
    int code = parts_make(call, owner);
    if (code == 0) {
        metis_parts_number(call->graph, call->n_part, (int32_t)call->job->partition.seed, owner);
    }
    if (code == 0 && file_write(child->to_parent, owner, (size_t)call->graph->n_node * sizeof *owner) == 0) {
        _exit(CHILD_DONE);
    }
    _exit(code == METIS_ERROR_MEMORY ? CHILD_NOMEM : CHILD_FAILED);
}

/* The last line of a child's output; "" without output. */
static const char *last_words(int words, char out[256])
{
    off_t n_all = lseek(words, 0, SEEK_END);
    ssize_t n = pread(words, out, 255, n_all > 255 ? n_all - 255 : 0);
    n -= n > 0 && out[n - 1] == '\n';
    out[n > 0 ? n : 0] = '\0';
    const char *newline = strrchr(out, '\n');
    return newline != NULL ? newline + 1 : out;
}

/* The cause of a child's end without owners. A KILL is the system's if it has meanwhile killed for memory. Otherwise
 * a KILL, or any other signal but those of a fault, comes from outside, and the next attempt may succeed. */
static enum status child_failed(const struct undirected *graph, int status, int words, int64_t n_killed_before)
{
    char text[256], at[96];
    const char *last = last_words(words, text), *colon = last[0] != '\0' ? ": " : "";
    snprintf(at, sizeof at, "%lld nodes and %lld edge entries", (long long)graph->n_node, (long long)graph->n_entry);
    if (WIFEXITED(status) &&
        (WEXITSTATUS(status) == CHILD_NOMEM || WEXITSTATUS(status) == status_exit_code(STATUS_NOMEM))) {
        return status_fail(STATUS_NOMEM, "METIS has not enough memory for %s%s%s", at, colon, last);
    }
    if (WIFEXITED(status)) {
        return status_fail(STATUS_BUG, "METIS gave up on %s%s%s", at, colon, last);
    }
    int number = WTERMSIG(status);
    if (number == SIGKILL && cgroup_oom_kills("") > n_killed_before) {
        return status_fail(STATUS_NOMEM, "METIS was killed at %s: memory ran out", at);
    }
    if (number == SIGKILL) {
        return status_fail(
            STATUS_PEER,
            "METIS was killed (signal 9) at %s; if the machine ran out of memory, partition.method = \"block\" "
            "takes less",
            at);
    }
    /* METIS and the C library print the reason of an abort. */
    bool is_fault = program_is_fault(number) && (number != SIGABRT || last[0] != '\0');
    return status_fail(is_fault ? STATUS_BUG : STATUS_PEER, "METIS was ended by signal %d (%s) at %s%s%s", number,
                       strsignal(number), at, colon, last);
}

/* Run METIS in a child whose ends are `ends`, read its owners, and reap it. */
static enum status child_wait(const struct call *call, const int ends[2], int words, int32_t *owner)
{
    int64_t n_killed = cgroup_oom_kills("");
    /* Blocked until the child has removed its parent's handlers. */
    sigset_t all, mask;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &mask);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        child_run(call, &(struct child){.to_parent = ends[1], .words = words}, parent, &mask, owner);
    }
    int error = errno, status = 0;
    sigprocmask(SIG_SETMASK, &mask, NULL);
    close(ends[1]);
    if (child < 0) {
        return status_fail(STATUS_NOMEM, "cannot start METIS: %s", strerror(error));
    }
    error = file_read(ends[0], owner, (size_t)call->graph->n_node * sizeof *owner);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return error == 0 ? STATUS_OK : child_failed(call->graph, status, words, n_killed);
}

static enum status call_metis(const struct call *call, int32_t *owner)
{
    int ends[2], words = memfd_create("metis", MFD_CLOEXEC);
    if (words < 0 || pipe2(ends, O_CLOEXEC) != 0) {
        enum status status = status_fail(STATUS_IO, "cannot start METIS: %s", strerror(errno));
        close(words);
        return status;
    }
    enum status status = child_wait(call, ends, words, owner);
    close(ends[0]);
    close(words);
    return status;
}

/* Give every empty part a node of the largest part: the one with the fewest neighbours outside of that part. */
static void repair(const struct undirected *graph, int32_t n_part, int32_t *owner)
{
    int64_t *n_own = memory_alloc((size_t)n_part, sizeof *n_own);
    for (int64_t v = 0; v < graph->n_node; v++) {
        n_own[owner[v]]++;
    }
    for (int32_t empty = 0; empty < n_part; empty++) {
        if (n_own[empty] > 0) {
            continue;
        }
        int32_t donor = 0;
        for (int32_t p = 1; p < n_part; p++) {
            donor = n_own[p] > n_own[donor] ? p : donor;
        }
        int64_t node = -1, least = INT64_MAX;
        for (int64_t v = 0; v < graph->n_node; v++) {
            int64_t degree = graph->indptr[v + 1] - graph->indptr[v];
            if (owner[v] == donor && degree < least) {
                least = degree;
                node = v;
            }
        }
        owner[node] = empty;
        n_own[donor]--;
        n_own[empty]++;
    }
    free(n_own);
}

/* Rows that travel: distinct (node, other part of a neighbour) pairs. seen: n_part */
static int64_t volume(const struct undirected *graph, const int32_t *owner, int64_t *seen)
{
    int64_t n = 0;
    for (int64_t v = 0; v < graph->n_node; v++) {
        for (int32_t i = graph->indptr[v]; i < graph->indptr[v + 1]; i++) {
            int32_t part = owner[graph->indices[i]];
            if (part != owner[v] && seen[part] != v + 1) {
                seen[part] = v + 1;
                n++;
            }
        }
    }
    return n;
}

/* METIS coarsens along heavy edges for either objective. If a graph has clear communities, its cut finds them and its
 * volume does not. So for the volume both are tried (the cut takes a fraction of the time) and the result with less
 * volume is kept. */
static enum status improve(const struct call *volume_call, int32_t *owner)
{
    struct call call = *volume_call;
    call.objective = JOB_OBJECTIVE_CUT;
    const struct undirected *graph = call.graph;
    int32_t n_part = call.n_part;
    size_t n = (size_t)graph->n_node;
    int32_t *other;
    enum status status = memory_acquire(MEMORY_OTHER, n, sizeof *other, &other);
    if (status != STATUS_OK) {
        return status;
    }
    status = call_metis(&call, other);
    if (status == STATUS_OK) {
        repair(graph, n_part, other);
        int64_t *seen = memory_alloc((size_t)n_part, sizeof *seen);
        int64_t before = volume(graph, owner, seen);
        memset(seen, 0, (size_t)n_part * sizeof *seen);
        if (volume(graph, other, seen) < before) {
            memcpy(owner, other, n * sizeof *owner);
        }
        free(seen);
    }
    memory_release(MEMORY_OTHER, other, n, sizeof *other);
    return status;
}

int64_t metis_bytes(const struct dataset *dataset, const struct job *job)
{
    int64_t n_entry = dataset->facts.symmetric ? dataset->n_edge : 2 * dataset->n_edge, n_node = dataset->n_node;
    int64_t n_cluster = COARSEN_CLUSTERS_A_PART * job->partition.parts, n_left = n_cluster * n_cluster;
    n_left = n_left < ENTRIES_FEW / 2 ? ENTRIES_FEW / 2 : n_left; /* hardly any graph is left with more */
    if (job->partition.objective == JOB_OBJECTIVE_VOLUME || n_entry < ENTRIES_FEW || n_left >= n_entry) {
        return METIS_LEAST_BYTES + METIS_ENTRY_BYTES * n_entry + METIS_NODE_BYTES * n_node;
    }
    return METIS_LEAST_BYTES + METIS_ENTRY_BYTES * n_left + COARSEN_ENTRY_BYTES * n_entry +
           COARSEN_NODE_BYTES * n_node;
}

enum status partition_metis(const struct dataset *dataset, const struct job *job, int32_t n_part, int32_t *owner)
{
    if (dataset->n_edge == 0) {
        return partition_block(dataset, job, n_part, owner);
    }
    struct undirected graph;
    enum status status = undirected_build(dataset, INT32_MAX, &graph);
    if (status != STATUS_OK) {
        return status;
    }
    int32_t *weight;
    size_t n_weight = (size_t)dataset->n_node * (size_t)constraint_count(job->partition.balance);
    status = memory_acquire(MEMORY_OTHER, n_weight, sizeof *weight, &weight);
    if (status == STATUS_OK) {
        weigh(dataset, job->partition.balance, weight);
        const struct call call = {
            .graph = &graph, .job = job, .objective = job->partition.objective, .n_part = n_part, .weight = weight};
        status = call_metis(&call, owner);
        if (status == STATUS_OK) {
            repair(&graph, n_part, owner);
        }
        if (status == STATUS_OK && job->partition.objective == JOB_OBJECTIVE_VOLUME) {
            status = improve(&call, owner);
        }
        memory_release(MEMORY_OTHER, weight, n_weight, sizeof *weight);
    }
    undirected_release(&graph);
    return status;
}
