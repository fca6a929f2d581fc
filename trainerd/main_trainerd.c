/* The command line of trainerd. A job runs in the coordinator, another process. */
#include "protocol/base/memory.h"
#include "protocol/base/program.h"
#include "protocol/base/status.h"
#include "protocol/base/version.h"
#include "protocol/job/job.h"
#include "trainerd/base/restart.h"
#include "trainerd/base/texts.h"
#include "trainerd/daemon/daemon.h"
#include "trainerd/daemon/daemon_config.h"
#include "trainerd/daemon/errors.h"
#include "trainerd/launch.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char help_text[] =
    "usage: trainerd [--config] FILE [--set SECTION.KEY=VALUE ...] [--resume]\n"
    "       trainerd --predict MODEL --config FILE [--set ...]\n"
    "       trainerd --check FILE [--set ...]\n"
    "       trainerd --plan FILE [--predict MODEL] [--steps] [--roofline [--device FILE]] [--program]\n"
    "                [--json] [--set ...]\n"
    "       trainerd --listen ADDRESS [--state FOLDER] [--daemon-config FILE] [--set KEY=VALUE ...]\n"
    "       trainerd --restore FILE | --repair [--state FOLDER] [--daemon-config FILE] [--json]\n"
    "       trainerd --fingerprint [--state FOLDER] [--daemon-config FILE] [--json]\n"
    "       trainerd --describe-config [--markdown]\n"
    "       trainerd --describe-daemon | --describe-errors\n"
    "\n"
    "  --config FILE      run the job to its end: partition, train, write metrics and the model\n"
    "  --predict MODEL    use a trained model instead of training one: MODEL is the folder of a training's results,\n"
    "                     or its best.safetensors or model.safetensors, or a .safetensors file of another program,\n"
    "                     whose layers [model] describes; writes predictions.npy and logits.npy (docs/predict.md)\n"
    "  --check FILE       check the job file only\n"
    "  --plan FILE        print memory, traffic and partition quality without training\n"
    "  --set KEY=VALUE    set one key of the job: --set train.epochs=10 --set name=x\n"
    "  --resume           continue from the newest checkpoint of the job's runs\n"
    "  --steps            the plan with every step of an epoch: rows, bytes alive, bytes received, and the peak\n"
    "  --roofline         the plan with every step's arithmetic, bytes and least time on a device\n"
    "  --device FILE      its numbers (configs/devices); without it those of a cpu\n"
    "  --program          the plan with what each pass of the compiler makes of the model's text\n"
    "  --json             the plan, the fingerprint or the restored records, as JSON on standard output\n"
    "  --listen ADDRESS   the daemon: accept jobs over unix:PATH or tcp:HOST:PORT, and run them (trainctl --help)\n"
    "  --state FOLDER     the daemon's folder of jobs\n"
    "  --daemon-config FILE  the daemon's configuration; without --listen it has the address\n"
    "  --restore FILE     replace the daemon's records by a backup (trainctl backup), while it is stopped\n"
    "  --repair           rebuild these records from all readable rows\n"
    "  --fingerprint      the fingerprint of the daemon's certificate, by which TCP clients identify it\n"
    "  --describe-config  every key of a job file: meaning, range, default\n"
    "  --describe-daemon  the daemon's configuration with every key at its default\n"
    "  --describe-errors  exit codes, and reasons of jobs, with what to do about each\n"
    "  --markdown         the same as markdown\n"
    "  --version, --help, -h\n"
    "\n"
    "exit codes: 0 done, 1 training failed, 2 usage, 65 bad data, 66 missing input, 69 peer or service unavailable,\n"
    "            70 internal error, 71 out of memory, 73 cannot create output, 74 I/O error,\n"
    "            75 interrupted (checkpoint saved), 78 bad job file\n";

