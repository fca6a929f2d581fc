/* trainer-coordinator: arguments in, exit code out. */
#include "partition/files/mapped.h"
#include "protocol/base/fault.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/base/program.h"
#include "protocol/base/version.h"
#include "protocol/transport/transport.h"
#include "trainerd/base/fields.h"
#include "trainerd/coordinator/coordinator.h"
#include "trainerd/coordinator/epochs/interrupt.h"
#include "trainerd/coordinator/folder/events.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static const char help_text[] =
    "usage: trainer-coordinator --config FILE [--set SECTION.KEY=VALUE ...] [--resume]\n"
    "       trainer-coordinator --config FILE --plan [--steps] [--roofline [--device FILE]] [--program]\n"
    "                           [--json] [--set ...]\n"
    "\n"
    "Runs one job: loads the graph, partitions it, starts the workers, trains, writes the results.\n"
    "Started by trainerd; may be started by hand.\n"
    "\n"
    "  --config FILE    the job file; - is standard input, which has to be a file\n"
    "  --set KEY=VALUE  set one key of the job: --set train.epochs=10\n"
    "  --resume         continue from the newest checkpoint of the job's runs\n"
    "  --plan           print memory, traffic and partition quality without training\n"
    "  --steps          the plan with every step of an epoch: rows, bytes alive, bytes received, and the peak\n"
    "  --roofline       the plan with every step's arithmetic, bytes and least time on a device\n"
    "  --device FILE    its numbers (configs/devices); without it those of a cpu\n"
    "  --program        the plan with what each pass of the compiler makes of the model's text\n"
    "  --json           the plan as JSON on standard output\n"
    "  --plan-most N    end with what planning takes, should that be more than N bytes\n"
    "  --parent PID     stop as if interrupted when this parent process is gone\n"
    "  --job-folder DIR lock it, and write events.jsonl and the workers' logs there, for a supervisor\n"
    "  --job-files TEXT of a supervisor that owns that folder: the most bytes of each file, and those descriptors\n"
    "                   that this program inherits\n"
    "  --attempt N      the number of this attempt at the job, from 1\n"
    "  --wait           wait while another attempt of the job has the lock\n"
    "  --memo FD        of trainerd: a file in memory that coordinators of a job leave to the next, should they die\n"
    "  --version, --help, -h\n";

/* All options: their names, and whether they have a value. */
#define OPTION_LIST(X)                                                                                               \
    X(CONFIG, "config", required_argument)                                                                           \
    X(SET, "set", required_argument)                                                                                 \
    X(RESUME, "resume", no_argument)                                                                                 \
    X(PLAN, "plan", no_argument)                                                                                     \
    X(STEPS, "steps", no_argument)                                                                                   \
    X(ROOFLINE, "roofline", no_argument)                                                                             \
    X(DEVICE, "device", required_argument)                                                                           \
    X(PROGRAM, "program", no_argument)                                                                               \
    X(JSON, "json", no_argument)                                                                                     \
    X(PLAN_MOST, "plan-most", required_argument)                                                                     \
    X(PARENT, "parent", required_argument)                                                                           \
    X(FOLDER, "job-folder", required_argument)                                                                       \
    X(FILES, "job-files", required_argument)                                                                         \
    X(ATTEMPT, "attempt", required_argument)                                                                         \
    X(WAIT, "wait", no_argument)                                                                                     \
    X(MEMO, "memo", required_argument)                                                                               \
    X(VERSION, "version", no_argument)

/* getopt's numbers of them */
enum {
    OPTION_HELP = 'h',
    OPTION_BEGIN = 127,
#define X(option, name, value) OPTION_##option,
    OPTION_LIST(X)
#undef X
        OPTION_END
};

static const struct option options[] = {
#define X(option, name, value) {name, value, NULL, OPTION_##option},
    OPTION_LIST(X)
#undef X
        {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0}};

/* A parent that is killed forwards no signal. */
static void follow_parent(const char *pid)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != atoi(pid)) {
        raise(SIGTERM);
    }
}

static enum status read_number(int option, const char *text, struct coordinator_options *out)
{
    bool is_attempt = option == OPTION_ATTEMPT;
    const int64_t most = is_attempt ? UINT32_MAX : INT64_MAX;
    const char *end = text;
    int64_t number = digits_read(&end, most);
    if (number < 1 || *end != '\0') {
        return status_fail(STATUS_USAGE, "%s is '%s', expected a number from 1 to %lld",
                           is_attempt ? "--attempt" : "--plan-most", text, (long long)most);
    }
    out->attempt = is_attempt ? (uint32_t)number : out->attempt;
    out->plan_most = is_attempt ? out->plan_most : number;
    return STATUS_OK;
}

