#include "tests/support/cluster/cluster.h"

#include "partition/part/part.h"
#include "protocol/base/log.h"
#include "protocol/job/job.h"
#include "tests/support/graphs/part_encode.h"
#include "tests/support/process/patience.h"
#include "trainerd/coordinator/plan/prune.h"
#include "worker/state/pin.h"
#include "worker/state/trainer_state.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_RANKS 16
#define MOST_FLOATS (1 << 20)

/* Shared by all ranks and the test. */
struct board {
    pthread_barrier_t all_ranks; /* where one has died, the alarm ends the others */
    _Atomic int n_finished;
    struct {
        size_t n_bytes;
        char bytes[1024];
    } address[MOST_RANKS];
    _Atomic int64_t n_call, limit_least;
    _Atomic uint64_t payload_sent, halo_received;
    struct cluster_result result;
    _Atomic int64_t n_unplanned;
    float initial[MOST_FLOATS], weights[MOST_FLOATS], initial_embeddings[MOST_FLOATS], embeddings[MOST_FLOATS],
        logits[MOST_FLOATS];
};

struct rank {
    struct job job;
    uint32_t rank, n_rank;
    struct board *board;
    struct dataset dataset;
    struct partition partition;
    uint32_t *rank_of_part;
    struct part **parts;
    struct spill *spill;
    struct transport *transport;
    struct exchange *exchange;
    struct trainer *trainer;
    int64_t resident; /* bytes, before the trainer is opened */
};

static void check(enum status status)
{
    if (status != STATUS_OK) {
        log_error("%s", status_reason());
        _exit(status_exit_code(status));
    }
}

static void *rank_place(void *arg, const struct transport_head *head, size_t n_bytes)
{
    return exchange_place(((struct rank *)arg)->exchange, head, n_bytes);
}

static void rank_arrived(void *arg, const struct transport_head *head, void *body, size_t n_bytes)
{
    exchange_arrived(((struct rank *)arg)->exchange, head, body, n_bytes);
}

static void rank_connect(struct rank *r)
{
    struct transport_events events = {.arg = r, .place = rank_place, .arrived = rank_arrived};
    int n_part = (int)r->job.partition.parts;
    int n_kept = STALE_N_FLIGHT * (int)r->n_rank;
    r->exchange = exchange_open(n_part * n_part + n_kept + 16, n_part * n_part + STALE_N_FLIGHT + 2);
    check(transport_open(r->rank, r->n_rank, 1, 64, NULL, &events, &r->transport));
    size_t n_bytes;
    const void *address = transport_address(r->transport, &n_bytes);
    r->board->address[r->rank].n_bytes = n_bytes;
    memcpy(r->board->address[r->rank].bytes, address, n_bytes);
    pthread_barrier_wait(&r->board->all_ranks);
    for (uint32_t peer = 0; peer < r->n_rank; peer++) {
        if (peer != r->rank) {
            check(transport_connect(r->transport, peer, r->board->address[peer].bytes,
                                    r->board->address[peer].n_bytes));
        }
    }
    pthread_barrier_wait(&r->board->all_ranks);
    exchange_attach(r->exchange, r->transport);
}

/* Move an encoded part into the spill, as a session does. */
static void part_place(struct rank *r, void **bytes_io, size_t n_bytes)
{
    void *spilled;
    if (r->spill == NULL) {
        return;
    }
    check(spill_take(r->spill, (int64_t)n_bytes, &spilled));
    const struct spill_range all = {spilled, (int64_t)n_bytes, SPILL_WRITE};
    check(spill_pin(r->spill, &all, 1));
    memcpy(spilled, *bytes_io, n_bytes);
    spill_unpin(r->spill, &all, 1);
    memory_release(MEMORY_OTHER, *bytes_io, n_bytes, 1);
    *bytes_io = spilled;
}

