/* Figures as text, with their units. A text lives to the end of the expression that makes it: pass it on, or copy it.
 */
#ifndef TRAINERD_FIGURE_H
#define TRAINERD_FIGURE_H

#include <stdint.h>

#define FIGURE_BYTES 48

struct figure {
    char text[FIGURE_BYTES];
};

/* "-" when not finite, as of the next four. */
struct figure figure_bytes(double n_bytes);     /* "640 B", "1.5 MB" */
struct figure figure_seconds(double seconds);   /* "0.250 s", "3 min 20 s", "2 h 05 min", "3 d 11 h" */
struct figure figure_number(double value);      /* four digits */
struct figure figure_whole(double value);       /* all digits of a whole number */
struct figure figure_fraction(double fraction); /* in per cent; above 1 it is no fraction but an error: as it is */
/* "1 epoch", "2 epochs". noun less than FIGURE_BYTES - 22 bytes */
struct figure figure_count(int64_t n, const char *noun);

#endif
