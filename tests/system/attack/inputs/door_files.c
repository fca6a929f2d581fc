#include "tests/support/process/folder.h"
#include "tests/system/attack/campaign.h"
#include "tests/system/attack/inputs/door.h"
#include "tests/system/attack/inputs/invocation.h"
#include "tests/system/attack/inputs/mutation.h"
#include "tests/system/attack/user.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char job[] =
    "name = \"karate\"\n[dataset]\ngenerator = \"sbm\"\nnodes = 100\ndegree = 4.5\nseed = "
    "7\n[partition]\nparts = 4\nmethod = \"metis\"\n"
    "[model]\nkind = \"gat\"\nlayers = 2\nhidden = 8\nheads = 2\ndropout = 0.5\n[train]\nepochs = 40\nlr "
    "= 0.01\noptimizer = \"adam\"\n"
    "beta1 = 0.9\ncheckpoint_every = 8\n[exchange]\ncodec = \"int8, fp32@20\"\nsampling = "
    "0.5\n[workers]\ncount = 2\nthreads = 1\n"
    "[memory]\nlimit = \"20GiB\"\n[output]\ndir = \"o\"\n";
static const char daemon_file[] =
    "[daemon]\nlisten = \"unix:d.sock\"\nslots = 4\ngpus = 0\nmemory = \"1GiB\"\nmetrics = \"127.0.0.1:0\"\nkill_s = "
    "30.0\nisolation = \"none\"\n"
    "enforce_memory = \"off\"\nmax_log = 268435456\nreserve = 0\nbackoff_s = 1.0\nbackoff_most_s = "
    "60.0\nmax_restarts = 3\n"
    "quota_exempt = \"root\"\nsubmit_users = \"nobody\"\nretain_days = 1.5\nretain_jobs = 10\nmax_connections = "
    "64\nmax_frame "
    "= 1048576\n"
    "hello_timeout = 5.0\nidle_timeout = 600.0\n";
static const char users[] =
    "[ada]\nsecret = \"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"\nuser = \"nobody\"\n"
    "role = \"submit\"\n[eve]\nsecret = \"10112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"\n"
    "user = \"nobody\"\nrole = \"watch\"\n";
static const char token[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";
static const char hosts[] = "# two machines\nnode1 slots=2\nann@node2 port=2222 slots=2\n";
static const char *const settings[] = {
    "train.epochs=3", "model.dropout=0.25", "memory.limit=20GiB",        "exchange.codec=int8, fp32@150",
    "name=x",         "model.kind=sage",    "train.checkpoint_every=10", "output.trace=true"};

void door_write(const char *name, const void *bytes, size_t n)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", user_home(USER_FIRST), name);
    FILE *file = fopen(folder_path(path), "wb");
    HOLDS(file != NULL, "%s: %s", path, strerror(errno));
    size_t n_written = fwrite(bytes, 1, n, file);
    HOLDS(fclose(file) == 0 && n_written == n, "%s: %s", path, strerror(errno));
    cr_assert_eq(chown(folder_path(path), user_uid(USER_FIRST), (gid_t)user_uid(USER_FIRST)), 0);
    cr_assert_eq(chmod(folder_path(path), 0600), 0);
}

size_t door_read(const char *name, char *out)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", user_home(USER_FIRST), name);
    FILE *file = fopen(folder_path(path), "rb");
    HOLDS(file != NULL, "%s: %s", path, strerror(errno));
    size_t n = fread(out, 1, MUTATION_BYTES / 2, file);
    fclose(file);
    return n;
}

void door_mutate(const char *from, const char *to)
{
    static char good[MUTATION_BYTES], bad[MUTATION_BYTES];
    size_t n = door_read(from, good);
    door_write(to, bad, mutation_make(good, n, bad));
}

void door_files_begin(void)
{
    door_write("good.toml", job, sizeof job - 1);
    door_write("good-daemon.toml", daemon_file, sizeof daemon_file - 1);
    door_write("good-users.toml", users, sizeof users - 1);
    door_write("good-token", token, sizeof token - 1);
    door_write("good-hosts", hosts, sizeof hosts - 1);
}

#define RUN(...) invocation_run((const char *const[]){__VA_ARGS__, NULL}, NULL)
#define ALLOWED(...) ((const int[]){__VA_ARGS__, -1})

void door_job_file(void)
{
    door_mutate("good.toml", "job.toml");
    invocation_expect(RUN("trainerd", "--check", "job.toml"), ALLOWED(0, 78), "job.toml");
}

void door_job_setting(void)
{
    static char bad[MUTATION_BYTES];
    const char *good = settings[campaign_draw(sizeof settings / sizeof *settings)];
    size_t n = mutation_make(good, strlen(good), bad);
    for (size_t i = 0; i < n; i++) { /* an argument ends at its first NUL */
        bad[i] = bad[i] == '\0' ? '0' : bad[i];
    }
    invocation_expect(RUN("trainerd", "--check", "good.toml", "--set", bad), ALLOWED(0, 2, 78), "--set|good.toml");
}

static int run_daemon(const char *listen, const char *config, const char *setting)
{
    const char *const arguments[] = {"trainerd",        "--listen", listen,  "--state", "d-state",
                                     "--daemon-config", config,     "--set", setting,   NULL};
    return invocation_run(arguments, "listening on");
}

void door_daemon_config(void)
{
    door_mutate("good-daemon.toml", "daemon.toml");
    invocation_expect(run_daemon("unix:d.sock", "daemon.toml", "reserve=0"), ALLOWED(0, 69, 73, 78),
                      "daemon.toml|daemon.|d-state");
}

void door_users_file(void)
{
    door_mutate("good-users.toml", "users.toml");
    const char *const arguments[] = {
        "trainerd", "--listen", "tcp:127.0.0.1:0", "--state",   "d-state", "--set",          "users_file=users.toml",
        "--set",    "tls=off",  "--set",           "reserve=0", "--set",   "isolation=none", NULL};
    invocation_expect(invocation_run(arguments, "listening on"), ALLOWED(0, 65, 78), "users.toml|users_file");
}

void door_token_file(void)
{
    door_mutate("good-token", "token");
    invocation_expect(
        RUN("trainer-worker", "--join", "127.0.0.1:1", "--token-file", "token", "--join-timeout", "0.01"),
        ALLOWED(65, 66, 69, 78), "token|cannot reach the coordinator");
}

void door_hosts_file(void)
{
    door_mutate("good-hosts", "hosts");
    invocation_expect(RUN("trainer-coordinator", "--config", "good.toml", "--plan", "--set", "workers.launcher=ssh",
                          "--set", "workers.hosts=hosts", "--set", "workers.count=0"),
                      ALLOWED(0, 65, 71, 78), "hosts|parts|slots|workers");
}
