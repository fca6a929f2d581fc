#include "trainerd/daemon/daemon.h"

#include "protocol/base/fault.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "trainerd/daemon/commands/commands.h"
#include "trainerd/daemon/daemon_config.h"
#include "trainerd/daemon/monitor/monitor.h"
#include "trainerd/daemon/monitor/notify.h"
#include "trainerd/socket/endpoint.h"
#include "trainerd/socket/tls.h"

#include <jansson.h>
#include <limits.h>
#include <malloc.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIGNAL_TERM, SIGNAL_INT, SIGNAL_HUP, N_SIGNAL };

struct daemon {
    struct daemon_config config;
    uv_loop_t loop;
    uv_signal_t signals[N_SIGNAL];
    struct gpus gpus;
    struct queue_capacity capacity;
    struct jobs *jobs;
    struct supervisor *supervisor;
    struct commands *commands;
    struct server *server;
    struct monitor *monitor;
    struct notify *notify;
};

/* --- configuration --- */

static enum status choose_state(struct daemon_config *config)
{
    const char *base = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n = 0;
    if (config->state[0] != '\0') {
        return STATUS_OK;
    }
    if (geteuid() == 0) {
        n = snprintf(config->state, sizeof config->state, "/var/lib/trainerd");
    } else if (base != NULL && base[0] == '/') {
        n = snprintf(config->state, sizeof config->state, "%s/trainerd", base);
    } else if (home != NULL && home[0] == '/') {
        n = snprintf(config->state, sizeof config->state, "%s/.local/state/trainerd", home);
    } else {
        return status_fail(STATUS_CONFIG,
                           "there is no home folder for jobs; expected daemon.state or --state FOLDER");
    }
    return n < (int)sizeof config->state ? STATUS_OK
                                         : status_fail(STATUS_CONFIG, "the state folder's path is too long");
}

static enum status set_text(const char *text, const char *option, char *out)
{
    if (text != NULL && snprintf(out, DAEMON_TEXT_BYTES, "%s", text) >= DAEMON_TEXT_BYTES) {
        return status_fail(STATUS_USAGE, "%s is too long; expected at most %d bytes", option, DAEMON_TEXT_BYTES - 1);
    }
    return STATUS_OK;
}

static enum status configure(const struct daemon_options *options, struct daemon_config *config)
{
    enum status status = daemon_config_load(options->config, options->set, options->n_set, config);
    if (status == STATUS_OK && (status = set_text(options->listen, "--listen", config->listen)) == STATUS_OK &&
        (status = set_text(options->state, "--state", config->state)) == STATUS_OK) {
        status = choose_state(config);
    }
    if (status == STATUS_OK && strcmp(config->runner, "local") != 0 && strcmp(config->runner, "slurm") != 0) {
        status = status_fail(STATUS_CONFIG, "daemon.runner is '%.64s', expected \"local\" or \"slurm\"",
                             config->runner);
    }
    if (status == STATUS_OK && strcmp(config->tls, "on") != 0 && strcmp(config->tls, "off") != 0) {
        status = status_fail(STATUS_CONFIG, "daemon.tls is '%.64s', expected \"on\" or \"off\"", config->tls);
    }
    if (status == STATUS_OK && config->listen[0] == '\0') {
        endpoint_default(config->listen); /* shorter than a text of the file may be */
    }
    return status;
}

