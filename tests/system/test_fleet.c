#include "partition/part.h"
#include "protocol/control.h"
#include "protocol/transport.h"
#include "trainerd/fleet.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Real workers on loopback. A worker's end must be noticed, named and cleaned up, whatever it was. */

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static struct job karate(int n_worker, int n_part)
{
    struct job job;
    job_defaults(&job);
    job.dataset.generator = JOB_GENERATOR_KARATE;
    job.partition.method = JOB_METHOD_BLOCK;
    job.partition.parts = n_part;
    job.model.hidden = 16;
    job.workers.count = n_worker;
    job.workers.threads = 1;
    job.workers.join_timeout = 20;
    strcpy(job.partition.cache, "off");
    return job;
}

/* Our children, in the order they were started. */
static int children(pid_t *pids, int n_most)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file);
    int n = 0;
    while (n < n_most && fscanf(file, "%d", &pids[n]) == 1) {
        n++;
    }
    fclose(file);
    return n;
}

static void check_nothing_left(void)
{
    cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1);
    cr_assert_eq(errno, ECHILD, "a worker is left");
}

/* A job's parts on their workers, everybody ready. */
static int64_t prepare(struct fleet *fleet, const struct job *job, struct partition *partition)
{
    struct dataset dataset;
    cr_assert_eq(dataset_load(job, &dataset), STATUS_OK, "%s", status_reason());
    cr_assert_eq(partition_build(&dataset, job, partition), STATUS_OK, "%s", status_reason());
    int32_t rank_of_part[16];
    for (int32_t part = 0; part < partition->n_part; part++) {
        rank_of_part[part] = (int32_t)(part * job->workers.count / partition->n_part);
    }
    cr_assert_eq(fleet_place(fleet, partition->n_part, rank_of_part), STATUS_OK, "%s", status_reason());
    for (int32_t part = 0; part < partition->n_part; part++) {
        void *bytes;
        size_t n;
        cr_assert_eq(part_encode(&dataset, partition, part, &bytes, &n), STATUS_OK, "%s", status_reason());
        cr_assert_eq(fleet_ship(fleet, part, bytes, n), STATUS_OK, "%s", status_reason());
        memory_release(MEMORY_OTHER, bytes, n, 1);
    }
    struct fleet_memory memory[8];
    int64_t n_weight = 0;
    cr_assert_eq(fleet_ready(fleet, memory, &n_weight), STATUS_OK, "%s", status_reason());
    cr_assert_gt(memory[job->workers.count - 1].planned[MEMORY_PARAMETERS], 0);
    dataset_release(&dataset);
    return n_weight;
}

static struct fleet *start(const struct job *job)
{
    struct fleet *fleet;
    cr_assert_eq(fleet_open(job, NULL, &fleet), STATUS_OK, "%s", status_reason());
    cr_assert_eq(fleet_n_alive(fleet), (int)job->workers.count);
    return fleet;
}

Test(fleet, workers_come_and_go_and_leave_nothing, .timeout = 60)
{
    struct job job = karate(3, 3);
    struct fleet *fleet = start(&job);
    double begin = now_s();
    fleet_close(fleet);
    cr_assert_lt(now_s() - begin, 1.5, "they end by themselves when told");
    check_nothing_left();
}