static void part_take(struct rank *r, int32_t p)
{
    void *bytes;
    size_t n_bytes;
    check(part_encode(&r->dataset, &r->partition, p, &bytes, &n_bytes));
    part_place(r, &bytes, n_bytes);
    const struct spill_range all = {bytes, (int64_t)n_bytes, SPILL_READ};
    r->parts[p] = memory_alloc(1, sizeof **r->parts);
    check(spill_pin(r->spill, &all, 1));
    check(part_open(bytes, n_bytes, r->parts[p]));
    spill_unpin(r->spill, &all, 1);
}

/* Decide on pruning, stored inputs and covers as a coordinator does. */
static void rank_prune(struct rank *r)
{
    struct program_input input = {.facts = r->dataset.facts,
                                  .is_sparse = r->dataset.features.indptr != NULL,
                                  .embedded = r->dataset.features.embedded};
    struct program program;
    struct prune prune;
    check(program_build(&r->job, &input, &program));
    check(prune_build(&r->job, &r->dataset, &program, &r->partition, &prune));
    bool stores[2], embedded = r->dataset.features.embedded.n_run > 0;
    for (int several = 0; several < 2; several++) { /* however little it saves */
        stores[several] = memory_plan_stores(&r->job, &program, embedded, r->dataset.n_node, r->partition.n_part > 1,
                                             several ? 2 : r->n_rank);
    }
    program_release(&program);
    r->partition.stores = stores[0];
    input.stores = stores[1];
    check(program_build(&r->job, &input, &program));
    r->partition.covered = memory_plan_covers(&r->job, &program) && r->dataset.facts.n_relation == 0;
    r->board->result.left_out = prune.left_out;
    program_release(&program);
}

static void rank_parts(struct rank *r)
{
    if (r->job.memory.spill[0] != '\0') {
        check(spill_open(r->job.memory.spill, &r->spill));
        spill_limit(r->spill, 0);
    }
    int32_t n_part = (int32_t)r->job.partition.parts;
    check(dataset_load(&r->job, &r->dataset));
    dataset_count(&r->dataset, &r->dataset.facts.counts); /* of a text that reads graph.mean_degree */
    check(partition_build(&r->dataset, &r->job, &r->partition));
    rank_prune(r);
    r->rank_of_part = memory_alloc((size_t)n_part, sizeof *r->rank_of_part);
    r->parts = memory_alloc((size_t)n_part, sizeof *r->parts);
    for (int32_t p = 0; p < n_part; p++) {
        r->rank_of_part[p] = cluster_ranks != NULL ? cluster_ranks[p] : (uint32_t)p % r->n_rank;
        if (r->rank_of_part[p] == r->rank) {
            part_take(r, p);
        }
    }
}

static void rank_limit(struct rank *r)
{
    const struct memory_plan *plan = &r->trainer->plan;
    int64_t limit = memory_plan_total(plan) - plan->bytes[MEMORY_SPILL] + plan->spill.n_least;
    int64_t least = atomic_load(&r->board->limit_least);
    while (limit > least && !atomic_compare_exchange_weak(&r->board->limit_least, &least, limit)) {
    }
}

static void rank_logits(struct rank *r)
{
    struct board *board = r->board;
    int64_t n_class = r->dataset.facts.n_class;
    for (int32_t p = 0; p < r->partition.n_part; p++) {
        if (r->parts[p] == NULL) {
            continue;
        }
        int64_t n = r->parts[p]->n_own;
        float *rows = memory_alloc((size_t)(n * n_class), sizeof *rows);
        check(trainer_get(r->trainer, WORKER_STATE_LOGITS, p, rows));
        const struct spill_range nodes = {r->parts[p]->node, n * 4, SPILL_READ};
        check(spill_pin(r->spill, &nodes, 1));
        for (int64_t i = 0; i < n; i++) {
            memcpy(board->logits + r->parts[p]->node[i] * n_class, rows + i * n_class,
                   (size_t)n_class * sizeof *rows);
        }
        spill_unpin(r->spill, &nodes, 1);
        free(rows);
    }
    board->result.n_logit = r->dataset.n_node * n_class;
}