/* All commands and options: their names, and whether they have a value. */
#define ARGUMENT_LIST(X)                                                                                             \
    X(COMMAND_CONFIG, "config", required_argument)                                                                   \
    X(COMMAND_CHECK, "check", required_argument)                                                                     \
    X(COMMAND_PLAN, "plan", required_argument)                                                                       \
    X(COMMAND_DESCRIBE, "describe-config", no_argument)                                                              \
    X(COMMAND_LISTEN, "listen", required_argument)                                                                   \
    X(COMMAND_DESCRIBE_DAEMON, "describe-daemon", no_argument)                                                       \
    X(COMMAND_DESCRIBE_ERRORS, "describe-errors", no_argument)                                                       \
    X(OPTION_STATE, "state", required_argument)                                                                      \
    X(OPTION_DAEMON_CONFIG, "daemon-config", required_argument)                                                      \
    X(COMMAND_RESTORE, "restore", required_argument)                                                                 \
    X(COMMAND_REPAIR, "repair", no_argument)                                                                         \
    X(COMMAND_FINGERPRINT, "fingerprint", no_argument)                                                               \
    X(COMMAND_VERSION, "version", no_argument)                                                                       \
    X(OPTION_SET, "set", required_argument)                                                                          \
    X(OPTION_RESUME, "resume", no_argument)                                                                          \
    X(OPTION_PREDICT, "predict", required_argument)                                                                  \
    X(OPTION_STEPS, "steps", no_argument)                                                                            \
    X(OPTION_ROOFLINE, "roofline", no_argument)                                                                      \
    X(OPTION_DEVICE, "device", required_argument)                                                                    \
    X(OPTION_PROGRAM, "program", no_argument)                                                                        \
    X(OPTION_JSON, "json", no_argument)                                                                              \
    X(OPTION_MARKDOWN, "markdown", no_argument)

/* getopt's numbers of them */
enum argument {
    COMMAND_NONE,
    OPTION_OPERAND = 1, /* of an argument that is no option, for letters that begin with '-' */
    COMMAND_HELP = 'h',
    ARGUMENT_BEGIN = 127,
#define X(argument, name, value) argument,
    ARGUMENT_LIST(X)
#undef X
        ARGUMENT_END
};

static const struct option options[] = {
#define X(argument, name, value) {name, value, NULL, argument},
    ARGUMENT_LIST(X)
#undef X
        {"help", no_argument, NULL, COMMAND_HELP},
    {NULL, 0, NULL, 0}};

/* The parsed command line. */
struct request {
    enum argument command;
    const char *file; /* of the command; --listen: the address */
    const char *state, *daemon_config, *device;
    char *predict;    /* --predict as a setting, the last of set; NULL: none */
    const char **set; /* as long as argv */
    size_t n_set;
    bool resume, steps, roofline, program, json, markdown;
};

static enum status read_predict(struct request *request, const char *model)
{
    if (model[0] == '\0' || request->predict != NULL) {
        return status_fail(STATUS_USAGE,
                           "--predict is %s, expected one folder of a training's results; see trainerd --help",
                           model[0] == '\0' ? "empty" : "given twice");
    }
    request->predict = job_predict_setting(model);
    return STATUS_OK;
}

static enum status read_option(struct request *request, int option)
{
    bool *const flags[ARGUMENT_END] = {
        [OPTION_RESUME] = &request->resume,     [OPTION_STEPS] = &request->steps,
        [OPTION_PROGRAM] = &request->program,   [OPTION_JSON] = &request->json,
        [OPTION_MARKDOWN] = &request->markdown, [OPTION_ROOFLINE] = &request->roofline,
    };
    const char **const texts[ARGUMENT_END] = {
        [OPTION_DEVICE] = &request->device,
        [OPTION_STATE] = &request->state,
        [OPTION_DAEMON_CONFIG] = &request->daemon_config,
    };
    bool is_operand = option == OPTION_OPERAND;
    if (flags[option] != NULL) {
        *flags[option] = true;
    } else if (texts[option] != NULL) {
        *texts[option] = optarg;
    } else if (option == OPTION_SET) {
        request->set[request->n_set++] = optarg;
    } else if (option == OPTION_PREDICT) {
        return read_predict(request, optarg);
    } else if (request->command != COMMAND_NONE && is_operand) {
        return status_fail(STATUS_USAGE, "unexpected argument '%s'; see trainerd --help", optarg);
    } else if (request->command != COMMAND_NONE) {
        return status_fail(STATUS_USAGE, "more than one command is given; see trainerd --help");
    } else {
        request->command = is_operand ? COMMAND_CONFIG : (enum argument)option;
        request->file = optarg;
    }
    return STATUS_OK;
}