/* Train some epochs; loss of the last and all weights. */
static double train(int n_worker, float **weights_out, int64_t *n_out)
{
    struct job job = karate(n_worker, 4);
    struct fleet *fleet = start(&job);
    struct partition partition;
    int64_t n_weight = prepare(fleet, &job, &partition);
    struct fleet_report report;
    double first = 0;
    for (uint32_t epoch = 0; epoch < 10; epoch++) {
        cr_assert_eq(fleet_epoch(fleet, epoch, true, true, &report), STATUS_OK, "%s", status_reason());
        first = epoch == 0 ? report.loss : first;
    }
    cr_assert_lt(report.loss, first);
    cr_assert_eq(report.n_call, 0u, "an epoch allocates nothing");
    cr_assert_eq(report.bytes_sent, report.bytes_received);
    cr_assert_eq(report.bytes_sent > 0, n_worker > 1);
    float *weights = malloc((size_t)n_weight * sizeof *weights), *again = malloc((size_t)n_weight * sizeof *again);
    cr_assert_eq(fleet_get(fleet, 1, weights, n_weight), STATUS_OK, "%s", status_reason());

    cr_assert_eq(fleet_keep_best(fleet), STATUS_OK, "%s", status_reason());
    cr_assert_eq(fleet_get(fleet, 4, again, n_weight), STATUS_OK, "%s", status_reason());
    cr_assert_eq(memcmp(weights, again, (size_t)n_weight * sizeof *weights), 0, "the best are the present ones");
    again[0] += 1;
    cr_assert_eq(fleet_put(fleet, 1, again, n_weight), STATUS_OK, "%s", status_reason());
    cr_assert_eq(fleet_get(fleet, 1, again, n_weight), STATUS_OK, "%s", status_reason());
    cr_assert_eq(again[0], weights[0] + 1, "what was put is what is got");

    for (int32_t part = 0; part < partition.n_part; part++) {
        size_t n_own = (size_t)(partition.part_begin[part + 1] - partition.part_begin[part]);
        float logits[256];
        cr_assert_eq(fleet_logits(fleet, part, logits, n_own * 2 * sizeof *logits), STATUS_OK, "%s", status_reason());
        cr_assert(isfinite(logits[0]));
    }
    struct fleet_memory memory[4];
    cr_assert_eq(fleet_memory(fleet, memory), STATUS_OK, "%s", status_reason());
    cr_assert_gt(memory[n_worker - 1].resident_peak, 1 << 20);
    cr_assert_gt(memory[n_worker - 1].measured[MEMORY_PARAMETERS], 0);
    partition_release(&partition);
    fleet_close(fleet);
    check_nothing_left();
    free(again);
    *weights_out = weights;
    *n_out = n_weight;
    return report.loss;
}

Test(fleet, a_job_trains_to_the_same_bits_on_one_two_and_three_workers, .timeout = 120)
{
    float *alone, *shared;
    int64_t n_alone, n_shared;
    double loss = train(1, &alone, &n_alone);
    for (int n_worker = 2; n_worker <= 3; n_worker++) {
        cr_assert_eq(train(n_worker, &shared, &n_shared), loss);
        cr_assert_eq(n_shared, n_alone);
        cr_assert_eq(memcmp(shared, alone, (size_t)n_alone * sizeof *alone), 0);
        free(shared);
    }
    free(alone);
}

/* --- workers that die --- */

static void check_reason(const char *const *words)
{
    for (; *words != NULL; words++) {
        cr_assert(strstr(status_reason(), *words) != NULL, "expected '%s' in: %s", *words, status_reason());
    }
}

Test(fleet, a_killed_worker_ends_the_epoch_with_its_name_and_signal, .timeout = 60)
{
    struct job job = karate(2, 2);
    struct fleet *fleet = start(&job);
    struct partition partition;
    struct fleet_report report;
    pid_t pids[2];
    prepare(fleet, &job, &partition);
    cr_assert_eq(fleet_epoch(fleet, 0, true, true, &report), STATUS_OK);
    cr_assert_eq(children(pids, 2), 2);
    kill(pids[1], SIGKILL);
    double begin = now_s();
    enum status status = STATUS_OK;
    for (uint32_t epoch = 1; status == STATUS_OK && epoch < 100000; epoch++) {
        status = fleet_epoch(fleet, epoch, true, false, &report);
    }
    cr_assert_eq(status, STATUS_PEER);
    cr_assert_lt(now_s() - begin, 2.0);
    char who[32];
    snprintf(who, sizeof who, "worker 1 (pid %d)", pids[1]);
    const char *const words[] = {who, "was killed by signal 9 (SIGKILL) in epoch ", NULL};
    check_reason(words);
    cr_assert_eq(fleet_n_alive(fleet), 0);
    check_nothing_left();
    cr_assert_eq(fleet_epoch(fleet, 5, true, false, &report), STATUS_PEER, "the failure sticks");
    check_reason(words);
    partition_release(&partition);
    fleet_close(fleet);
}

static pid_t alarm_victim;

static void alarm_kill(int signal)
{
    (void)signal;
    kill(alarm_victim, SIGKILL);
}

Test(fleet, a_worker_killed_while_its_memory_is_read_takes_nobody_along, .timeout = 60)
{
    struct job job = karate(1, 1);
    job.model.hidden = 65536; /* megabytes of weights */
    struct fleet *fleet = start(&job);
    struct partition partition;
    int64_t n_weight = prepare(fleet, &job, &partition);
    float *weights = malloc((size_t)n_weight * sizeof *weights);
    cr_assert_eq(children(&alarm_victim, 1), 1);
    signal(SIGALRM, alarm_kill);
    alarm(1);
    enum status status = STATUS_OK;
    while (status == STATUS_OK) {
        status = fleet_get(fleet, 1, weights, n_weight);
    }
    cr_assert_eq(status, STATUS_PEER);
    check_reason((const char *const[]){"worker 0", "SIGKILL", "while its weights were read", NULL});
    free(weights);
    partition_release(&partition);
    fleet_close(fleet);
    check_nothing_left();
}

