/* The request backup: copies the store in slices, in its user's turns. It ends if its client leaves. */
#include "protocol/base/memory.h"
#include "trainerd/daemon/commands/pending.h"
#include "trainerd/daemon/server/answer.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct backup {
    struct pending pending; /* first member: pointers to both are equal */
    struct turn turn;
    struct turns *turns;
    struct store_copy *copy;
    bool is_whole;
    json_t *request;
};

static void release(struct pending *pending)
{
    struct backup *backup = (struct backup *)pending;
    turns_leave(backup->turns, &backup->turn);
    store_copy_close(backup->copy, backup->is_whole);
    json_decref(backup->request);
}

static void finish(struct backup *backup, enum status status)
{
    struct connection *connection = backup->pending.connection;
    audit_begin(backup->pending.commands, connection, backup->request, REQUEST_backup);
    status = audit_end(backup->pending.commands, connection_uid(connection), REQUEST_backup, status);
    json_t *path = json_object_get(backup->request, "path");
    json_int_t n_job = jobs_n(backup->pending.commands->jobs);
    backup->is_whole = status == STATUS_OK;
    connection_block(connection, false);
    connection_send(connection, backup->is_whole
                                    ? answer_with(backup->request, "{s:O, s:I}", "path", path, "jobs", n_job)
                                    : answer_failure(backup->request, status));
    pending_end(&backup->pending);
}

static void take_turn(struct turn *turn)
{
    struct backup *backup = (struct backup *)((char *)turn - offsetof(struct backup, turn));
    const struct slice slice = slice_begin(backup->turns->now_ns);
    bool is_done;
    enum status status = store_copy_step(backup->copy, &slice, &is_done);
    if (status == STATUS_OK && !is_done) {
        turns_wait(backup->turns, turn);
    } else {
        finish(backup, status);
    }
}

enum status handle_backup(struct commands *commands, struct connection *connection, const json_t *request)
{
    const char *path = json_string_value(json_object_get(request, "path"));
    if (!connection_is_admin(connection)) {
        return status_fail(STATUS_USAGE,
                           "a backup has all users' jobs: expected root, or the daemon's user, or the role admin");
    }
    if (path[0] != '/' || strlen(path) >= PATH_MAX - 16) {
        return status_fail(STATUS_USAGE, "path '%.100s' is not an absolute path", path);
    }
    struct backup *backup = memory_alloc(1, sizeof *backup);
    *backup = (struct backup){
        .pending = {.release = release}, .turn = {.take = take_turn}, .turns = connection_turns(connection)};
    enum status status = store_copy_open(jobs_store(commands->jobs), path, &backup->copy);
    if (status == STATUS_OK) {
        status = pending_begin(&backup->pending, commands, connection, request);
        if (status != STATUS_OK) {
            store_copy_close(backup->copy, false);
        }
    }
    if (status != STATUS_OK) {
        free(backup);
        return status;
    }
    backup->request = json_incref((json_t *)request);
    audit_leave(commands);
    connection_block(connection, true);
    turns_join(backup->turns, connection_uid(connection), &backup->turn);
    turns_wait(backup->turns, &backup->turn);
    return STATUS_OK;
}
