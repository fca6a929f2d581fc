/* Which jobs one pass over the queue looks at, so that no user makes passes long. */
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "trainerd/daemon/jobs/queue.h"

#include <stdlib.h>

/* A user with jobs that wait. */
struct line {
    uid_t uid;
    size_t n;      /* of them */
    size_t *first; /* n_first places in the list of jobs, a heap; NULL: all are looked at */
    size_t n_first;
};

struct lines {
    struct line *line; /* n, in no order */
    size_t n, capacity;
    size_t last; /* found: a user's jobs follow each other */
};

static struct line *line_of(struct lines *lines, uid_t uid)
{
    if (lines->n > 0 && lines->line[lines->last].uid == uid) {
        return &lines->line[lines->last];
    }
    for (lines->last = 0; lines->last < lines->n && lines->line[lines->last].uid != uid; lines->last++) {
    }
    if (lines->last == lines->n) {
        if (lines->n == lines->capacity) {
            lines->capacity = lines->capacity > 0 ? 2 * lines->capacity : 16;
            lines->line = realloc(lines->line, lines->capacity * sizeof *lines->line);
            ASSERT(lines->line != NULL);
        }
        lines->line[lines->n++] = (struct line){.uid = uid};
    }
    return &lines->line[lines->last];
}

/* Is the job at `a` behind the one at `b` in their user's order? They are in the order of their numbers. */
static bool is_behind(const struct job_record *const *jobs, size_t a, size_t b)
{
    return jobs[a]->priority != jobs[b]->priority ? jobs[a]->priority < jobs[b]->priority : a > b;
}

/* Let the place at the top of the heap, whose first is behind all others, find its own. */
static void sift(struct line *line, const struct job_record *const *jobs)
{
    for (size_t at = 0;;) {
        size_t child = 2 * at + 1;
        if (child >= line->n_first) {
            return;
        }
        child += child + 1 < line->n_first && is_behind(jobs, line->first[child + 1], line->first[child]);
        if (!is_behind(jobs, line->first[child], line->first[at])) {
            return;
        }
        size_t moved = line->first[at];
        line->first[at] = line->first[child];
        line->first[child] = moved;
        at = child;
    }
}

/* Take a job in that is before the last of those that are there, or for which there is room. */
static void line_add(struct line *line, const struct job_record *const *jobs, size_t place, size_t n_most)
{
    if (line->n_first == n_most) {
        if (is_behind(jobs, line->first[0], place)) {
            line->first[0] = place;
            sift(line, jobs);
        }
        return;
    }
    size_t at = line->n_first++;
    for (; at > 0 && is_behind(jobs, place, line->first[(at - 1) / 2]); at = (at - 1) / 2) {
        line->first[at] = line->first[(at - 1) / 2];
    }
    line->first[at] = place;
}

/* How many of each user's. */
static size_t n_of_each(const struct lines *lines)
{
    size_t n = QUEUE_FRONT_MOST / (lines->n > 0 ? lines->n : 1);
    return n > QUEUE_FRONT_LEAST ? n : QUEUE_FRONT_LEAST;
}

size_t queue_front(const struct job_record *const *jobs, size_t n, bool *is_front_out)
{
    struct lines lines = {0};
    size_t n_front = 0;
    for (size_t i = 0; i < n; i++) {
        line_of(&lines, jobs[i]->uid)->n += jobs[i]->state == JOB_STATE_QUEUED;
    }
    size_t n_most = n_of_each(&lines);
    for (size_t i = 0; i < lines.n; i++) {
        lines.line[i].first = lines.line[i].n > n_most ? memory_alloc(n_most, sizeof *lines.line[i].first) : NULL;
    }
    for (size_t i = 0; i < n; i++) {
        struct line *line = line_of(&lines, jobs[i]->uid);
        is_front_out[i] = line->first == NULL || jobs[i]->state != JOB_STATE_QUEUED || jobs[i]->queued.planning > 0;
        if (!is_front_out[i]) {
            line_add(line, jobs, i, n_most);
        }
    }
    for (size_t i = 0; i < lines.n; i++) {
        for (size_t k = 0; k < lines.line[i].n_first; k++) {
            is_front_out[lines.line[i].first[k]] = true;
        }
        free(lines.line[i].first);
    }
    for (size_t i = 0; i < n; i++) {
        n_front += is_front_out[i];
    }
    free(lines.line);
    return n_front;
}