Test(fleet, a_stopped_worker_is_noticed_by_its_silence_and_killed, .timeout = 60)
{
    struct job job = karate(2, 2);
    job.workers.heartbeat_timeout = 0.5;
    struct fleet *fleet = start(&job);
    struct fleet_memory memory[2];
    int64_t n_weight;
    pid_t pids[2];
    cr_assert_eq(children(pids, 2), 2);
    kill(pids[0], SIGSTOP);
    double begin = now_s();
    cr_assert_eq(fleet_ready(fleet, memory, &n_weight), STATUS_PEER);
    cr_assert_gt(now_s() - begin, 0.4);
    cr_assert_lt(now_s() - begin, 3.0);
    check_reason((const char *const[]){"worker 0", "was silent for", "while it made itself ready", "heartbeat_timeout", NULL});
    check_nothing_left();
    fleet_close(fleet);
}

static volatile sig_atomic_t alarm_rang;

static void alarm_note(int signal)
{
    alarm_rang = signal;
}

Test(fleet, workers_that_only_wait_are_not_taken_for_silent, .timeout = 60)
{
    struct job job = karate(2, 2);
    job.workers.heartbeat_timeout = 0.5;
    struct fleet *fleet;
    struct fleet_memory memory[2];
    int64_t n_weight;
    cr_assert_eq(fleet_open(&job, &alarm_rang, &fleet), STATUS_OK, "%s", status_reason());
    signal(SIGALRM, alarm_note);
    alarm(2); /* four times the timeout */
    cr_assert_eq(fleet_ready(fleet, memory, &n_weight), STATUS_INTERRUPTED, "%s", status_reason());
    fleet_close(fleet);
    check_nothing_left();
}

Test(fleet, a_worker_that_fails_ends_the_call_with_its_own_words_and_status, .timeout = 60)
{
    struct job job = karate(2, 2);
    struct fleet *fleet = start(&job);
    struct fleet_memory memory[2];
    int64_t n_weight;
    uint8_t rubbish[200] = {1};
    cr_assert_eq(fleet_place(fleet, 2, (const int32_t[]){0, 1}), STATUS_OK);
    cr_assert_eq(fleet_ship(fleet, 1, rubbish, sizeof rubbish), STATUS_OK, "%s", status_reason());
    cr_assert_eq(fleet_ready(fleet, memory, &n_weight), STATUS_DATA);
    check_reason((const char *const[]){"worker 1 (pid ", "failed while it made itself ready: ", NULL});
    check_nothing_left();
    fleet_close(fleet);
}

Test(fleet, workers_end_when_their_coordinator_is_killed, .timeout = 60)
{
    int words[2];
    cr_assert_eq(pipe(words), 0);
    pid_t coordinator = fork();
    if (coordinator == 0) {
        struct job job = karate(2, 2);
        struct fleet *fleet;
        pid_t pids[2];
        if (fleet_open(&job, NULL, &fleet) != STATUS_OK || children(pids, 2) != 2 ||
            write(words[1], pids, sizeof pids) != sizeof pids) {
            _exit(1);
        }
        for (;;) {
            pause();
        }
    }
    pid_t pids[2];
    cr_assert_eq(read(words[0], pids, sizeof pids), (ssize_t)sizeof pids);
    kill(coordinator, SIGKILL);
    cr_assert_eq(waitpid(coordinator, NULL, 0), coordinator);
    int n_alive = 2;
    for (int i = 0; i < 200 && n_alive > 0; i++) {
        poll(NULL, 0, 10);
        n_alive = 0;
        for (int k = 0; k < 2; k++) {
            char path[64], state[512] = "";
            snprintf(path, sizeof path, "/proc/%d/stat", pids[k]);
            FILE *file = fopen(path, "r");
            if (file != NULL) {
                const char *line = fgets(state, sizeof state, file);
                const char *end = line == NULL ? NULL : strrchr(state, ')');
                n_alive += end != NULL && end[2] != 'Z'; /* one that init has not reaped yet is dead all the same */
                fclose(file);
            }
        }
    }
    cr_assert_eq(n_alive, 0);
}

