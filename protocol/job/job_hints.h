/* Suggestions for an unknown name in a job file: the nearest names, and those of other tools (job_aliases.def), as
 * text for a message.
 *
 * Works only on names, without values and places.
 */
#ifndef PROTOCOL_JOB_HINTS_H
#define PROTOCOL_JOB_HINTS_H

#include "protocol/job/job_keys.h"

#define JOB_HINT_BYTES 512

/* Of an unknown key: "did you mean 'train.lr'?". *meant_out: the key; NULL: no key is near, and the hint is the list
 * of the section's keys. */
void job_hint_key(const char *section, const char *name, char out[JOB_HINT_BYTES], const struct job_key **meant_out);

/* What to know of a name of another tool that stands for no key; NULL: it is not known. */
const char *job_hint_foreign(const char *name);

/* Of an unknown section: "did you mean [train]?". Returns it; NULL: no section is near, and the hint is their
 * list. */
const char *job_hint_section(const char *name, char out[JOB_HINT_BYTES]);

/* Of a text that is no choice of this key: " (did you mean \"gcn\"?)", or "". */
void job_hint_choice(const struct job_key *key, const char *text, char out[JOB_HINT_BYTES]);

/* A key that was withdrawn (job_aliases.def). */
struct job_withdrawn {
    const char *section, *key, *value; /* its default */
    const char *since, *instead;
};

/* NULL: there was no such key. */
const struct job_withdrawn *job_withdrawn_find(const char *section, const char *name);

#endif
