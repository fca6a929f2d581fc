#include "tests/support/vertex_case.h"

#include <stdlib.h>
#include <string.h>

struct vertex_facts vertex_case_facts(void)
{
    return (struct vertex_facts){.n_in = 32,
                                 .n_out = 64,
                                 .n_node = 100,
                                 .n_edge = 1000,
                                 .n_relation = 3,
                                 .n_type = 1,
                                 .n_class = 7,
                                 .n_edge_feature = 2,
                                 .mean_degree = 10.0,
                                 .mean_log_degree = 2.0};
}

static enum status trace_tree(const struct vertex_tree *tree, const struct vertex_args *args,
                              struct vertex_facts *facts, char **printed_out)
{
    struct vertex_trace trace;
    bool is_model = false;
    enum status status = vertex_entry(tree, &is_model);
    if (is_model) {
        facts->index = -1;
        facts->is_last = true;
    }
    status = status == STATUS_OK ? vertex_trace_build(tree, args, facts, &trace) : status;
    if (status != STATUS_OK) {
        return status;
    }
    size_t n = 0;
    FILE *file = open_memstream(printed_out, &n);
    vertex_trace_print(&trace, file);
    fclose(file);
    vertex_trace_release(&trace);
    return STATUS_OK;
}

enum status vertex_case_trace(const char *text, size_t n, const struct vertex_args *args, struct vertex_facts facts,
                              char **printed_out)
{
    const struct vertex_args nothing = {0};
    struct vertex_tree tree;
    enum status status = vertex_tree_parse(text, n, VERTEX_CASE_ORIGIN, &tree);
    if (status == STATUS_OK) {
        status = trace_tree(&tree, args != NULL ? args : &nothing, &facts, printed_out);
        vertex_tree_release(&tree);
    }
    return status;
}

struct vertex_args vertex_case_args(const char *text)
{
    struct vertex_args args = {0};
    while (*text != '\0') {
        struct vertex_arg *arg = &args.of[args.n++];
        char value[VERTEX_ARG_BYTES], *end;
        int used = 0;
        sscanf(text, " %63[^= ]=%63[^ ]%n", arg->name, value, &used);
        text += used;
        arg->number = strtod(value, &end);
        if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0) {
            arg->kind = VERTEX_ARG_BOOL;
            arg->number = value[0] == 't';
        } else if (*end != '\0') {
            arg->kind = VERTEX_ARG_TEXT;
            snprintf(arg->text, sizeof arg->text, "%s", value);
        }
    }
    return args;
}
