/* Rules across keys, in several files: how a broken one is reported. Private to job_rules*.c. */
#ifndef PROTOCOL_JOB_RULES_H
#define PROTOCOL_JOB_RULES_H

#include "protocol/job/job_keys.h"

/* Context of the checks. */
struct check {
    const struct job_places *places;
    struct mistakes *mistakes;
};

/* A rule is broken at the place of one key. The sentence names every key that the rule reads. */
void rule_broken(const struct check *check, enum job_key_id key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Rules on one key each: those that are broken are reported, in this order. The reason is such a sentence. */
struct rule {
    enum job_key_id key;
    bool is_broken;
    const char *why;
};
void rules_check(const struct check *check, const struct rule *rules, size_t n_rule);

#define BROKEN(key, ...) rule_broken(check, JOB_KEY_##key, __VA_ARGS__)

/* Is the key in the file, or set? */
bool job_is_given(const struct job_places *places, enum job_key_id key);

/* Rules on keys that a program which is the whole model has no use for. */
void job_check_program(const struct job *job, const struct check *check);

/* Rules on the prediction of links. / on what a trained model of links is asked. / on what follows the training. */
void job_check_links(const struct job *job, const struct check *check);
void job_check_asked(const struct job *job, const struct check *check);
void job_check_post(const struct job *job, const struct check *check);

#endif