static int32_t n_core(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static struct queue_capacity capacity_of(const struct daemon_config *config, const struct gpus *gpus)
{
    return (struct queue_capacity){.n_slot = config->slots > 0 ? (int32_t)config->slots : n_core(),
                                   .gpus = gpus_all(gpus),
                                   .memory = config->memory > 0 ? config->memory : memory_machine(),
                                   .is_elsewhere = strcmp(config->runner, "slurm") == 0};
}

static enum status options_of_jobs(const struct daemon *daemon, struct jobs_options *out)
{
    const struct daemon_config *config = &daemon->config;
    *out = (struct jobs_options){.gpus = &daemon->gpus,
                                 .shared = config->shared[0] != '\0' ? config->shared : NULL,
                                 .in_slurm = daemon->capacity.is_elsewhere,
                                 .quota = {.n_queued = config->max_queued_per_user,
                                           .n_running = config->max_running_per_user,
                                           .n_slot = config->max_slots_per_user,
                                           .n_gpu = config->max_gpus_per_user,
                                           .memory = config->max_memory_per_user},
                                 .whole = queue_whole(&daemon->capacity),
                                 .half_life_s = config->fair_half_life};
    return quota_read_exempt(config->quota_exempt, &out->quota);
}

/* The user that TCP clients act as. Without daemon.tcp_user, the secret does not give a client root's rights. */
static enum status find_tcp_user(const struct daemon_config *config, uid_t *uid_out, gid_t *gid_out)
{
    const char *name = config->tcp_user;
    *uid_out = geteuid();
    *gid_out = getegid();
    if (name[0] == '\0' && geteuid() == 0) {
        name = getpwnam("trainerd") != NULL ? "trainerd" : "nobody";
    }
    return name[0] == '\0' ? STATUS_OK : users_system("daemon.tcp_user", name, uid_out, gid_out);
}

/* --- signals --- */

static void on_handle_left(uv_handle_t *handle, void *context)
{
    (void)context;
    if (handle->type == UV_SIGNAL && !uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

/* Close what was opened, in reverse. No handle is left on the loop once it has run on. */
static void stop(struct daemon *daemon)
{
    notify_stopping(daemon->notify);
    if (daemon->server != NULL) {
        server_close(daemon->server);
    }
    if (daemon->commands != NULL) {
        commands_close(daemon->commands);
    }
    monitor_close(daemon->monitor);
    supervisor_close(daemon->supervisor);
    notify_close(daemon->notify);
    uv_walk(&daemon->loop, on_handle_left, NULL);
}

static void report_ready(const struct daemon *daemon)
{
    char text[ENDPOINT_TEXT_BYTES + 128];
    const char *metrics = monitor_address(daemon->monitor);
    snprintf(text, sizeof text, "%s%s%s", server_address(daemon->server),
             metrics[0] != '\0' ? ", metrics at http://" : "", metrics);
    notify_ready(daemon->notify, text);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct daemon *daemon = handle->data;
    if (number != SIGHUP) {
        log_info("signal %d (%s): the daemon stops, coordinators run on", number, strsignal(number));
        stop(daemon);
        return;
    }
    notify_reloading(daemon->notify);
    if (daemon->config.log_file[0] != '\0' && log_to(daemon->config.log_file) != STATUS_OK) {
        log_error("%s", status_reason());
    }
    log_info("reopened the log");
    if (server_reload(daemon->server) != STATUS_OK) {
        log_error("the users are as they were: %s", status_reason());
    }
    report_ready(daemon);
}

static void watch_signals(struct daemon *daemon)
{
    static const int numbers[N_SIGNAL] = {[SIGNAL_TERM] = SIGTERM, [SIGNAL_INT] = SIGINT, [SIGNAL_HUP] = SIGHUP};
    for (int i = 0; i < N_SIGNAL; i++) {
        uv_signal_init(&daemon->loop, &daemon->signals[i]);
        daemon->signals[i].data = daemon;
        uv_signal_start(&daemon->signals[i], on_signal, numbers[i]);
    }
    signal(SIGPIPE, SIG_IGN);
}

/* --- its life --- */

/* The control groups of jobs on this machine; none for those in Slurm, which has its own. */
static enum status open_groups(const struct daemon *daemon, struct job_cgroups *out)
{
    const struct daemon_config *config = &daemon->config;
    char text[PATH_MAX];
    bool is_on = strcmp(config->enforce_memory, "on") == 0, is_off = strcmp(config->enforce_memory, "off") == 0;
    if (!is_on && !is_off && strcmp(config->enforce_memory, "auto") != 0) {
        return status_fail(STATUS_CONFIG, "daemon.enforce_memory is '%.64s', expected \"auto\", \"on\" or \"off\"",
                           config->enforce_memory);
    }
    const char *isolation = daemon->capacity.is_elsewhere ? "none" : config->isolation;
    enum status status = job_cgroups_open("", isolation, !is_off, store_id(jobs_store(daemon->jobs)), out);
    if (status == STATUS_OK && is_on && !out->has_memory) {
        status = status_fail(STATUS_CONFIG,
                             "daemon.enforce_memory is \"on\", and there are no control groups that limit memory "
                             "(daemon.isolation)");
    }
    if (status == STATUS_OK) {
        job_cgroups_text(out, text, sizeof text);
        log_info("jobs have %s", text);
    }
    return status;
}

static enum status open_parts(struct daemon *daemon)
{
    const struct daemon_config *config = &daemon->config;
    struct supervisor_options supervision = {.capacity = daemon->capacity,
                                             .kill_s = config->kill_s,
                                             .n_log_most = config->max_log,
                                             .retention = {config->retain_days, config->retain_jobs},
                                             .plan_s = config->plan_timeout,
                                             .backoff = {config->backoff_s, config->backoff_most_s},
                                             .slurm_poll_s = config->slurm_poll_s,
                                             .slurm_s = config->slurm_timeout,
                                             .slurm_options = config->slurm_options,
                                             .pass_environment = config->pass_environment};
    struct jobs_options jobs;
    struct server_options serving = {.address = config->listen,
                                     .secret_file = config->secret_file,
                                     .users_file = config->users_file,
                                     .tls_folder = strcmp(config->tls, "on") == 0 ? config->state : NULL,
                                     .n_most_connection = (int32_t)config->max_connections,
                                     .n_most_of_uid = (int32_t)config->max_connections_per_user,
                                     .n_most_frame = (size_t)config->max_frame,
                                     .n_most_unread = (size_t)config->max_unread,
                                     .hello_s = config->hello_timeout,
                                     .idle_s = config->idle_timeout};
    daemon->notify = notify_open(&daemon->loop);
    enum status status = find_tcp_user(config, &serving.tcp_uid, &serving.tcp_gid);
    if (status == STATUS_OK && (status = options_of_jobs(daemon, &jobs)) == STATUS_OK) {
        status = jobs_open(config->state, &jobs, &daemon->jobs);
    }
    if (status == STATUS_OK) {
        jobs_reserve(daemon->jobs, config->state, config->reserve);
    }
    if (status == STATUS_OK && (status = open_groups(daemon, &supervision.groups)) == STATUS_OK) {
        status = supervisor_open(&daemon->loop, daemon->jobs, &supervision, &daemon->supervisor);
    }
    const struct commands_options options = {(int32_t)config->max_restarts, config->submit_users,
                                             config->submit_groups};
    if (status != STATUS_OK || (status = commands_open(&daemon->loop, daemon->jobs, daemon->supervisor, &options,
                                                       &daemon->commands)) != STATUS_OK) {
        return status;
    }
    const struct server_handler handler = commands_handler(daemon->commands);
    status = server_open(&daemon->loop, &serving, &handler, &daemon->server);
    if (status != STATUS_OK) {
        return status;
    }
    return monitor_open(&daemon->loop, config->metrics, daemon->jobs, &daemon->capacity, &daemon->monitor);
}

static enum status serve(struct daemon *daemon)
{
    watch_signals(daemon);
    enum status status = open_parts(daemon);
    if (status == STATUS_OK) {
        const char *fingerprint = server_fingerprint(daemon->server);
        log_info("listening on %s%s%s, state in %s with %lld jobs, %d slots, %d GPUs, %.1f GiB",
                 server_address(daemon->server), fingerprint[0] != '\0' ? ", fingerprint " : "", fingerprint,
                 daemon->config.state, (long long)jobs_n(daemon->jobs), (int)daemon->capacity.n_slot,
                 (int)daemon->gpus.n, (double)daemon->capacity.memory / 0x1p30);
        if (strncmp(daemon->config.listen, "tcp:", 4) == 0 && fingerprint[0] == '\0') {
            log_warn("tls is \"off\": what clients and the daemon tell each other can be read and changed on the "
                     "way, unless a tunnel protects it");
        }
        if (daemon->monitor != NULL) {
            log_info("metrics at http://%s/metrics", monitor_address(daemon->monitor));
        }
        report_ready(daemon);
    } else {
        stop(daemon);
    }
    char reason[1024];
    snprintf(reason, sizeof reason, "%s", status_reason());
    uv_run(&daemon->loop, UV_RUN_DEFAULT);
    jobs_close(daemon->jobs);
    return status == STATUS_OK ? status : status_fail(status, "%s", reason);
}

enum status daemon_run(const struct daemon_options *options)
{
    struct daemon *daemon = memory_alloc(1, sizeof *daemon);
    log_init("trainerd", -1, LOG_LEVEL_INFO);
    mallopt(M_MMAP_THRESHOLD, 1 << 18); /* what a pass over the queue takes goes back to the system, not to a heap */
    umask(022); /* users reach their jobs' folders below the state folder; secret files get their own mode */
    enum status status = fault_arm("daemon", 0);
    if (status == STATUS_OK && (status = configure(options, &daemon->config)) == STATUS_OK &&
        daemon->config.log_file[0] != '\0') {
        status = log_to(daemon->config.log_file);
    }
    if (status == STATUS_OK) {
        gpus_find(daemon->config.gpus, &daemon->gpus);
        daemon->capacity = capacity_of(&daemon->config, &daemon->gpus);
        int error = uv_loop_init(&daemon->loop);
        ASSERT(error == 0);
        status = serve(daemon);
        error = uv_loop_close(&daemon->loop);
        ASSERT(error == 0); /* no handle is left */
    }
    free(daemon);
    return status;
}

enum status daemon_restore(const struct daemon_options *options, const char *from, bool json)
{
    struct daemon_config config;
    struct store_repaired done;
    log_init("trainerd", -1, LOG_LEVEL_WARN);
    umask(022);
    enum status status = configure(options, &config);
    if (status != STATUS_OK || (status = jobs_restore(config.state, config.shared[0] != '\0' ? config.shared : NULL,
                                                      from, &done)) != STATUS_OK) {
        return status;
    }
    if (json) {
        json_t *all = json_pack("{s:s, s:I, s:I, s:I, s:o}", "state", config.state, "jobs", (json_int_t)done.n_job,
                                "aside", (json_int_t)done.n_aside, "next", (json_int_t)done.highest + 1, "before",
                                done.old[0] != '\0' ? json_string(done.old) : json_null());
        json_dumpf(all, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(all);
    } else {
        fprintf(stderr, "%s/jobs.sqlite has %lld jobs, %lld rows are set aside, the next job is %lld%s%s\n",
                config.state, (long long)done.n_job, (long long)done.n_aside, (long long)done.highest + 1,
                done.old[0] != '\0' ? "; what was there is " : "", done.old);
    }
    return STATUS_OK;
}

enum status daemon_fingerprint(const struct daemon_options *options, bool json)
{
    struct daemon_config config;
    struct tls_identity *identity = NULL;
    enum status status = configure(options, &config);
    if (status == STATUS_OK) {
        status = tls_identity_open(config.state, false, &identity);
    }
    if (status == STATUS_NO_INPUT) {
        status_fail(STATUS_NO_INPUT,
                    "there is no '%s/" TLS_FILE
                    "': the daemon makes its certificate when it first listens on a TCP port",
                    config.state);
    }
    if (status == STATUS_OK) {
        printf(json ? "{\"fingerprint\":\"%s\"}\n" : "%s\n", tls_identity_fingerprint(identity));
        tls_identity_close(identity);
    }
    return status;
}