static enum status check_arguments(int argc, char **argv, const struct coordinator_options *request)
{
    if (optind < argc) {
        return status_fail(STATUS_USAGE, "unexpected argument '%s'; see trainer-coordinator --help", argv[optind]);
    }
    if (request->config == NULL) {
        return status_fail(STATUS_USAGE, "no job file is given; expected --config FILE");
    }
    bool plan = request->plan, folder = request->folder != NULL;
    const struct {
        bool fails;
        const char *text;
    } rules[] = {{request->json && !plan, "--json goes with --plan"},
                 {request->plan_most > 0 && !plan, "--plan-most goes with --plan"},
                 {request->steps && !plan, "--steps goes with --plan"},
                 {request->program && !plan, "--program goes with --plan"},
                 {request->roofline && !plan, "--roofline goes with --plan"},
                 {request->device != NULL && !request->roofline, "--device goes with --roofline"},
                 {request->waits && !folder, "--wait goes with --job-folder"},
                 {folder != (request->attempt != 0), "--job-folder and --attempt go together"},
                 {request->files != NULL && !folder, "--job-files goes with --job-folder"}};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].fails) {
            return status_fail(STATUS_USAGE, "%s; see trainer-coordinator --help", rules[i].text);
        }
    }
    return STATUS_OK;
}

/* Parse the arguments; `is_done` after --version and --help, which are printed. */
static enum status read_arguments(int argc, char **argv, const char **set, struct job_files *files,
                                  struct coordinator_options *out, bool *is_done)
{
    bool *const flags[OPTION_END] = {
        [OPTION_RESUME] = &out->resume,     [OPTION_PLAN] = &out->plan, [OPTION_STEPS] = &out->steps,
        [OPTION_PROGRAM] = &out->program,   [OPTION_JSON] = &out->json, [OPTION_WAIT] = &out->waits,
        [OPTION_ROOFLINE] = &out->roofline,
    };
    enum status status = STATUS_OK;
    *out = (struct coordinator_options){.set = set};
    opterr = 0;
    while (status == STATUS_OK) {
        /* optind is the argument that getopt_long reads next: the one it fails on. */
        int at = optind, option = getopt_long(argc, argv, "+:h", options, NULL);
        if (option > OPTION_BEGIN && flags[option] != NULL) {
            *flags[option] = true;
            continue;
        }
        switch (option) {
        case -1:
            return check_arguments(argc, argv, out);
        case OPTION_CONFIG:
            out->config = optarg;
            break;
        case OPTION_SET:
            set[out->n_set++] = optarg;
            break;
        case OPTION_DEVICE:
            out->device = optarg;
            break;
        case OPTION_PARENT:
            follow_parent(optarg);
            break;
        case OPTION_FOLDER:
            out->folder = optarg;
            break;
        case OPTION_FILES:
            out->files = files;
            status = job_files_read(optarg, files);
            break;
        case OPTION_MEMO:
            status = restart_memo_take(atoi(optarg), &out->memo);
            break;
        case OPTION_PLAN_MOST:
        case OPTION_ATTEMPT:
            status = read_number(option, optarg, out);
            break;
        case OPTION_VERSION:
        case OPTION_HELP:
            fputs(option == OPTION_HELP ? help_text : "trainer-coordinator " TRAINERD_VERSION "\n", stdout);
            *is_done = true;
            return STATUS_OK;
        case ':':
            return status_fail(STATUS_USAGE, "%s needs a value; see trainer-coordinator --help", argv[at]);
        default:
            return status_fail(STATUS_USAGE, "unknown option '%s'; see trainer-coordinator --help", argv[at]);
        }
    }
    return status;
}

static void data_lost(enum status status)
{
    fprintf(stderr, "trainerd: %s\n", status_reason());
    events_end_open(status);
}

int main(int argc, char **argv)
{
    program_begin();
    transport_calm();
    mapped_install(data_lost);
    log_init("coordinator", -1, LOG_LEVEL_WARN);
    interrupt_install(events_end_at_once);
    struct coordinator_options request;
    struct job_files files;
    bool is_done = false;
    const char **set = memory_alloc((size_t)argc, sizeof *set);
    enum status status = read_arguments(argc, argv, set, &files, &request, &is_done);
    status = status == STATUS_OK ? fault_arm("coordinator", request.attempt) : status;
    if (request.folder != NULL) { /* a supervisor's has the job's number as its name */
        log_job(basename(request.folder), request.attempt);
    }
    if (status == STATUS_OK && !is_done) {
        status = coordinator_run(&request);
    }
    free(set);
    if (status != STATUS_OK) {
        status_print("trainerd");
    }
    return status_exit_code(status);
}