Test(fleet, a_stop_signal_ends_the_wait_for_workers, .timeout = 30)
{
    struct job job = karate(1, 1);
    volatile sig_atomic_t stop = SIGTERM;
    struct fleet *fleet;
    cr_assert_eq(fleet_open(&job, &stop, &fleet), STATUS_INTERRUPTED);
    check_reason((const char *const[]){"signal 15", NULL});
    check_nothing_left();
}

/* --- workers started by hand, and strangers --- */

static char token_path[128];

static struct job manual(int n_worker, int *port_out)
{
    struct job job = karate(n_worker, n_worker);
    int probe = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof where;
    cr_assert_eq(bind(probe, (struct sockaddr *)&where, n), 0);
    cr_assert_eq(getsockname(probe, (struct sockaddr *)&where, &n), 0);
    close(probe);
    *port_out = ntohs(where.sin_port);
    job.workers.launcher = JOB_LAUNCHER_MANUAL;
    snprintf(job.workers.listen, sizeof job.workers.listen, "127.0.0.1:%d", *port_out);
    snprintf(token_path, sizeof token_path, "/tmp/fleet-token-%d", getpid());
    strcpy(job.workers.token_file, token_path);
    unlink(token_path);
    return job;
}

static int stranger(int port)
{
    struct sockaddr_in where = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    for (int i = 0; i < 500; i++) {
        int file = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(file, (struct sockaddr *)&where, sizeof where) == 0) {
            return file;
        }
        close(file);
        poll(NULL, 0, 10);
    }
    _exit(90);
}

static void worker_exec(int port)
{
    char path[4096], join[32];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 20);
    path[n] = '\0';
    strcpy(strrchr(path, '/') + 1, "trainer-worker");
    snprintf(join, sizeof join, "127.0.0.1:%d", port);
    execl(path, path, "--join", join, "--token-file", token_path, (char *)NULL);
    _exit(91);
}

/* Read to the end of the stream: true when it comes. */
static bool is_closed(int file)
{
    char bytes[512];
    ssize_t n = 1;
    while (n > 0) {
        n = recv(file, bytes, sizeof bytes, 0);
    }
    return n == 0 || errno == ECONNRESET;
}

static void send_all(int file, const void *bytes, size_t n)
{
    if (send(file, bytes, n, MSG_NOSIGNAL) != (ssize_t)n) {
        _exit(92);
    }
}

