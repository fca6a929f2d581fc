/* The command line of trainer-partition: partition a data set once, report the quality, save the result. */
#include "partition/files/mapped.h"
#include "partition/part/part.h"
#include "partition/part/partition.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/base/program.h"
#include "protocol/base/version.h"
#include "protocol/files/file.h"
#include "protocol/transport/transport.h"

#include <getopt.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PART_DIGITS 5 /* of the largest part number */

static const char help_text[] =
    "usage: trainer-partition --config FILE [--set SECTION.KEY=VALUE ...] [--out DIR] [--json]\n"
    "       trainer-partition --count-splits PATH\n"
    "\n"
    "Cuts the job's data set into its parts and prints how good the partition is.\n"
    "\n"
    "  --config FILE   the job file; [dataset] and [partition] are what matters\n"
    "  --set KEY=VALUE overrides a key, as --set partition.parts=8\n"
    "  --out DIR       leave DIR/partition.txt (one part number per line, line i for node i) and\n"
    "                  DIR/part.0 ... DIR/part.K-1, the parts as workers get them\n"
    "  --json          print the figures as JSON on stdout\n"
    "  --count-splits PATH  print how many splits a data set has (dataset.split), and nothing else\n"
    "  --version, --help, -h\n"
    "\n"
    "Train on it with --set partition.method=file --set partition.file=DIR/partition.txt, or just again with the\n"
    "same job: partition.cache keeps it. Exit codes as trainerd's.\n";

enum {
    OPTION_CONFIG = 'c',
    OPTION_SET = 's',
    OPTION_OUT = 'o',
    OPTION_JSON = 'j',
    OPTION_SPLITS = 'p',
    OPTION_VERSION = 'v',
    OPTION_HELP = 'h'
};

static const struct option options[] = {{"config", required_argument, NULL, OPTION_CONFIG},
                                        {"set", required_argument, NULL, OPTION_SET},
                                        {"out", required_argument, NULL, OPTION_OUT},
                                        {"json", no_argument, NULL, OPTION_JSON},
                                        {"count-splits", required_argument, NULL, OPTION_SPLITS},
                                        {"version", no_argument, NULL, OPTION_VERSION},
                                        {"help", no_argument, NULL, OPTION_HELP},
                                        {NULL, 0, NULL, 0}};

struct request {
    const char *config, *out, *splits;
    const char **set; /* room for every argument */
    size_t n_set;
    bool json;
    bool prints; /* --help or --version was printed */
};

static void option_read(struct request *request, int option)
{
    switch (option) {
    case OPTION_CONFIG:
        request->config = optarg;
        break;
    case OPTION_SET:
        request->set[request->n_set++] = optarg;
        break;
    case OPTION_OUT:
        request->out = optarg;
        break;
    case OPTION_JSON:
        request->json = true;
        break;
    case OPTION_SPLITS:
        request->splits = optarg;
        break;
    default:
        if (option == OPTION_VERSION) {
            printf("trainer-partition " TRAINERD_VERSION "\n%s\n", partition_library());
        } else {
            fputs(help_text, stdout);
        }
        request->prints = true;
    }
}

static enum status arguments_read(int argc, char **argv, struct request *request)
{
    opterr = 0;
    while (!request->prints) {
        int at = optind, option = getopt_long(argc, argv, "+:h", options, NULL);
        if (option == -1) {
            break;
        }
        if (option == ':' || option == '?') {
            return status_fail(STATUS_USAGE,
                               option == ':' ? "%s needs a value; see trainer-partition --help"
                                             : "unknown option '%s'; see trainer-partition --help",
                               argv[at]);
        }
        option_read(request, option);
    }
    if (!request->prints && optind < argc) {
        return status_fail(STATUS_USAGE, "unexpected argument '%s'; see trainer-partition --help", argv[optind]);
    }
    if (!request->prints && request->splits != NULL && request->config != NULL) {
        return status_fail(STATUS_USAGE, "--count-splits goes without --config; see trainer-partition --help");
    }
    if (!request->prints && request->config == NULL && request->splits == NULL) {
        return status_fail(STATUS_USAGE, "expected --config FILE; see trainer-partition --help");
    }
    return STATUS_OK;
}

