/* The chart of a job: three panels over one axis of epochs, bytes or time, with loss, metrics, and time by phase.
 * That of several jobs: loss, valid and test metrics, a curve for each job. */
#ifndef TRAINERD_CTL_CHART_H
#define TRAINERD_CTL_CHART_H

#include "trainerd/ctl/draw/canvas.h"
#include "trainerd/ctl/draw/curves.h"

#define CHART_WIDTH 900.0
#define CHART_HEIGHT 720.0

#define CHART_JOBS_MOST 8

/* A job in a chart of several. */
struct chart_job {
    const char *name;
    const struct curves *curves; /* all along the same axis */
};

void chart_draw(struct canvas *canvas, const char *title, const struct curves *curves);

/* n  1 to CHART_JOBS_MOST */
void chart_compare(struct canvas *canvas, const char *title, const struct chart_job *job, int n);

#endif