/* The embeddings of own nodes: a row per node, the columns of all weights side by side. */
static void rank_embeddings(struct rank *r, float *to)
{
    const struct program *program = trainer_program(r->trainer);
    int64_t width = program->n_embedding;
    r->board->result.n_embedding = r->dataset.n_node * width;
    ASSERT(r->board->result.n_embedding <= MOST_FLOATS);
    if (width == 0) {
        return;
    }
    for (int32_t p = 0; p < r->partition.n_part; p++) {
        const struct part *part = r->parts[p];
        if (part == NULL) {
            continue;
        }
        float *of_part = memory_alloc((size_t)trainer_state_bytes(r->trainer, WORKER_STATE_EMBEDDINGS, p), 1);
        check(trainer_get(r->trainer, WORKER_STATE_EMBEDDINGS, p, of_part));
        const struct spill_range all = {part->bytes, part->n_bytes, SPILL_READ};
        check(spill_pin(r->spill, &all, 1));
        for (int64_t i = 0; i < part->features.n_embedded * width; i++) {
            int64_t column = i % width, k = i / width;
            const struct parameter *param = program->param;
            while (param->embedding_at < 0 || param->embedding_at + param->embedding_width <= column) {
                param++;
            }
            float value = of_part[part->features.n_embedded * param->embedding_at + k * param->embedding_width +
                                  column - param->embedding_at];
            to[part->node[part->features.embedded_rows[k]] * width + column] = value;
        }
        spill_unpin(r->spill, &all, 1);
        free(of_part);
    }
}

const struct device_ops *cluster_device;
const uint32_t *cluster_ranks;
bool cluster_stirs;

static int64_t spill_used(struct trainer *t)
{
    const struct step_list *list = &t->plan.steps.phase[STEP_PHASE_TRAIN];
    int64_t n_bytes = 0;
    for (int s = 0; s < list->n_step && t->setup.spill != NULL; s += step_span(&list->step[s])) {
        const struct pin pin = pin_open(t, &list->step[s], PIN_USE_RUNNING);
        for (int32_t i = 0; i < t->own.n; i++) {
            n_bytes += pin_bytes(&pin, i);
        }
    }
    return n_bytes;
}

/* Bytes of resident pages that are mapped from files: the code. */
static int64_t resident_code(void)
{
    long code = 0;
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL && sscanf(line, "RssFile: %ld", &code) != 1) {
    }
    if (file != NULL) {
        fclose(file);
    }
    return 1024 * code;
}

/* Reset the kernel's peak of the resident set; false where it cannot be reset. */
static bool resident_begin(struct rank *r)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    bool begun = file != NULL && fputs("5", file) >= 0;
    begun = file != NULL && fclose(file) == 0 && begun;
    r->resident = memory_resident() - resident_code();
    return begun;
}

/* The weights before the first epoch, each with up to 0.1 more or less where they are stirred. */
static void rank_begin(struct rank *r)
{
    struct cluster_result *result = &r->board->result;
    const struct program *program = trainer_program(r->trainer);
    ASSERT(program->n_weight <= MOST_FLOATS && program->n_param <= CLUSTER_MOST_PARAMS);
    float *weights = memory_alloc((size_t)program->n_weight, sizeof *weights);
    check(trainer_get(r->trainer, WORKER_STATE_WEIGHTS, 0, weights));
    for (int p = 0; p < program->n_param && cluster_stirs; p++) {
        const struct parameter *param = &program->param[p];
        for (int64_t i = 0; i < param->n_shared; i++) {
            weights[param->offset + i] += ((float)((29 * p + 73 * i) % 40) - 19.5f) / 200.0f;
        }
    }
    check(trainer_set(r->trainer, WORKER_STATE_WEIGHTS, 0, weights));
    rank_embeddings(r, r->board->initial_embeddings);
    if (r->rank == 0) {
        result->n_param = program->n_param;
        memcpy(result->param, program->param, (size_t)program->n_param * sizeof *program->param);
        memcpy(r->board->initial, weights, (size_t)program->n_weight * sizeof *weights);
    }
    free(weights);
}

