/* Memory and traffic by plan on a real partition: 200 000 nodes of a planted-community graph, mean degree 100, eight parts by METIS.
 *
 * Plans are exact (tests compare them with the memory that is allocated), so nothing is trained here. A ratio with an upper bar is
 * printed as that bar over the ratio.
 */
#include "partition/graph/dataset.h"
#include "partition/part/partition.h"
#include "protocol/job/job.h"
#include "tests/bench/bench.h"
#include "tests/support/model/memory_need.h"

#include <string.h>

#define MEGA 1e-6

static const char graph[] =
    "[dataset]\ngenerator = \"sbm\"\nnodes = 200000\ndegree = 50.0\n[partition]\nparts = 8\n[model]\n"
    "kind = \"gat\"\n";
static const char sage[] = "kind = \"sage\"\nlayers = 3\nhidden = 256\ndropout = 0.5";
static const char gat[] =
    "kind = \"gat\"\nlayers = 3\nhidden = 64\nheads = 4\ndropout = 0.5\nattention_dropout = 0.5";
static const char gcn[] = "kind = \"gcn\"\nlayers = 3\nhidden = 256\ndropout = 0.5";

/* A line for value against reference, in MB: reference over value. */
static void line(const char *figure, int prefetch, int64_t value, int64_t reference, double bar)
{
    char name[96];
    snprintf(name, sizeof name, "%s, prefetch %d", figure, prefetch);
    bench_line(name, MEGA * (double)value, "MB", MEGA * (double)reference, (double)reference / (double)value, bar);
}

static void figures(const struct memory_parts *parts)
{
    int64_t sage_one = memory_need(parts, sage, 1, 0, "auto").own;
    int64_t gat_one[2] = {memory_need(parts, gat, 1, 0, "auto").own, memory_need(parts, gat, 1, 0, "always").own};
    for (int prefetch = 0; prefetch < 2; prefetch++) {
        /* Of SAGE, fused chains save one worker a quarter, and none in a halo pass, where the peak of eight is. */
        double bar = prefetch == 0 ? 6.0 : 5.0, fused_bar = prefetch == 0 ? 5.8 : 4.7;
        struct memory_need s = memory_need(parts, sage, 8, prefetch, "auto");
        struct memory_need g[2] = {memory_need(parts, gat, 8, prefetch, "auto"),
                                   memory_need(parts, gat, 8, prefetch, "always")};
        line("sage 8 workers against 1", prefetch, s.own, sage_one, fused_bar);
        line("gat 8 workers against 1, all saved", prefetch, g[0].own, gat_one[0], bar);
        line("gat 8 workers against 1, recomputed", prefetch, g[1].own, gat_one[1], bar);
        line("sage against the vanilla scheme", prefetch, s.own, s.vanilla, 2.0);
        line("gat against the vanilla scheme, recomputed", prefetch, g[1].own, g[1].vanilla, 4.0);
    }
    int64_t plain = memory_need(parts, gcn, 1, 0, "always").own;
    bench_line("gat against 2.8 x gcn, 1 worker, recomputed", MEGA * (double)gat_one[1], "MB", MEGA * (double)plain,
               2.8 * (double)plain / (double)gat_one[1], 1.0);
    struct memory_need g = memory_need(parts, gat, 8, 1, "auto");
    bench_line("gat traffic against 1.05 x 2 halo rows K(D+1)", MEGA * (double)g.n_wire, "MB",
               MEGA * (double)g.n_wire_least, 1.05 * (double)g.n_wire_least / (double)g.n_wire, 1.0);
}

/* Parameters, their gradients and moments where no node has features. */
static void embedding_figures(struct memory_parts parts)
{
    parts.n_feature = 0;
    const char *model = "kind = \"gcn\"\nlayers = 2\nhidden = 64";
    int64_t one = memory_need(&parts, model, 1, 1, "auto").parameters,
            eight = memory_need(&parts, model, 8, 1, "auto").parameters;
    bench_line("embeddings of all nodes, 8 workers against 1", MEGA * (double)eight, "MB", MEGA * (double)one,
               (double)one / (double)eight, 7.0);
}

int main(void)
{
    static struct job job;
    struct dataset dataset;
    struct partition partition;
    struct part_sizes *sizes;
    enum status status = job_load_text(graph, strlen(graph), "graph", NULL, 0, &job);
    status = status == STATUS_OK ? dataset_load(&job, &dataset) : status;
    status = status == STATUS_OK ? partition_build(&dataset, &job, &partition) : status;
    status = status == STATUS_OK ? part_sizes_build(&dataset, &partition, &sizes) : status;
    if (status != STATUS_OK) {
        fprintf(stderr, "%s\n", status_reason());
        return status_exit_code(status);
    }
    const struct memory_parts parts = {
        .n_part = partition.n_part, .sizes = sizes, .n_feature = dataset.n_feature, .n_class = dataset.n_class};
    bench_header();
    figures(&parts);
    embedding_figures(parts);
    part_sizes_release(sizes, partition.n_part);
    partition_release(&partition);
    dataset_release(&dataset);
    return 0;
}
