/* The chart of a job: three panels over one axis of epochs, with loss, metrics, and time by phase. */
#ifndef TRAINERD_CTL_CHART_H
#define TRAINERD_CTL_CHART_H

#include "trainerd/ctl/draw/canvas.h"
#include "trainerd/ctl/draw/curves.h"

#define CHART_WIDTH 900.0
#define CHART_HEIGHT 720.0

void chart_draw(struct canvas *canvas, const char *title, const struct curves *curves);

#endif
