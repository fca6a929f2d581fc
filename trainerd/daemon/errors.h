/* How commands and jobs end: the page docs/errors.md, made from the lists of statuses and of reasons. */
#ifndef TRAINERD_DAEMON_ERRORS_H
#define TRAINERD_DAEMON_ERRORS_H

#include <stdio.h>

void errors_describe(FILE *file);

#endif