/* Categories of memory, place by place, of which more or less was taken than planned: other bytes than an epoch's are not of the plan. */
static int64_t rank_unplanned(struct rank *r)
{
    struct memory_table planned, measured;
    int64_t n = 0;
    trainer_memory(r->trainer, &planned, &measured);
    for (int place = 0; place < MEMORY_PLACE_N; place++) {
        int last = place == MEMORY_PLACE_PINNED ? MEMORY_OTHER : MEMORY_PAYLOADS;
        for (int c = MEMORY_PARAMETERS; c <= last; c++) {
            n += planned.bytes[place][c] != measured.bytes[place][c];
        }
    }
    return n;
}

static void rank_train(struct rank *r)
{
    bool measured = resident_begin(r);
    struct board *board = r->board;
    const struct device_ops *ops = cluster_device;
    if (ops == NULL) {
        check(device_find(job_choice_text("workers", "device", r->job.workers.device), &ops));
    }
    struct trainer_setup setup = {.job = &r->job,
                                  .ops = ops,
                                  .n_thread = (int)r->job.workers.threads,
                                  .rank = r->rank,
                                  .n_rank = r->n_rank,
                                  .n_part = r->partition.n_part,
                                  .rank_of_part = r->rank_of_part,
                                  .parts = r->parts,
                                  .exchange = r->exchange,
                                  .spill = r->spill};
    check(trainer_open(&setup, &r->trainer));
    rank_limit(r);
    rank_begin(r);
    struct trainer_report report = {0};
    int64_t epochs = r->job.train.epochs;
    for (int64_t e = 0; e < epochs; e++) {
        int64_t moved = spill_moved(r->spill);
        check(trainer_epoch(r->trainer, (uint32_t)e, true, e + 1 == epochs, &report));
        atomic_fetch_add(&board->n_call, report.n_call);
        int n_layer;
        const uint64_t *layers = traffic_layers(trainer_traffic(r->trainer), &n_layer);
        for (int k = 0; k < n_layer * TRAFFIC_N_WHAT; k++) {
            atomic_fetch_add(&board->halo_received, layers[k]);
        }
        if (r->rank == 0) {
            board->result.loss[e] = report.loss;
            board->result.error[e] = trainer_guard(r->trainer).error;
            board->result.n_back_off = trainer_n_back_off(r->trainer);
            board->result.used = spill_used(r->trainer);
            board->result.moved = e == 1 ? spill_moved(r->spill) - moved : board->result.moved;
        }
    }
    if (epochs == 0) {
        check(trainer_epoch(r->trainer, 0, false, true, &report));
    }
    if (r->rank == 0 && measured) {
        board->result.resident = memory_resident_peak() - resident_code() - r->resident;
    }
    rank_logits(r);
    rank_embeddings(r, board->embeddings);
    atomic_fetch_add(&board->n_unplanned, rank_unplanned(r));
    atomic_fetch_add(&board->payload_sent, transport_traffic(r->transport).payload_sent);
    if (r->rank == 0) {
        memcpy(board->result.score, report.score, sizeof report.score);
        board->result.n_weight = trainer_program(r->trainer)->n_weight;
        check(trainer_get(r->trainer, WORKER_STATE_WEIGHTS, 0, board->weights));
        trainer_memory(r->trainer, &board->result.all_planned, &board->result.all_measured);
        memcpy(board->result.planned, board->result.all_planned.bytes[MEMORY_PLACE_HOST],
               sizeof board->result.planned);
        memcpy(board->result.measured, board->result.all_measured.bytes[MEMORY_PLACE_HOST],
               sizeof board->result.measured);
    }
}

static void rank_main(struct rank *r)
{
    alarm(PATIENCE_S);
    log_init("rank", (int)r->rank, LOG_LEVEL_WARN);
    rank_parts(r);
    rank_connect(r);
    rank_train(r);
    /* A rank stays until all have finished: others may still need it to make progress. */
    atomic_fetch_add(&r->board->n_finished, 1);
    while (atomic_load(&r->board->n_finished) < (int)r->n_rank) {
        transport_wait(r->transport, 1);
    }
    trainer_close(r->trainer);
    transport_close(r->transport);
    exchange_close(r->exchange);
    _exit(0);
}

