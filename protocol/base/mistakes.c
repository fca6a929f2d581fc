#include "protocol/base/mistakes.h"

#include "protocol/base/amounts.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define COUNT_BYTES 64 /* for the last line, if mistakes are left out */

void mistakes_take(struct mistakes *mistakes, enum status status)
{
    if (status == STATUS_OK) {
        return;
    }
    mistakes->status = mistakes->n == 0 ? status : mistakes->status;
    mistakes->n++;
    size_t n = strlen(status_reason());
    if (mistakes->n_left_out > 0 || mistakes->at + n + COUNT_BYTES >= sizeof mistakes->text) {
        mistakes->n_left_out++;
        return;
    }
    mistakes->at += (size_t)snprintf(mistakes->text + mistakes->at, sizeof mistakes->text - mistakes->at, "%s%s",
                                     mistakes->at > 0 ? "\n" : "", status_reason());
}

enum status mistakes_end(struct mistakes *mistakes)
{
    if (mistakes->n == 0) {
        return STATUS_OK;
    }
    if (mistakes->n_left_out > 0) {
        snprintf(mistakes->text + mistakes->at, sizeof mistakes->text - mistakes->at, "\n%zu more mistake%s",
                 mistakes->n_left_out, mistakes->n_left_out == 1 ? "" : "s");
    }
    return status_fail_lines(mistakes->status, mistakes->text);
}

/* --- names --- */

int name_find(const char *const names[], int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

int name_distance(const char *a, const char *b)
{
    enum { MOST = 40 };
    int n_a = (int)strlen(a), n_b = (int)strlen(b);
    if (n_a > MOST || n_b > MOST) {
        return MOST;
    }
    int64_t edits[MOST + 1][MOST + 1];
    for (int i = 0; i <= n_a; i++) {
        for (int j = 0; j <= n_b; j++) {
            if (i == 0 || j == 0) {
                edits[i][j] = i + j;
                continue;
            }
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            int64_t best = smaller(edits[i - 1][j], edits[i][j - 1]) + 1;
            best = smaller(best, edits[i - 1][j - 1] + (x != y));
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && y == tolower((unsigned char)a[i - 2])) {
                best = smaller(best, edits[i - 2][j - 2] + 1);
            }
            edits[i][j] = best;
        }
    }
    return (int)edits[n_a][n_b];
}

int name_slip(const char *name)
{
    size_t n = strlen(name);
    return n < 6 ? 1 : n < 9 ? 2 : 3;
}

void nearest_init(const char *name, struct nearest *out)
{
    *out = (struct nearest){.name = name, .distance = name_slip(name) + 1};
}

void nearest_offer(struct nearest *nearest, const char *offered)
{
    int distance = name_distance(nearest->name, offered);
    if (distance < nearest->distance) {
        nearest->distance = distance;
        nearest->best = offered;
    }
}