/* Everything a stranger may try; each connection must be closed by the other side. Then a good worker comes. */
static void strangers_run(int port)
{
    int garbage = stranger(port), huge = stranger(port), wrong = stranger(port), early = stranger(port), old = stranger(port);
    send_all(garbage, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
    send_all(huge, "\xff\xff\xff\xff\x01\x00", 6);

    size_t n;
    struct message_hello hello = {.version = MESSAGE_VERSION,
                                  .token = message_text("0000000000000000000000000000000000000000000000000000000000000000"),
                                  .host = message_text("nowhere")};
    void *frame = control_frame_hello(&hello, &n);
    send_all(wrong, frame, n);
    free(frame);
    struct message_heartbeat beat = {.epoch = 1};
    frame = control_frame_heartbeat(&beat, &n);
    send_all(early, frame, n);
    free(frame);
    hello.version = MESSAGE_VERSION + 1;
    frame = control_frame_hello(&hello, &n);
    send_all(old, frame, n);
    free(frame);

    double begin = now_s();
    int silent[200]; /* more than may wait: the oldest go at once, the rest stays silent for ever */
    for (int i = 0; i < 200; i++) {
        silent[i] = stranger(port);
    }
    if (!is_closed(garbage) || !is_closed(huge) || !is_closed(wrong) || !is_closed(early) || !is_closed(old) ||
        !is_closed(silent[0]) || now_s() - begin > 4) {
        _exit(93);
    }
    worker_exec(port);
}

Test(fleet, strangers_with_garbage_or_silence_keep_no_worker_out, .timeout = 60)
{
    int port;
    struct job job = manual(1, &port);
    pid_t pid = fork();
    if (pid == 0) {
        freopen("/dev/null", "w", stderr);
        strangers_run(port);
    }
    struct fleet *fleet;
    cr_assert_eq(fleet_open(&job, NULL, &fleet), STATUS_OK, "%s", status_reason());
    struct stat about;
    cr_assert_eq(stat(token_path, &about), 0);
    cr_assert_eq(about.st_mode & 0777, 0600u);
    fleet_close(fleet);
    int state;
    cr_assert_eq(waitpid(pid, &state, 0), pid);
    cr_assert(WIFEXITED(state) && WEXITSTATUS(state) == 0, "the worker's end: %d", state);
    unlink(token_path);
}

/* A worker's hello with its job's token, from a process that then stops for ever. */
static _Noreturn void mute_run(int port)
{
    const struct transport_events events = {0};
    struct transport *transport;
    char secret[256] = "";
    size_t n, n_address;
    int file = stranger(port); /* the coordinator has made its token file */
    FILE *from = fopen(token_path, "r");
    if (from == NULL || fgets(secret, sizeof secret, from) == NULL ||
        transport_open(0, 0, 0, 4, &events, &transport) != STATUS_OK) {
        _exit(94);
    }
    secret[strcspn(secret, "\n")] = '\0';
    const void *address = transport_address(transport, &n_address);
    struct message_hello hello = {.version = MESSAGE_VERSION,
                                  .token = message_text(secret),
                                  .host = message_text("nowhere"),
                                  .pid = (uint32_t)getpid(),
                                  .address = {address, (uint32_t)n_address}};
    void *frame = control_frame_hello(&hello, &n);
    send_all(file, frame, n);
    free(frame);
    _exit(is_closed(file) ? 0 : 93);
}

Test(fleet, a_worker_that_joins_and_says_no_more_is_not_waited_for, .timeout = 30)
{
    int port;
    struct job job = manual(1, &port);
    job.workers.heartbeat_timeout = 0.5;
    pid_t pid = fork();
    if (pid == 0) {
        mute_run(port);
    }
    struct fleet *fleet;
    double begin = now_s();
    cr_assert_eq(fleet_open(&job, NULL, &fleet), STATUS_PEER);
    cr_assert_lt(now_s() - begin, 4);
    check_reason((const char *const[]){"worker 0 (pid ", " on nowhere) was silent for ", "while it was connected", NULL});
    int state;
    cr_assert_eq(waitpid(pid, &state, 0), pid);
    cr_assert(WIFEXITED(state) && WEXITSTATUS(state) == 0, "%d", state);
    unlink(token_path);
}

Test(fleet, too_few_workers_end_the_wait_with_their_number, .timeout = 30)
{
    int port;
    struct job job = manual(2, &port);
    job.workers.join_timeout = 1;
    struct fleet *fleet;
    cr_assert_eq(fleet_open(&job, NULL, &fleet), STATUS_PEER);
    check_reason((const char *const[]){"0 of 2 workers joined within 1 s", NULL});
    unlink(token_path);
}

Test(fleet, a_token_file_that_others_can_read_is_refused, .timeout = 30)
{
    int port;
    struct job job = manual(1, &port);
    FILE *file = fopen(token_path, "w");
    fputs("0123456789abcdef0123456789abcdef\n", file);
    fclose(file);
    chmod(token_path, 0644);
    struct fleet *fleet;
    cr_assert_eq(fleet_open(&job, NULL, &fleet), STATUS_CREATE);
    check_reason((const char *const[]){token_path, "mode 0644", "expected 0600", NULL});
    unlink(token_path);
}

Test(fleet, a_worker_with_the_wrong_token_is_told_so, .timeout = 60)
{
    int port;
    struct job job = manual(1, &port);
    job.workers.join_timeout = 2;
    int words[2];
    cr_assert_eq(pipe(words), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(stranger(port)); /* the coordinator has made its token file */
        snprintf(token_path, sizeof token_path, "/tmp/fleet-wrong-%d", getpid());
        FILE *file = fopen(token_path, "w");
        fputs("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n", file);
        fclose(file);
        dup2(words[1], STDERR_FILENO);
        worker_exec(port);
    }
    struct fleet *fleet;
    cr_assert_eq(fleet_open(&job, NULL, &fleet), STATUS_PEER);
    int state;
    cr_assert_eq(waitpid(pid, &state, 0), pid);
    cr_assert_eq(WEXITSTATUS(state), status_exit_code(STATUS_PEER));
    char said[512] = "";
    cr_assert_gt(read(words[0], said, sizeof said - 1), 0);
    cr_assert(strstr(said, "the token is not this job's") != NULL, "%s", said);
    unlink(token_path);
    snprintf(token_path, sizeof token_path, "/tmp/fleet-wrong-%d", pid);
    unlink(token_path);
}
