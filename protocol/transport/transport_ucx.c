/* protocol/transport/transport.h over UCX 1.13 active messages: a transport's life, from open to close. Only
 * transport_ucx* see UCX.
 *
 * One context, one worker, one thread. Endpoints use error handling NONE: between processes of one host it leaves UCX
 * its shared memory (7 times faster than loopback TCP), and a peer's death is noticed by waitpid and heartbeats
 * anyway, which also see what UCX never reports (a stopped process, a silent cut).
 */
#include "protocol/transport/transport_ucx.h"

#include "protocol/base/clock.h"
#include "protocol/base/memory.h"
#include "protocol/files/file.h"
#include "protocol/transport/wakeup.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/debug.h>

#define CLOSE_MOST_NS 2000000000ll

static enum status fail_ucx(const char *what, ucs_status_t status)
{
    return status_fail(STATUS_PEER, "UCX cannot %s: %s%s", what, ucs_status_string(status), file_limit_text());
}

/* UCX has made no worker: perhaps shared memory is missing. */
static enum status fail_worker(ucs_status_t status)
{
    struct statvfs about;
    int64_t has = statvfs(TRANSPORT_SHARED, &about) == 0 ? (int64_t)(about.f_bavail * about.f_bsize)
                                                         : TRANSPORT_SHARED_BYTES;
    if (has >= TRANSPORT_SHARED_BYTES) {
        return fail_ucx("open a worker", status);
    }
    return status_fail(STATUS_PEER,
                       "UCX cannot open a worker: %s: " TRANSPORT_SHARED
                       " has %.1f MiB free, and each process needs %.0f MiB of it (docker run --shm-size)",
                       ucs_status_string(status), (double)has / 0x1p20, (double)TRANSPORT_SHARED_BYTES / 0x1p20);
}

void transport_calm(void)
{
    static bool is_calm;
    if (is_calm) {
        return;
    }
    is_calm = true;
    /* UCX warns of requests that a dead peer left behind, which is reported elsewhere; a user may still turn warnings
     * on. */
    if (getenv("UCX_LOG_LEVEL") == NULL) {
        ucs_global_opts_set_value("LOG_LEVEL", "error");
    }
    /* libucs took these in its load-time constructor: a crash of ours is to end the process, not to start a
     * debugger. */
    const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        ucs_debug_disable_signal(signals[i]);
    }
}

/* EMULATOR_UCX=1 claims it for emulated GPUs, whose memory is the host's. */
static bool reaches_gpus(ucp_context_h context)
{
#ifdef CUDA_EMULATED
    const char *emulated = getenv("EMULATOR_UCX");
    if (emulated != NULL && strcmp(emulated, "1") == 0) {
        return true;
    }
#endif
    ucp_context_attr_t has = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    return ucp_context_query(context, &has) == UCS_OK && (has.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
}

static ucs_status_t context_open(struct transport *transport, uint32_t n_peer, const char *devices)
{
    ucp_params_t context = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
        .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
        .estimated_num_eps = n_peer,
    };
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK) {
        return status;
    }
    if (devices != NULL && devices[0] != '\0' && getenv("UCX_NET_DEVICES") == NULL) {
        status = ucp_config_modify(config, "NET_DEVICES", devices);
    }
    status = status == UCS_OK ? ucp_init(&context, config, &transport->context) : status;
    ucp_config_release(config);
    return status;
}

static enum status ucx_open(struct transport *transport, uint32_t n_peer, const char *devices)
{
    transport_calm();
    ucs_status_t status = context_open(transport, n_peer, devices);
    if (status != UCS_OK) {
        return fail_ucx("start", status);
    }
    transport->reaches_gpus = reaches_gpus(transport->context);
    ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SINGLE};
    wakeup_guard(true);
    status = ucp_worker_create(transport->context, &worker, &transport->worker);
    wakeup_guard(false);
    if (status != UCS_OK) {
        return fail_worker(status);
    }
    status = transport_hear(transport);
    if (status != UCS_OK) {
        return fail_ucx("take messages", status);
    }
    status = ucp_worker_get_efd(transport->worker, &transport->event_fd);
    if (status != UCS_OK) {
        return fail_ucx("give an event descriptor", status);
    }
    transport->far = (ucp_worker_attr_t){.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS |
                                                       UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS,
                                         .address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY};
    status = ucp_worker_query(transport->worker, &transport->far);
    if (status != UCS_OK) {
        transport->far.address = NULL;
        return fail_ucx("name an address of its networks", status);
    }
    status = ucp_worker_get_address(transport->worker, &transport->address, &transport->n_address);
    return status == UCS_OK ? STATUS_OK : fail_ucx("name an address", status);
}

enum status transport_open(uint32_t self, uint32_t n_peer, uint32_t attempt, int n_send_most, const char *devices,
                           const struct transport_events *events, struct transport **out)
{
    struct transport *transport = memory_alloc(1, sizeof *transport);
    transport->events = *events;
    transport_records_make(transport, n_send_most);
    transport_identify(transport, self, n_peer, attempt);
    enum status status = ucx_open(transport, n_peer, devices);
    if (status != STATUS_OK) {
        transport_close(transport);
        return status;
    }
    *out = transport;
    return STATUS_OK;
}