/* Everything known once the graph is partitioned. */
struct cut {
    struct job job;
    struct dataset dataset;
    struct partition partition;
    struct partition_quality quality;
    struct part_sizes *sizes;
};

static int64_t halo_of(const struct cut *cut, int32_t part)
{
    const struct part_rows received = part_halo_received(&cut->sizes[part].halo, PART_DIRECTION_IN, PART_N_HOP_MOST);
    return part_rows_all(&received);
}

static void print_text(const struct cut *cut)
{
    const struct partition_quality *q = &cut->quality;
    fprintf(stderr, "%s: %lld nodes, %lld edges, %d part%s by %s\n", cut->dataset.name,
            (long long)cut->dataset.n_node, (long long)cut->dataset.n_edge, cut->partition.n_part,
            cut->partition.n_part == 1 ? "" : "s", job_choice_text("partition", "method", cut->job.partition.method));
    fprintf(stderr, "cut %lld edges, halo %lld rows (%.3f per node), imbalance %.3f nodes %.3f edges %.3f halo\n",
            (long long)q->n_cut, (long long)q->n_halo, q->halo_ratio, q->imbalance_node, q->imbalance_edge,
            q->imbalance_halo);
    fprintf(stderr, "%8s %12s %14s %12s %16s\n", "part", "nodes", "edges", "halo", "bytes");
    for (int32_t p = 0; p < cut->partition.n_part; p++) {
        const struct part_sizes *s = &cut->sizes[p];
        fprintf(stderr, "%8d %12lld %14lld %12lld %16lld\n", p, (long long)s->n_own, (long long)s->n_edge,
                (long long)halo_of(cut, p), (long long)s->n_bytes);
    }
}

static enum status print_json(const struct cut *cut)
{
    const struct partition_quality *q = &cut->quality;
    json_t *parts = json_array();
    for (int32_t p = 0; p < cut->partition.n_part; p++) {
        const struct part_sizes *s = &cut->sizes[p];
        json_array_append_new(parts, json_pack("{s:i, s:I, s:I, s:I, s:I}", "part", (int)p, "nodes",
                                               (json_int_t)s->n_own, "edges", (json_int_t)s->n_edge, "halo",
                                               (json_int_t)halo_of(cut, p), "bytes", (json_int_t)s->n_bytes));
    }
    json_t *all = json_pack("{s:s, s:I, s:I, s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:o}", "dataset", cut->dataset.name,
                            "nodes", (json_int_t)cut->dataset.n_node, "edges", (json_int_t)cut->dataset.n_edge,
                            "method", job_choice_text("partition", "method", cut->job.partition.method), "cut_edges",
                            (json_int_t)q->n_cut, "halo_rows", (json_int_t)q->n_halo, "halo_ratio", q->halo_ratio,
                            "imbalance_nodes", q->imbalance_node, "imbalance_edges", q->imbalance_edge,
                            "imbalance_halo", q->imbalance_halo, "parts", parts);
    bool printed = all != NULL && json_dumpf(all, stdout, JSON_INDENT(1)) == 0 && putchar('\n') != EOF &&
                   fflush(stdout) == 0;
    json_decref(all);
    return printed ? STATUS_OK : status_fail(STATUS_IO, "cannot write the figures to stdout");
}

/* One part number per line, as partition.method = "file" reads it. */
static enum status save_owners(const struct cut *cut, const char *path)
{
    size_t n_room = (size_t)cut->partition.n_node * (PART_DIGITS + 1) + 2;
    char *text;
    enum status status = memory_acquire(MEMORY_OTHER, n_room, 1, &text);
    if (status != STATUS_OK) {
        return status;
    }
    size_t n = 0;
    for (int64_t v = 0; v < cut->partition.n_node; v++) {
        n += (size_t)snprintf(text + n, n_room - n, "%d\n", cut->partition.owner[v]);
    }
    const struct iovec piece = {.iov_base = text, .iov_len = n};
    status = file_replace(path, &piece, 1);
    memory_release(MEMORY_OTHER, text, n_room, 1);
    return status;
}

static enum status save_part(struct part_encoder *encoder, int32_t part, const char *path)
{
    struct iovec piece;
    enum status status = part_encoder_encode(encoder, part, &piece.iov_base, &piece.iov_len);
    if (status == STATUS_OK) {
        status = file_replace(path, &piece, 1);
        memory_release(MEMORY_OTHER, piece.iov_base, piece.iov_len, 1);
    }
    return status;
}

