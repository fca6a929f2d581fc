/* A text traced for a layer of 32 columns to 64, over a graph with weights, three relations and two edge features. */
#ifndef TESTS_VERTEX_CASE_H
#define TESTS_VERTEX_CASE_H

#include "protocol/vertex/trace.h"

#define VERTEX_CASE_ORIGIN "case.gnn"

/* The facts above. */
struct vertex_facts vertex_case_facts(void);

/* Parse, trace and print. owns  the caller frees *printed_out, written on success */
enum status vertex_case_trace(const char *text, size_t n, const struct vertex_args *args, struct vertex_facts facts,
                              char **printed_out);

/* "heads=4 slope=0.2 last=true aggregator=max" */
struct vertex_args vertex_case_args(const char *text);

#endif
