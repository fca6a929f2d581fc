/* A job's model as a program and as lists of steps. */
#ifndef TESTS_SUPPORT_LOWERED_H
#define TESTS_SUPPORT_LOWERED_H

#include "models/steps/step.h"

struct lowered {
    struct program program;
    struct step_lists lists;
};

/* The program of the [model] section `model` for dense features and 8 classes; R-GCN with 3 relations. Release with program_release. */
void lowered_program(const char *model, int64_t n_feature, struct program *out);

/* The same, and its steps. Release with lowered_close. */
void lowered_open(struct lowered *w, const char *model, int64_t n_feature);
void lowered_close(struct lowered *w);

#endif
