/* The picture of a job: loss, metrics and where each epoch's time went, above each other over one axis of epochs. */
#ifndef TRAINERD_CTL_CHART_H
#define TRAINERD_CTL_CHART_H

#include "trainerd/ctl/draw/canvas.h"
#include "trainerd/ctl/draw/curves.h"

#define CHART_WIDTH 900.0
#define CHART_HEIGHT 720.0

void chart_draw(struct canvas *canvas, const char *title, const struct curves *curves);

#endif