/* An option that does not belong to the command is an error. */
static enum status check_request(struct request *request)
{
    if (request->command == COMMAND_NONE && request->daemon_config != NULL) {
        request->command = COMMAND_LISTEN;
    }
    enum argument command = request->command;
    if ((request->steps || request->program || request->roofline) && command != COMMAND_PLAN) {
        return status_fail(STATUS_USAGE, "--%s goes with --plan; see trainerd --help",
                           request->steps     ? "steps"
                           : request->program ? "program"
                                              : "roofline");
    }
    bool takes_job = command == COMMAND_CONFIG || command == COMMAND_CHECK || command == COMMAND_PLAN;
    bool of_state = command == COMMAND_RESTORE || command == COMMAND_REPAIR || command == COMMAND_FINGERPRINT;
    bool listens = command == COMMAND_LISTEN || of_state; /* its settings are the daemon's */
    const char *stray = request->n_set > 0 && !takes_job && !listens            ? "--set"
                        : request->predict != NULL && !takes_job                ? "--predict"
                        : request->state != NULL && !listens                    ? "--state"
                        : request->daemon_config != NULL && !listens            ? "--daemon-config"
                        : request->resume && command != COMMAND_CONFIG          ? "--resume"
                        : request->json && command != COMMAND_PLAN && !of_state ? "--json"
                        : request->device != NULL && !request->roofline         ? "--device"
                        : request->markdown && command != COMMAND_DESCRIBE      ? "--markdown"
                                                                                : NULL;
    if (command == COMMAND_NONE) {
        return status_fail(STATUS_USAGE,
                           "no command is given; expected --config FILE or another, see trainerd --help");
    }
    if (stray != NULL) {
        return status_fail(STATUS_USAGE, "%s does not go with this command; see trainerd --help", stray);
    }
    if (request->predict != NULL) {
        request->set[request->n_set++] = request->predict;
    }
    return STATUS_OK;
}

static enum status read_arguments(int argc, char **argv, struct request *request)
{
    opterr = 0;
    for (;;) {
        /* optind is the argument that getopt_long reads next: the one it fails on. */
        int at = optind, option = getopt_long(argc, argv, "-:h", options, NULL);
        if (option == -1) {
            break;
        }
        if (option == ':') {
            return status_fail(STATUS_USAGE, "%s needs a value; see trainerd --help", argv[at]);
        }
        if (option == '?') {
            return status_fail(STATUS_USAGE, "unknown option '%s'; see trainerd --help", argv[at]);
        }
        enum status status = read_option(request, option);
        if (status != STATUS_OK) {
            return status;
        }
    }
    if (optind < argc) {
        return status_fail(STATUS_USAGE, "unexpected argument '%s'; see trainerd --help", argv[optind]);
    }
    return check_request(request);
}

static enum status check_job(const struct request *request)
{
    struct job *job = memory_alloc(1, sizeof *job);
    enum status status = job_load(request->file, request->set, request->n_set, job);
    if (status == STATUS_OK) {
        fprintf(stderr, "%s%s: valid job file\n", job_remarks(), request->file);
    }
    free(job);
    return status;
}