void transport_identify(struct transport *transport, uint32_t self, uint32_t n_peer, uint32_t attempt)
{
    free(transport->endpoints);
    transport->endpoints = memory_alloc(n_peer, sizeof *transport->endpoints);
    transport->self = self;
    transport->n_peer = n_peer;
    transport->attempt = attempt;
    cpu_set_t cores;
    transport->is_crowded = sched_getaffinity(0, sizeof cores, &cores) == 0 && (uint32_t)CPU_COUNT(&cores) < n_peer;
}

/* Wait until a closing request is done, but not for ever: its peer may be dead. */
static bool close_wait(struct transport *transport, ucs_status_ptr_t request, int64_t deadline)
{
    if (!UCS_PTR_IS_PTR(request)) {
        return !UCS_PTR_IS_ERR(request);
    }
    while (ucp_request_check_status(request) == UCS_INPROGRESS && clock_ns() < deadline) {
        ucp_worker_progress(transport->worker);
        sched_yield();
    }
    bool done = ucp_request_check_status(request) == UCS_OK;
    ucp_request_free(request);
    return done;
}

static void endpoints_close(struct transport *transport)
{
    const ucp_request_param_t how = {0};
    int64_t deadline = clock_ns() + CLOSE_MOST_NS;
    if (transport->failed != STATUS_OK) {
        return;
    }
    while (transport->failed == STATUS_OK && transport->n_sending > 0 && clock_ns() < deadline) {
        transport_turn(transport);
        sched_yield();
    }
    /* Unsent messages stay unsent: destroying the worker drops them, whereas closing endpoints would wait for them
     * again. */
    if (transport->n_sending > 0 || !close_wait(transport, ucp_worker_flush_nbx(transport->worker, &how), deadline)) {
        return;
    }
    for (uint32_t peer = 0; peer < transport->n_peer; peer++) {
        if (transport->endpoints[peer] != NULL &&
            !close_wait(transport, ucp_ep_close_nbx(transport->endpoints[peer], &how), deadline)) {
            return;
        }
    }
}

void transport_abandon(struct transport *transport)
{
    transport_fail(transport, status_fail(STATUS_PEER, "the transport was abandoned"));
}

void transport_close(struct transport *transport)
{
    if (transport == NULL) {
        return;
    }
    if (transport->worker != NULL) {
        endpoints_close(transport);
        if (transport->address != NULL) {
            ucp_worker_release_address(transport->worker, transport->address);
        }
        if (transport->far.address != NULL) {
            ucp_worker_release_address(transport->worker, transport->far.address);
        }
        ucp_worker_destroy(transport->worker);
    }
    if (transport->context != NULL) {
        ucp_cleanup(transport->context);
    }
    transport_records_release(transport);
    sealing_close(transport->sealing);
    free(transport->endpoints);
    free(transport);
}

const void *transport_address(const struct transport *transport, size_t *n_bytes_out)
{
    *n_bytes_out = transport->n_address;
    return transport->address;
}

const void *transport_far_address(const struct transport *transport, size_t *n_bytes_out)
{
    *n_bytes_out = transport->far.address_length;
    return transport->far.address;
}

enum status transport_seal(struct transport *transport, const struct seal_secret *secret, const uint8_t *near)
{
    transport->reaches_gpus = false; /* the host opens bodies */
    return sealing_open(secret, transport->self, transport->n_peer, near, &transport->sealing);
}

enum status transport_connect(struct transport *transport, uint32_t peer, const void *address, size_t n_bytes)
{
    if (peer >= transport->n_peer || peer == transport->self || transport->endpoints[peer] != NULL) {
        return status_fail(STATUS_PEER, "cannot connect to peer %u: expected one of %u others, each once", peer,
                           transport->n_peer - 1);
    }
    /* UCX reads an address without being told its length, so it goes into a copy that ends in zeros. */
    char *padded = memory_alloc(n_bytes + 256, 1);
    memcpy(padded, address, n_bytes);
    ucp_ep_params_t how = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .address = (const ucp_address_t *)padded,
        .err_mode = UCP_ERR_HANDLING_MODE_NONE,
    };
    ucs_status_t status = ucp_ep_create(transport->worker, &how, &transport->endpoints[peer]);
    free(padded);
    if (status != UCS_OK) {
        transport->endpoints[peer] = NULL;
        return status_fail(STATUS_PEER, "cannot connect to peer %u by its address of %zu bytes: %s", peer, n_bytes,
                           ucs_status_string(status));
    }
    return STATUS_OK;
}

int transport_event_fd(const struct transport *transport)
{
    return transport->event_fd;
}

bool transport_reaches_gpus(const struct transport *transport)
{
    return transport->reaches_gpus;
}

bool transport_seals(const struct transport *transport)
{
    return transport->sealing != NULL;
}

const char *transport_library(void)
{
    static char text[32];
    unsigned major, minor, release;
    ucp_get_version(&major, &minor, &release);
    snprintf(text, sizeof text, "UCX %u.%u.%u", major, minor, release);
    return text;
}