static enum status save(const struct cut *cut, const char *folder)
{
    char path[PATH_MAX];
    if (strlen(folder) + sizeof "/partition.txt.tmp" > PATH_MAX) {
        return status_fail(STATUS_CREATE, "cannot make folder '%s': its name is too long for this system", folder);
    }
    enum status status = file_folder_make(folder, NULL);
    if (status == STATUS_OK) {
        snprintf(path, sizeof path, "%s/partition.txt", folder);
        status = save_owners(cut, path);
    }
    if (status != STATUS_OK) {
        return status;
    }
    struct part_encoder *encoder;
    status = part_encoder_open(&cut->dataset, &cut->partition, &encoder);
    if (status != STATUS_OK) {
        return status;
    }
    for (int32_t p = 0; p < cut->partition.n_part && status == STATUS_OK; p++) {
        snprintf(path, sizeof path, "%s/part.%d", folder, p);
        status = save_part(encoder, p, path);
    }
    part_encoder_close(encoder);
    return status;
}

static enum status run(const struct request *request)
{
    struct cut cut = {0};
    enum status status = job_load(request->config, request->set, request->n_set, &cut.job);
    if (status == STATUS_OK) {
        status = job_home(&cut.job);
    }
    if (status == STATUS_OK && cut.job.workers.count == 0) {
        status = cut.job.partition.parts > 0
                     ? STATUS_OK
                     : status_fail(STATUS_CONFIG,
                                   "%s: the number of parts follows the workers, which the launcher decides when the "
                                   "job runs: expected partition.parts or workers.count",
                                   request->config);
        cut.job.workers.count = cut.job.partition.parts;
    }
    if (status == STATUS_OK) {
        status = dataset_load(&cut.job, &cut.dataset);
    }
    if (status != STATUS_OK) {
        return status;
    }
    status = partition_parts_choose(&cut.dataset, &cut.job);
    if (status == STATUS_OK) {
        status = partition_build(&cut.dataset, &cut.job, &cut.partition);
    }
    if (status == STATUS_OK) {
        status = partition_measure(&cut.dataset, &cut.partition, &cut.quality);
        if (status == STATUS_OK) {
            status = part_sizes_build(&cut.dataset, &cut.partition, &cut.sizes);
        }
        if (status == STATUS_OK && request->out != NULL) {
            status = save(&cut, request->out);
        }
        if (status == STATUS_OK && !request->json) {
            print_text(&cut);
        } else if (status == STATUS_OK) {
            status = print_json(&cut);
        }
        part_sizes_release(cut.sizes, cut.partition.n_part);
        partition_release(&cut.partition);
    }
    dataset_release(&cut.dataset);
    return mapped_check(status);
}

static enum status count_splits(const char *sent)
{
    int64_t n = 0;
    char path[JOB_TEXT_BYTES];
    bool fits = snprintf(path, sizeof path, "%s", sent) < (int)sizeof path;
    enum status status = fits ? job_home_path("--splits", path)
                              : status_fail(STATUS_USAGE, "--splits: the path is too long, expected at most %d bytes",
                                            JOB_TEXT_BYTES - 1);
    if (status == STATUS_OK) {
        status = dataset_count_splits(path, &n);
    }
    if (status == STATUS_OK && (printf("%lld\n", (long long)n) < 0 || fflush(stdout) != 0)) {
        status = status_fail(STATUS_IO, "cannot write to stdout");
    }
    return status;
}

static void print_failure(enum status status)
{
    fprintf(stderr, "trainer-partition: %s: %s\n", status_text(status), status_reason());
}

int main(int argc, char **argv)
{
    program_begin();
    transport_calm();
    mapped_install(print_failure);
    log_init("trainer-partition", -1, LOG_LEVEL_WARN);
    struct request request = {.set = memory_alloc((size_t)argc, sizeof *request.set)};
    enum status status = arguments_read(argc, argv, &request);
    if (status == STATUS_OK && !request.prints) {
        status = request.splits != NULL ? count_splits(request.splits) : run(&request);
    }
    free(request.set);
    if (status != STATUS_OK) {
        print_failure(status);
    }
    return status_exit_code(status);
}