/* Run the program, and again where it dies, as often as the job allows. Failures that it survives it handles. */
static enum status run_again(char *const argv[], struct restart_memo *memo, int file, int *exit_code_out)
{
    const struct restart_backoff at_once = {0};
    for (;;) {
        bool died = false;
        enum status status = launch_run(argv, file, exit_code_out, &died);
        const struct restart_failure failure = {
            .status = STATUS_PEER, .n_restart = memo->n_restart, .n_restart_most = memo->n_restart_most};
        if (!died || !restart_decide(RESTART_RUNNER_FOREGROUND, &at_once, &failure).restarts) {
            return status;
        }
        memo->n_restart++;
        fprintf(stderr, "lost: %s; restart %lld of %lld\n", status_reason(), (long long)memo->n_restart,
                (long long)memo->n_restart_most);
    }
}

/* Run a coordinator for the job and exit with its exit code. */
static enum status run_coordinator(const struct request *request, int *exit_code_out)
{
    struct restart_memo none = {0}, *memo = &none;
    int file = -1;
    enum status status = request->command == COMMAND_PLAN ? STATUS_OK : restart_memo_make(&memo, &file);
    if (status != STATUS_OK) {
        return status;
    }
    struct texts arguments = {0};
    texts_add(&arguments, "trainer-coordinator");
    texts_add(&arguments, "--parent");
    texts_add(&arguments, "%d", (int)getpid());
    if (file >= 0) {
        texts_add(&arguments, "--memo");
        texts_add(&arguments, "%d", LAUNCH_FILE);
    }
    texts_add(&arguments, "--config");
    texts_add(&arguments, "%s", request->file);
    for (size_t i = 0; i < request->n_set; i++) {
        texts_add(&arguments, "--set");
        texts_add(&arguments, "%s", request->set[i]);
    }
    const struct {
        bool is_given;
        const char *name;
    } flags[] = {{request->resume, "--resume"},         {request->command == COMMAND_PLAN, "--plan"},
                 {request->steps, "--steps"},           {request->roofline, "--roofline"},
                 {request->device != NULL, "--device"}, {request->device != NULL, request->device},
                 {request->program, "--program"},       {request->json, "--json"}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (flags[i].is_given) {
            texts_add(&arguments, "%s", flags[i].name);
        }
    }
    status = run_again(arguments.text, memo, file, exit_code_out);
    texts_free(arguments.text);
    return status;
}

static enum status run(const struct request *request, int *exit_code_out)
{
    struct daemon_options daemon = {
        .state = request->state, .config = request->daemon_config, .set = request->set, .n_set = request->n_set};
    switch (request->command) {
    case COMMAND_CONFIG:
    case COMMAND_PLAN:
        return run_coordinator(request, exit_code_out);
    case COMMAND_CHECK:
        return check_job(request);
    case COMMAND_DESCRIBE:
        job_describe(stdout, request->markdown);
        break;
    case COMMAND_LISTEN:
        daemon.listen = request->file;
        return daemon_run(&daemon);
    case COMMAND_RESTORE:
    case COMMAND_REPAIR:
        return daemon_restore(&daemon, request->file, request->json);
    case COMMAND_FINGERPRINT:
        return daemon_fingerprint(&daemon, request->json);
    case COMMAND_DESCRIBE_DAEMON:
        daemon_config_describe(stdout);
        break;
    case COMMAND_DESCRIBE_ERRORS:
        errors_describe(stdout);
        break;
    case COMMAND_VERSION:
        puts("trainerd " TRAINERD_VERSION);
        break;
    default: /* COMMAND_HELP */
        fputs(help_text, stdout);
        break;
    }
    return fflush(stdout) == 0 ? STATUS_OK : status_fail(STATUS_IO, "cannot write to standard output");
}

int main(int argc, char **argv)
{
    program_begin();
    struct request request = {.set = memory_alloc((size_t)argc, sizeof *request.set)};
    int exit_code = 0;
    setenv("OMP_WAIT_POLICY", "passive", 0); /* of coordinators: their loops are long, and workers need the cores */
    enum status status = read_arguments(argc, argv, &request);
    if (status == STATUS_OK) {
        status = run(&request, &exit_code);
    }
    free(request.predict);
    free(request.set);
    if (status != STATUS_OK) {
        status_print("trainerd");
        return status_exit_code(status);
    }
    return exit_code;
}