static float *copy(const float *from, int64_t n)
{
    float *to = memory_alloc((size_t)n, sizeof *to);
    memcpy(to, from, (size_t)n * sizeof *to);
    return to;
}

/* Ranks of one machine use these transports, with small pools of buffers. UCX loads its modules in the first process that opens it: ranks
 * inherit them, in a third of the time. */
static void load_transports(void)
{
    static const char *const settings[][2] = {
        {"UCX_TLS", "self,posix,cma"}, {"UCX_POSIX_RX_BUFS_GROW", "64"}, {"UCX_POSIX_FIFO_SIZE", "32"}};
    static bool is_loaded;
    struct transport_events events = {0};
    struct transport *transport;
    if (is_loaded) {
        return;
    }
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        setenv(settings[i][0], settings[i][1], 0);
    }
    is_loaded = true;
    ASSERT(transport_open(0, 1, 1, 64, NULL, &events, &transport) == STATUS_OK);
    transport_close(transport);
}

/* oneDNN generates its code in each process' first product, which takes longer than these jobs' epochs: ranks inherit it. On one thread, as a
 * team does not live through a fork. */
static void generate_products(void)
{
    static float a[64], b[64], c[64];
    int n_thread = omp_get_max_threads();
    omp_set_num_threads(1);
    ASSERT(dnnl_sgemm('N', 'N', 8, 8, 8, 1.0f, a, 8, b, 8, 0.0f, c, 8) == dnnl_success);
    omp_set_num_threads(n_thread);
}

void cluster_run(const char *job_text, struct cluster_result *out)
{
    static struct rank r;
    memset(out, 0, sizeof *out);
    r = (struct rank){0};
    if (job_load_own(job_text, strlen(job_text), "test", NULL, 0, &r.job) != STATUS_OK) {
        log_error("%s", status_reason());
        out->exit_code = 78;
        return;
    }
    r.n_rank = (uint32_t)r.job.workers.count;
    r.job.partition.parts = r.job.partition.parts > 0 ? r.job.partition.parts : r.n_rank;
    r.board = mmap(NULL, sizeof *r.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT(r.board != MAP_FAILED && r.n_rank <= MOST_RANKS);
    pthread_barrierattr_t shared;
    ASSERT(pthread_barrierattr_init(&shared) == 0 &&
           pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED) == 0);
    ASSERT(pthread_barrier_init(&r.board->all_ranks, &shared, r.n_rank) == 0);
    load_transports();
    generate_products();
    pid_t pids[MOST_RANKS];
    for (r.rank = 0; r.rank < r.n_rank; r.rank++) {
        pids[r.rank] = fork();
        if (pids[r.rank] == 0) {
            rank_main(&r);
        }
    }
    for (uint32_t k = 0; k < r.n_rank; k++) {
        int how = 0;
        waitpid(pids[k], &how, 0);
        int code = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
        out->exit_code = code > out->exit_code ? code : out->exit_code;
    }
    if (out->exit_code == 0) {
        *out = r.board->result;
        out->n_call = r.board->n_call;
        out->limit_least = r.board->limit_least;
        out->payload_sent = r.board->payload_sent;
        out->halo_received = r.board->halo_received;
        out->n_unplanned = r.board->n_unplanned;
        out->initial = copy(r.board->initial, out->n_weight);
        out->weights = copy(r.board->weights, out->n_weight);
        out->initial_embeddings = copy(r.board->initial_embeddings, out->n_embedding);
        out->embeddings = copy(r.board->embeddings, out->n_embedding);
        out->logits = copy(r.board->logits, out->n_logit);
    }
    munmap(r.board, sizeof *r.board);
}

void cluster_release(struct cluster_result *result)
{
    free(result->initial);
    free(result->initial_embeddings);
    free(result->weights);
    free(result->embeddings);
    free(result->logits);
    *result = (struct cluster_result){0};
}
