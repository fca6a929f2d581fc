/* The command line of trainer-worker: one process, one device, one job. */
#include "models/cuda/module.h"
#include "models/device/device.h"
#include "protocol/base/log.h"
#include "protocol/base/program.h"
#include "protocol/base/status.h"
#include "protocol/base/version.h"
#include "protocol/transport/transport.h"
#include "worker/session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOKEN_BYTES 256

/* Larger blocks go back to the system when they are freed. glibc would raise this bound by the blocks that it sees
 * freed, and keep others of that size: memory that no plan knows. oneDNN packs what it multiplies in blocks of half a
 * megabyte, for each product, which stay with their thread. */
#define MALLOC_BLOCK_BYTES (1 << 20)
#define MALLOC_KEPT_BYTES (2 * MALLOC_BLOCK_BYTES)

static const char help_text[] =
    "usage: trainer-worker --join HOST:PORT (--token-file FILE | --token-fd N) [--join-timeout SECONDS]\n"
    "                      [--host NAME] [--rank N | --slurm]\n"
    "\n"
    "  --join HOST:PORT        the coordinator's control socket, as it prints it (workers.launcher = \"manual\")\n"
    "  --token-file FILE       file with the job's token\n"
    "  --token-fd N            open descriptor to read the token from; the worker then ends with its starter, and\n"
    "                          writes why to it, where it is a socket\n"
    "  --join-timeout SECONDS  how long to try to reach the coordinator (60)\n"
    "  --host NAME             the machine's name, at most 63 bytes (its host name), the same for all of its "
    "workers\n"
    "  --rank N                the rank to have in the job, from 0 (any that is free)\n"
    "  --slurm                 this is a task of Slurm: rank SLURM_PROCID, machine SLURMD_NODENAME; TERM, INT and\n"
    "                          USR1 are passed on to the coordinator, which saves a checkpoint\n"
    "  --gpus [--json]         print the GPUs that workers of this machine can use, and a letter for each that says\n"
    "                          how others read its memory: by NVLink (N), PCI Express (P), or not (-)\n"
    "  --version, --help, -h\n"
    "\n"
    "Trains what the coordinator sends, and writes no files. Exit codes as trainerd's.\n";

enum {
    OPTION_JOIN = 'j',
    OPTION_FILE = 'f',
    OPTION_FD = 'd',
    OPTION_TIMEOUT = 't',
    OPTION_HOST = 'n',
    OPTION_RANK = 'k',
    OPTION_SLURM = 's',
    OPTION_GPUS = 'g',
    OPTION_JSON = 'm',
    OPTION_VERSION = 'v',
    OPTION_HELP = 'h'
};

static const struct option options[] = {
    {"join", required_argument, NULL, OPTION_JOIN},   {"token-file", required_argument, NULL, OPTION_FILE},
    {"token-fd", required_argument, NULL, OPTION_FD}, {"join-timeout", required_argument, NULL, OPTION_TIMEOUT},
    {"host", required_argument, NULL, OPTION_HOST},   {"rank", required_argument, NULL, OPTION_RANK},
    {"slurm", no_argument, NULL, OPTION_SLURM},       {"gpus", no_argument, NULL, OPTION_GPUS},
    {"json", no_argument, NULL, OPTION_JSON},         {"version", no_argument, NULL, OPTION_VERSION},
    {"help", no_argument, NULL, OPTION_HELP},         {NULL, 0, NULL, 0}};

struct request {
    const char *join, *token_file, *host;
    int token_fd;  /* -1: none */
    uint32_t rank; /* SESSION_ANY_RANK: any */
    bool is_slurm, has_gpus;
    double join_timeout_s;
    bool prints; /* --help or --version was printed */
    bool lists_gpus, json;
};

static enum status number_read(const char *name, const char *text, double least, double most, double *out)
{
    char *end;
    *out = strtod(text, &end);
    if (end == text || *end != '\0' || !(*out >= least && *out <= most)) {
        return status_fail(STATUS_USAGE, "%s is '%s', expected a number from %g to %g", name, text, least, most);
    }
    return STATUS_OK;
}

static enum status rank_read(const char *name, const char *text, uint32_t *out)
{
    double number;
    enum status status = number_read(name, text, 0, SESSION_RANK_MOST, &number);
    *out = status == STATUS_OK ? (uint32_t)number : 0;
    return status == STATUS_OK && number != (double)*out
               ? status_fail(STATUS_USAGE, "%s is '%s', expected a whole number from 0 to %d", name, text,
                             SESSION_RANK_MOST)
               : status;
}

static json_t *gpu_json(const struct cuda_gpu *gpu)
{
    char capability[32];
    snprintf(capability, sizeof capability, "%d.%d", (int)gpu->major, (int)gpu->minor);
    return json_pack("{s:i, s:i, s:s, s:s, s:s, s:I, s:o, s:s?, s:s, s:o}", "gpu", (int)gpu->number, "ordinal",
                     (int)gpu->ordinal, "uuid", gpu->uuid, "name", gpu->name, "compute_capability", capability,
                     "memory", (json_int_t)gpu->n_bytes, "numa_node",
                     gpu->node >= 0 ? json_integer(gpu->node) : json_null(), "network",
                     gpu->network[0] != '\0' ? gpu->network : NULL, "links", gpu->links, "memory_used",
                     gpu->n_used >= 0 ? json_integer((json_int_t)gpu->n_used) : json_null());
}

