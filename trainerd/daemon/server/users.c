#include "trainerd/daemon/server/users.h"

#include "protocol/base/memory.h"
#include "protocol/base/mistakes.h"
#include "protocol/toml/toml.h"

#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WHERE_BYTES 400

static const char *const role_names[USER_ROLE_N] = {
#define X(name, text) [USER_ROLE_##name] = text,
    USER_ROLE_LIST(X)
#undef X
};

const char *user_role_name(enum user_role role)
{
    return role_names[role];
}

/* --- the text --- */

static enum status read_role(const char *where, const char *text, enum user_role *out)
{
    int role = name_find(role_names, USER_ROLE_N, text);
    if (role < 0) {
        return status_fail(STATUS_CONFIG, "%s: role is '%.32s', expected \"watch\", \"submit\" or \"admin\"", where,
                           text);
    }
    *out = (enum user_role)role;
    return STATUS_OK;
}

static enum status read_key(const char *where, const struct toml_entry *entry, struct user *user, bool *has_secret)
{
    bool is_secret = strcmp(entry->key, "secret") == 0, is_system = strcmp(entry->key, "user") == 0;
    if (!is_secret && !is_system && strcmp(entry->key, "role") != 0) {
        return status_fail(STATUS_CONFIG, "%s: unknown key '%.64s' of a user, expected secret, user or role", where,
                           entry->key);
    }
    if (entry->type != TOML_TYPE_TEXT) {
        return status_fail(STATUS_CONFIG, "%s: %s is %s, expected a text", where, entry->key,
                           toml_type_text(entry->type));
    }
    if (is_secret) {
        *has_secret = auth_secret_read(entry->text, &user->secret);
        return *has_secret
                   ? STATUS_OK
                   : status_fail(STATUS_CONFIG,
                                 "%s: secret is not 64 hexadecimal digits, as `openssl rand -hex 32` prints them",
                                 where);
    }
    if (is_system) {
        if (entry->text[0] == '\0' || strlen(entry->text) >= USERS_SYSTEM_BYTES) {
            return status_fail(STATUS_CONFIG, "%s: user has %zu bytes, expected the name of a user of this machine",
                               where, strlen(entry->text));
        }
        snprintf(user->system, sizeof user->system, "%s", entry->text);
        return STATUS_OK;
    }
    return read_role(where, entry->text, &user->role);
}

/* A table of the top level: a user, whose keys come after it. */
static enum status begin_user(const char *where, const struct toml_entry *entry, struct users *users)
{
    if (entry->type != TOML_TYPE_TABLE) {
        return status_fail(STATUS_CONFIG, "%s: '%.64s' is of no user, expected [NAME] before it", where, entry->key);
    }
    if (!auth_is_user(entry->key)) {
        return status_fail(
            STATUS_CONFIG,
            "%s: '%.64s' is not a user's name: expected 1 to %d letters, digits, points, hyphens and underscores",
            where, entry->key, AUTH_USER_BYTES - 1);
    }
    struct user *user = &users->user[users->n_user++];
    *user = (struct user){.role = USER_ROLE_SUBMIT};
    snprintf(user->name, sizeof user->name, "%s", entry->key);
    snprintf(user->system, sizeof user->system, "%s", entry->key);
    return STATUS_OK;
}

static struct user *find(const struct users *users, const char *name)
{
    for (size_t i = 0; i < users->n_user; i++) {
        if (strcmp(users->user[i].name, name) == 0) {
            return &users->user[i];
        }
    }
    return NULL;
}

static enum status read_list(const struct toml_list *list, const char *origin, struct users *users)
{
    bool *has_secret = memory_alloc(list->n_entry + 1, sizeof *has_secret);
    enum status status = STATUS_OK;
    char where[WHERE_BYTES];
    struct user *user = NULL;
    for (int pass = 0; pass < 2;
         pass++) { /* a user's keys may stand before the table's own, as NAME.role = "admin" */
        for (size_t i = 0; i < list->n_entry && status == STATUS_OK; i++) {
            const struct toml_entry *entry = &list->entry[i];
            bool is_user = entry->section[0] == '\0';
            snprintf(where, sizeof where, "%.300s:%u:%u", origin, entry->key_at.line, entry->key_at.column);
            if (is_user && pass == 0) {
                status = begin_user(where, entry, users);
            } else if (!is_user && pass == 1) {
                user = user != NULL && strcmp(user->name, entry->section) == 0 ? user : find(users, entry->section);
                status = user != NULL ? read_key(where, entry, user, &has_secret[user - users->user])
                                      : status_fail(STATUS_CONFIG, "%s: '%.64s' is of no user", where, entry->key);
            }
        }
    }
    for (size_t i = 0; i < users->n_user && status == STATUS_OK; i++) {
        if (!has_secret[i]) {
            status = status_fail(STATUS_CONFIG, "%.300s: user '%s' has no secret", origin, users->user[i].name);
        }
    }
    free(has_secret);
    return status;
}

enum status users_read(const char *text, size_t n, const char *origin, struct users *out)
{
    struct toml_list list = {0};
    enum status status = toml_read(text, n, origin, &list);
    if (status != STATUS_OK) {
        return status;
    }
    struct users users = {.user = memory_alloc(list.n_entry + 1, sizeof *users.user)};
    status = read_list(&list, origin, &users);
    toml_release(&list);
    if (status != STATUS_OK) {
        users_release(&users);
        return status;
    }
    *out = users;
    return STATUS_OK;
}

/* --- the file --- */

enum status users_system(const char *what, const char *name, uid_t *uid_out, gid_t *gid_out)
{
    const struct passwd *user = getpwnam(name);
    if (user == NULL || (geteuid() != 0 && user->pw_uid != geteuid())) {
        return status_fail(STATUS_CONFIG,
                           "%s is '%s': expected a user of this machine whose jobs this daemon may run", what, name);
    }
    *uid_out = user->pw_uid;
    *gid_out = user->pw_gid;
    return STATUS_OK;
}

enum status users_load(const char *path, struct users *out)
{
    char *text, what[WHERE_BYTES];
    size_t n;
    struct users users = {0};
    enum status status = auth_file_read("users file", path, USERS_FILE_MOST_BYTES, &text, &n);
    if (status != STATUS_OK) {
        return status;
    }
    status = users_read(text, n, path, &users);
    auth_text_release(text, n);
    for (size_t i = 0; i < users.n_user && status == STATUS_OK; i++) {
        struct user *user = &users.user[i];
        snprintf(what, sizeof what, "%.300s: the user of '%s'", path, user->name);
        status = users_system(what, user->system, &user->uid, &user->gid);
    }
    if (status != STATUS_OK) {
        users_release(&users);
        return status;
    }
    *out = users;
    return STATUS_OK;
}

void users_release(struct users *users)
{
    for (size_t i = 0; i < users->n_user; i++) {
        auth_secret_release(&users->user[i].secret);
    }
    free(users->user);
    *users = (struct users){0};
}

const struct user *users_find(const struct users *users, const char *name)
{
    return find(users, name);
}
