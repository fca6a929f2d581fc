#include "partition/graph/undirected.h"
#include "tests/support/graphs/tiny_graph.h"

#include <criterion/criterion.h>
#include <string.h>

Test(undirected, each_neighbour_once_in_either_direction_and_no_loops)
{
    for (int kind = 0; kind < 6; kind++) {
        struct tiny_graph tiny = {.n_node = 30,
                                  .n_draw = kind < 4 ? 150 : 600,
                                  .symmetric = kind < 4 && kind & 1,
                                  .loops = kind & 2,
                                  .n_relation = kind < 4 ? 0 : 3,
                                  .features = TINY_FEATURES_NONE};
        struct dataset dataset = tiny_build(&tiny);
        struct undirected graph;
        cr_assert_eq(undirected_build(&dataset, INT32_MAX, &graph), STATUS_OK);
        int64_t n_entry = 0;
        for (uint32_t v = 0; v < 30; v++) {
            for (uint32_t u = 0; u < 30; u++) {
                if (u != v && (tiny_edge(&dataset, u, v) >= 0 || tiny_edge(&dataset, v, u) >= 0)) {
                    cr_assert_eq(graph.indices[n_entry], (int32_t)u);
                    n_entry++;
                }
            }
            cr_assert_eq(graph.indptr[v + 1], n_entry);
        }
        cr_assert_eq(graph.n_entry, n_entry);
        undirected_release(&graph);
        tiny_release(&dataset);
    }
}

Test(undirected, a_graph_past_the_limit_is_refused_with_the_limit_and_what_to_do)
{
    const uint32_t pair[3][2] = {{0, 1}, {1, 2}, {2, 3}};
    struct dataset dataset = tiny_from_edges(4, 3, pair, false);
    struct undirected graph;
    cr_assert_eq(undirected_build(&dataset, 6, &graph), STATUS_OK);
    undirected_release(&graph);
    cr_assert_eq(undirected_build(&dataset, 5, &graph), STATUS_DATA);
    cr_assert_str_eq(status_reason(), "the graph has 6 edge entries once made undirected, METIS takes at most 5: "
                                      "use partition.method = \"block\", \"random\" or \"file\"");
    tiny_release(&dataset);
}
