/* Orders for a job, or for all of a group: cancel, resume. Of a group that may be many jobs: they are changed in
 * slices, each of which is saved before the next begins, in the turns of the user, and the answer follows the last.
 * The work goes on when the client leaves; what has not been done when the daemon ends is not acknowledged, and the
 * same order does the rest.
 */
#include "protocol/base/memory.h"
#include "trainerd/daemon/commands/pending.h"
#include "trainerd/daemon/server/answer.h"
#include "trainerd/daemon/store/store_audit.h"

#include <stddef.h>
#include <stdlib.h>

struct group_order {
    struct pending pending; /* first member: pointers to both are equal */
    struct turn turn;
    struct turns *turns;
    enum supervisor_order order;
    enum request which;
    uid_t uid;
    /* n, of which `done` are done. Cancelled from the newest, so that none that waits takes the place of one that
     * ends; resumed from the oldest */
    int64_t *ids;
    size_t n, done;
    json_t *request;
    char from[CONNECTION_FROM_BYTES];
};

/* --- one job --- */

static enum status order_one(struct commands *commands, struct connection *connection, const json_t *request,
                             enum status (*ask)(struct supervisor *supervisor, int64_t id))
{
    const struct job_record *record;
    enum status status = pending_find_job(commands, connection, request, &record);
    int64_t id = status == STATUS_OK ? record->id : 0;
    if (status == STATUS_OK) {
        status = ask(commands->supervisor, id);
    }
    if (status == STATUS_OK) {
        connection_send(connection, answer_with(request, "{s:I}", "job", (json_int_t)id));
    }
    return status;
}

/* --- a group --- */

static void release(struct pending *pending)
{
    struct group_order *order = (struct group_order *)pending;
    if (order->order != SUPERVISOR_ORDER_CANCEL) {
        jobs_promise(pending->commands->jobs, order->uid, -(int64_t)(order->n - order->done));
    }
    turns_leave(order->turns, &order->turn);
    json_decref(order->request);
    free(order->ids);
}

/* The group's jobs for which the order is valid. errors  STATUS_NO_INPUT it has no job */
static enum status find_jobs(struct group_order *order, struct store *store, const char *name)
{
    bool cancels = order->order == SUPERVISOR_ORDER_CANCEL;
    const struct store_filter filter = {
        .uid = order->uid, .group = name, .states = cancels ? STORE_OPEN : STORE_STOPPED};
    int64_t n_of_state[JOB_STATE_N], n = 0;
    enum status status = store_count(store, &filter, n_of_state);
    for (int state = 0; state < JOB_STATE_N; state++) {
        n += n_of_state[state];
    }
    if (status == STATUS_OK && n == 0) {
        return status_fail(STATUS_NO_INPUT, "there is no group '%.64s'", name);
    }
    order->ids = memory_alloc((size_t)n + 1, sizeof *order->ids);
    if (status == STATUS_OK) {
        status = store_select(store, &filter, INT64_MAX, (size_t)n, order->ids, &order->n);
    }
    for (size_t i = 0; !cancels && i < order->n / 2; i++) {
        int64_t id = order->ids[i];
        order->ids[i] = order->ids[order->n - 1 - i];
        order->ids[order->n - 1 - i] = id;
    }
    return status;
}

/* One slice. */
static enum status step(struct group_order *order)
{
    const struct commands *commands = order->pending.commands;
    const struct slice slice = slice_begin(order->turns->now_ns);
    size_t n;
    enum status status = supervisor_order(commands->supervisor, order->order, order->ids + order->done,
                                          order->n - order->done, &slice, &n);
    order->done += n;
    if (order->order != SUPERVISOR_ORDER_CANCEL) {
        jobs_promise(commands->jobs, order->uid, -(int64_t)n);
    }
    return status != STATUS_OK && order->done > 0
               ? status_fail(status, "%zu of %zu jobs are done, then: %s", order->done, order->n, status_reason())
               : status;
}

static void finish(struct group_order *order, enum status status)
{
    struct connection *connection = order->pending.connection;
    if (connection != NULL) {
        json_t *numbers = json_array();
        for (size_t i = 0; i < order->n; i++) {
            size_t at = order->order == SUPERVISOR_ORDER_CANCEL ? order->n - 1 - i : i;
            json_array_append_new(numbers, json_integer(order->ids[at]));
        }
        connection_block(connection, false);
        connection_send(connection, status == STATUS_OK ? answer_with(order->request, "{s:O}", "jobs", numbers)
                                                        : answer_failure(order->request, status));
        json_decref(numbers);
    }
    pending_end(&order->pending);
}