static void gpus_print_json(const struct cuda_gpu *gpu, int n, const char *error)
{
    json_t *all = json_pack("{s:[]}", "gpus");
    for (int i = 0; i < n; i++) {
        json_array_append_new(json_object_get(all, "gpus"), gpu_json(&gpu[i]));
    }
    if (error != NULL) {
        json_object_set_new(all, "error", json_string(error));
    }
    json_dumpf(all, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(all);
}

/* The reason goes to standard output, too: a program that asks reads one stream. */
static enum status gpus_print(bool json)
{
    struct cuda_gpu gpu[CUDA_GPUS_MOST];
    int n = 0;
    enum status status = cuda_module_gpus(gpu, &n);
    if (json) {
        gpus_print_json(gpu, n, status != STATUS_OK ? status_reason() : NULL);
    } else if (status != STATUS_OK) {
        puts(status_reason());
    }
    for (int i = 0; i < n && !json; i++) {
        printf("%d: %s, %.1f GiB, compute capability %d.%d\n", (int)gpu[i].number, gpu[i].name,
               (double)gpu[i].n_bytes / (1024.0 * 1024.0 * 1024.0), (int)gpu[i].major, (int)gpu[i].minor);
        printf("%d: links %s, NUMA node %d, network %s\n", (int)gpu[i].number, gpu[i].links, gpu[i].node,
               gpu[i].network[0] != '\0' ? gpu[i].network : "not known");
    }
    fflush(stdout);
    return status;
}

static enum status option_read(struct request *request, int option)
{
    double number;
    enum status status;
    switch (option) {
    case OPTION_JOIN:
        request->join = optarg;
        return STATUS_OK;
    case OPTION_FILE:
        request->token_file = optarg;
        return STATUS_OK;
    case OPTION_FD:
        status = number_read("--token-fd", optarg, 0, 65535, &number);
        request->token_fd = (int)number;
        return status;
    case OPTION_TIMEOUT:
        return number_read("--join-timeout", optarg, 0, 86400, &request->join_timeout_s);
    case OPTION_RANK:
        return rank_read("--rank", optarg, &request->rank);
    case OPTION_SLURM:
        request->is_slurm = true;
        return STATUS_OK;
    case OPTION_HOST:
        request->host = optarg;
        return optarg[0] != '\0' && strlen(optarg) < 64
                   ? STATUS_OK
                   : status_fail(STATUS_USAGE, "--host is '%s', expected a name of 1 to 63 bytes", optarg);
    case OPTION_GPUS:
        request->lists_gpus = true;
        return STATUS_OK;
    case OPTION_JSON:
        request->json = true;
        return STATUS_OK;
    case OPTION_VERSION:
        printf("trainer-worker " TRAINERD_VERSION "\n%s\n", transport_library());
        request->prints = true;
        return STATUS_OK;
    default:
        fputs(help_text, stdout);
        request->prints = true;
        return STATUS_OK;
    }
}

/* What Slurm's environment says of this task. */
static enum status slurm_apply(struct request *request)
{
    const char *task = getenv("SLURM_PROCID"), *node = getenv("SLURMD_NODENAME"),
               *gpus = getenv("SLURM_GPUS_PER_TASK");
    if (request->rank != SESSION_ANY_RANK) {
        return status_fail(STATUS_USAGE, "--rank and --slurm do not go together; see trainer-worker --help");
    }
    if (task == NULL) {
        return status_fail(STATUS_USAGE,
                           "--slurm is for tasks of Slurm, and there is no SLURM_PROCID in the environment");
    }
    request->has_gpus = gpus != NULL && gpus[0] != '\0' && strcmp(gpus, "0") != 0;
    if (request->host == NULL && node != NULL && node[0] != '\0' && strlen(node) < 64) {
        request->host = node;
    }
    return rank_read("SLURM_PROCID", task, &request->rank);
}

static enum status arguments_read(int argc, char **argv, struct request *request)
{
    opterr = 0;
    for (;;) {
        int at = optind, option = getopt_long(argc, argv, "+:h", options, NULL);
        if (option == -1) {
            break;
        }
        if (option == ':' || option == '?') {
            return status_fail(STATUS_USAGE,
                               option == ':' ? "%s needs a value; see trainer-worker --help"
                                             : "unknown option '%s'; see trainer-worker --help",
                               argv[at]);
        }
        enum status status = option_read(request, option);
        if (status != STATUS_OK || request->prints) {
            return status;
        }
    }
    if (optind < argc) {
        return status_fail(STATUS_USAGE, "unexpected argument '%s'; see trainer-worker --help", argv[optind]);
    }
    if (request->json && !request->lists_gpus) {
        return status_fail(STATUS_USAGE, "--json goes with --gpus; see trainer-worker --help");
    }
    if (request->lists_gpus) {
        request->prints = true;
        return gpus_print(request->json);
    }
    if (request->join == NULL || (request->token_file == NULL) == (request->token_fd < 0)) {
        return status_fail(STATUS_USAGE, "expected --join HOST:PORT and one of --token-file and --token-fd; see "
                                         "trainer-worker --help");
    }
    return request->is_slurm ? slurm_apply(request) : STATUS_OK;
}

/* As the coordinator: whoever can read the token can be a worker of the job. */
static enum status token_open(const char *path, int *file_out)
{
    struct stat about;
    *file_out = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*file_out < 0 || fstat(*file_out, &about) != 0) {
        return status_fail(STATUS_NO_INPUT, "cannot read the token file '%s': %s", path, strerror(errno));
    }
    if (!S_ISREG(about.st_mode)) {
        return status_fail(STATUS_NO_INPUT, "the token file '%s' is not a file", path);
    }
    if ((about.st_mode & 077) != 0) {
        return status_fail(STATUS_NO_INPUT,
                           "the token file '%s' has mode %04o, which lets others read it, expected 0600", path,
                           (unsigned)(about.st_mode & 07777));
    }
    return STATUS_OK;
}

