/* The commands of trainctl. Each prints its answer on standard output, or fails with a sentence. */
#ifndef TRAINERD_CTL_RUN_H
#define TRAINERD_CTL_RUN_H

#include "trainerd/ctl/base/arguments.h"
#include "trainerd/ctl/base/client.h"
#include "trainerd/ctl/base/known_hosts.h"

typedef enum status ctl_run(const struct ctl_arguments *arguments);
#define OPTION(...)
#define COMMAND(name, run, ...) ctl_run run_##run;
#include "trainerd/ctl/base/commands.def"

/* Connect to the daemon of --to, $TRAINERD_TO, or the default. */
enum status ctl_connect(const struct ctl_arguments *arguments, struct client *out);

/* The login by options, environment, or else the file of hosts. Texts belong to these, or to `known`. */
enum status ctl_login(const struct ctl_arguments *arguments, const char *address, struct known_host *known,
                      struct client_login *out);

/* Replace this process by trainerd: flag, operand (NULL: none), --state and --json. */
enum status ctl_become_trainerd(const struct ctl_arguments *arguments, const char *flag, const char *operand);

/* Connect, send one request (its reference is taken) and return its answer. owns  *out: json_decref */
enum status ctl_ask(const struct ctl_arguments *arguments, json_t *request, json_t **out);
/* Connect, and client_pages. */
enum status ctl_pages(const struct ctl_arguments *arguments, json_t *request, const char *list, const char *place,
                      int64_t n_most, json_t **out);

/* Print a value as JSON where --json is given, else by `print`, NULL: not at all. */
typedef void ctl_printer(const json_t *value);
void ctl_print(const struct ctl_arguments *arguments, const json_t *value, ctl_printer *print);
/* Ask, and print the answer. */
enum status ctl_answer(const struct ctl_arguments *arguments, json_t *request, ctl_printer *print);

/* Add --group and --tag to a request. */
void ctl_ask_group(const struct ctl_arguments *arguments, json_t *request);

/* A request that names a job. */
json_t *ctl_job_request(const char *command, const char *name);

#endif