/* The next slice, with its own rows in the audit. */
static void take_turn(struct turn *turn)
{
    struct group_order *order = (struct group_order *)((char *)turn - offsetof(struct group_order, turn));
    struct commands *commands = order->pending.commands;
    const struct store_audit row = {.uid = (int64_t)order->uid,
                                    .from = order->from,
                                    .what = json_string_value(json_object_get(order->request, "cmd"))};
    store_audit_begin(jobs_store(commands->jobs), &row);
    enum status status = step(order);
    status = audit_end(commands, order->uid, order->which, status);
    if (status == STATUS_OK && order->done < order->n) {
        turns_wait(order->turns, turn);
    } else {
        finish(order, status);
    }
}

static enum status begin(struct group_order *order, struct commands *commands, struct connection *connection,
                         const json_t *request)
{
    const char *name = json_string_value(json_object_get(request, "group"));
    enum status status = find_jobs(order, jobs_store(commands->jobs), name);
    if (status == STATUS_OK && order->order != SUPERVISOR_ORDER_CANCEL && order->n > 0) {
        status = jobs_check_queued(commands->jobs, order->uid, order->n);
    }
    if (status != STATUS_OK ||
        (status = pending_begin(&order->pending, commands, connection, request)) != STATUS_OK) {
        free(order->ids);
        return status;
    }
    if (order->order != SUPERVISOR_ORDER_CANCEL) {
        jobs_promise(commands->jobs, order->uid, (int64_t)order->n);
    }
    connection_block(connection, true);
    connection_from(connection, order->from);
    order->request = json_incref((json_t *)request);
    turns_join(order->turns, order->uid, &order->turn);
    return STATUS_OK;
}

/* The first slice is a part of the request: most groups are done with it. */
static enum status order_group(struct commands *commands, struct connection *connection, const json_t *request,
                               enum supervisor_order what)
{
    struct group_order *order = memory_alloc(1, sizeof *order);
    *order = (struct group_order){.pending = {.is_work = true, .release = release},
                                  .turn = {.take = take_turn},
                                  .turns = connection_turns(connection),
                                  .order = what,
                                  .which = what == SUPERVISOR_ORDER_CANCEL ? REQUEST_cancel : REQUEST_resume,
                                  .uid = connection_uid(connection)};
    enum status status = begin(order, commands, connection, request);
    if (status != STATUS_OK) {
        free(order);
        return status;
    }
    status = order->n > 0 ? step(order) : STATUS_OK;
    if (status == STATUS_OK && order->done < order->n) {
        turns_wait(order->turns, &order->turn);
        return STATUS_OK;
    }
    if (status != STATUS_OK) { /* the caller says so */
        connection_block(connection, false);
        pending_end(&order->pending);
        return status;
    }
    finish(order, STATUS_OK);
    return STATUS_OK;
}

static enum status check_one_of(const json_t *request)
{
    bool has_job = json_object_get(request, "job") != NULL, has_group = json_object_get(request, "group") != NULL;
    return has_job != has_group ? STATUS_OK
                                : status_fail(STATUS_USAGE, "%s takes either job or group",
                                              json_string_value(json_object_get(request, "cmd")));
}

enum status handle_cancel(struct commands *commands, struct connection *connection, const json_t *request)
{
    enum status status = check_one_of(request);
    if (status != STATUS_OK) {
        return status;
    }
    return json_object_get(request, "job") != NULL
               ? order_one(commands, connection, request, supervisor_cancel)
               : order_group(commands, connection, request, SUPERVISOR_ORDER_CANCEL);
}

enum status handle_resume(struct commands *commands, struct connection *connection, const json_t *request)
{
    bool by_admin = connection_is_admin(connection);
    enum status status = commands_check_submitter(commands, connection);
    if (status != STATUS_OK || (status = check_one_of(request)) != STATUS_OK) {
        return status;
    }
    return json_object_get(request, "job") != NULL
               ? order_one(commands, connection, request, by_admin ? supervisor_resume_by_admin : supervisor_resume)
               : order_group(commands, connection, request,
                             by_admin ? SUPERVISOR_ORDER_RESUME_BY_ADMIN : SUPERVISOR_ORDER_RESUME);
}

/* --- a job that runs --- */

enum status handle_checkpoint(struct commands *commands, struct connection *connection, const json_t *request)
{
    return order_one(commands, connection, request, supervisor_checkpoint);
}