/* The first word of the file, or of what the descriptor gives, which stays open for last words. */
static enum status token_read(const struct request *request, char token[TOKEN_BYTES])
{
    int file = request->token_fd;
    enum status status = request->token_file != NULL ? token_open(request->token_file, &file) : STATUS_OK;
    if (status != STATUS_OK) {
        return status;
    }
    size_t n_token = 0;
    ssize_t n = 1;
    while (n > 0 && n_token < TOKEN_BYTES - 1) {
        n = read(file, token + n_token, TOKEN_BYTES - 1 - n_token);
        n_token += n > 0 ? (size_t)n : 0;
    }
    if (request->token_file != NULL) {
        close(file);
    }
    token[n_token] = '\0';
    token[strcspn(token, " \t\r\n")] = '\0';
    if (n < 0 || token[0] == '\0') {
        return status_fail(STATUS_NO_INPUT, "there is no token in %s",
                           request->token_file != NULL ? request->token_file : "the descriptor of --token-fd");
    }
    return STATUS_OK;
}

/* A child of the coordinator lives and dies with it: a terminal's Ctrl-C, or a service manager's TERM to all of a
 * job's processes, is the coordinator's to answer, which may want a checkpoint first. */
static void signals_settle(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
}

/* A descriptor from which the signals are read that Slurm sends to tasks; -1: not available, and they are
 * ignored. */
static int signals_open(void)
{
    sigset_t passed_on;
    sigemptyset(&passed_on);
    sigaddset(&passed_on, SIGTERM);
    sigaddset(&passed_on, SIGINT);
    sigaddset(&passed_on, SIGUSR1);
    sigprocmask(SIG_BLOCK, &passed_on, NULL); /* before there are threads, which inherit it */
    return signalfd(-1, &passed_on, SFD_CLOEXEC | SFD_NONBLOCK);
}

int main(int argc, char **argv)
{
    program_begin();
    mallopt(M_MMAP_THRESHOLD, MALLOC_BLOCK_BYTES);
    mallopt(M_TRIM_THRESHOLD, MALLOC_KEPT_BYTES);
    signal(SIGPIPE, SIG_IGN); /* a worker does not end because its warnings have no reader */
    struct request request = {.token_fd = -1, .join_timeout_s = 60, .rank = SESSION_ANY_RANK};
    char token[TOKEN_BYTES];
    log_init("trainer-worker", -1, LOG_LEVEL_WARN);
    enum status status = arguments_read(argc, argv, &request);
    if (status == STATUS_OK && request.prints) {
        return 0;
    }
    if (status == STATUS_OK && request.token_fd >= 0) {
        signals_settle();
    }
    if (status == STATUS_OK) {
        status = token_read(&request, token);
    }
    if (status == STATUS_OK) {
        struct session_setup setup = {
            .join = request.join,
            .token = token,
            .host = request.host,
            .rank = request.rank,
            .has_gpus = request.has_gpus,
            .signals = request.is_slurm ? signals_open() : -1,
            .join_timeout_s = request.join_timeout_s,
            .talks = request.token_file != NULL,
        };
        status = session_run(&setup);
        if (status == STATUS_OK) {
            return 0;
        }
        if (!setup.talks) { /* the coordinator was told, or is here, and tells the user */
            send(request.token_fd, status_reason(), strlen(status_reason()), MSG_NOSIGNAL | MSG_DONTWAIT);
            _exit(status_exit_code(status));
        }
    }
    fprintf(stderr, "trainer-worker: %s\n", status_reason());
    _exit(status_exit_code(status)); /* the heartbeat thread may still run */
}
