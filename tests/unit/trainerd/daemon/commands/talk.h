/* A client's talk with commands that stand on real jobs, a real server and a supervisor without processes.
 *
 * TestSuite(x, .init = talk_begin, .fini = talk_end). What fails here ends the test.
 */
#ifndef TESTS_UNIT_COMMANDS_TALK_H
#define TESTS_UNIT_COMMANDS_TALK_H

#include "tests/support/daemon/client.h"
#include "tests/unit/trainerd/daemon/commands/fake_supervisor.h"
#include "trainerd/daemon/commands/commands.h"

#define JOB "[dataset]\\ngenerator = \\\"karate\\\"\\n"
#define SUBMIT(more) "{'v':1,'id':1,'cmd':'submit','folder':'/tmp','config':'" JOB "'" more "}"
#define CMD(cmd) "{'v':1,'cmd':'" cmd "'}"
#define CMD_OF(cmd, fields) "{'v':1,'cmd':'" cmd "'," fields "}"
#define STRANGER 65534 /* a user who is neither root nor us */

extern struct server *server;
extern struct jobs *jobs;
extern struct supervisor supervisor;
extern struct client client;
extern struct gpus gpus; /* two, 0 and 3, of the second of which the number alone is known */

/* To be changed before talk_begin. */
extern struct jobs_options talk_jobs;
extern struct commands_options talk_options;

void talk_begin(void);
void talk_end(void);

/* Requests and expected answers are written with ' for " and ` for '. The next line / send a request / and get
 * its answer. owns  the caller has the reference */
json_t *answer_of(struct client *from);
void tell(struct client *from, const char *request);
json_t *ask_by(struct client *from, const char *request);
json_t *ask(const char *request);

/* The answer has at least these fields; objects by their keys, arrays element by element. Takes the reference. */
void expect_answer(json_t *answer, const char *expected);
/* It is a refusal with this exit code, and these words in its reason. Takes the reference. */
void expect_failure(json_t *answer, int exit_code, const char *part);
/* The same of our own client's requests. */
void gives(const char *request, const char *expected);
void fails(const char *request, int exit_code, const char *part);
#define OK "{'ok':true}"

int64_t number(const json_t *object, const char *key);
const char *text(const json_t *object, const char *key);

/* Submit; the job's number. */
int64_t submit(const char *request);

/* A client of another user, STRANGER; the test is skipped where we cannot be another. */
void other_user_open(struct client *other_user);

/* Let a job go to a state / begin and run. */
void job_become(int64_t id, enum job_state state);
void job_run(int64_t id);

/* How many jobs there are. */
size_t n_jobs(void);

/* So many of its epochs are done. */
void job_epochs(int64_t id, int64_t n);

/* The job's folder, and a file in it, appended to. */
void job_write(int64_t id, const char *name, const char *words);

#endif
