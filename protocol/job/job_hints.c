#include "protocol/job/job_hints.h"

#include "protocol/base/mistakes.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct alias {
    const char *name, *section, *key, *words;
} aliases[] = {
#define JOB_ALIAS(name, section, key) {#name, #section, #key, NULL},
#define JOB_FOREIGN(name, words) {#name, NULL, NULL, words},
#include "protocol/job/job_aliases.def"
};

static const struct {
    const char *name, *section;
} section_aliases[] = {
#define JOB_SECTION_ALIAS(name, section) {#name, #section},
#include "protocol/job/job_aliases.def"
};

static const struct {
    enum job_list list;
    const char *name;
    int choice;
    const char *words; /* NULL: it is the choice */
} choice_aliases[] = {
#define JOB_CHOICE_ALIAS(list, name, choice) {JOB_LIST_##list, name, JOB_##list##_##choice, NULL},
#define JOB_CHOICE_FOREIGN(list, name, words) {JOB_LIST_##list, name, 0, words},
#include "protocol/job/job_aliases.def"
};

static const struct job_withdrawn withdrawn[] = {
#define JOB_WITHDRAWN(section, key, value, since, instead) {#section, #key, value, since, instead},
#include "protocol/job/job_aliases.def"
};

const struct job_withdrawn *job_withdrawn_find(const char *section, const char *name)
{
    for (size_t i = 0; i < sizeof withdrawn / sizeof *withdrawn; i++) {
        if (strcmp(withdrawn[i].section, section) == 0 && strcmp(withdrawn[i].key, name) == 0) {
            return &withdrawn[i];
        }
    }
    return NULL;
}

static void did_you_mean(const struct job_key *key, char out[JOB_HINT_BYTES])
{
    char label[JOB_LABEL_BYTES];
    job_key_label(key, label);
    bool top = strcmp(key->section, JOB_TOP_SECTION) == 0;
    snprintf(out, JOB_HINT_BYTES, "did you mean '%s'%s?", label, top ? " above all sections" : "");
}

const char *job_hint_foreign(const char *name)
{
    const char *words = NULL;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases && words == NULL; i++) {
        words = strcasecmp(aliases[i].name, name) == 0 ? aliases[i].words : NULL;
    }
    return words;
}

/* A name from another tool. */
static bool key_of_alias(const char *name, char out[JOB_HINT_BYTES], const struct job_key **meant_out)
{
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
        if (strcasecmp(aliases[i].name, name) == 0) {
            *meant_out = aliases[i].key != NULL ? job_key_find(aliases[i].section, aliases[i].key) : NULL;
            if (aliases[i].key != NULL) {
                did_you_mean(*meant_out, out);
            } else {
                snprintf(out, JOB_HINT_BYTES, "%s", aliases[i].words);
            }
            return true;
        }
    }
    return false;
}

/* A key of the same section wins over one as near elsewhere. */
static const struct job_key *key_nearest(const char *section, const char *name)
{
    int best = 2 * name_slip(name) + 2;
    const struct job_key *nearest = NULL;
    for (int i = 0; i < JOB_KEY_N; i++) {
        bool here = strcmp(job_keys[i].section, section) == 0;
        int distance = 2 * name_distance(name, job_keys[i].name) + (here ? 0 : 1);
        if (distance < best) {
            best = distance;
            nearest = &job_keys[i];
        }
    }
    return nearest;
}

void job_hint_key(const char *section, const char *name, char out[JOB_HINT_BYTES], const struct job_key **meant_out)
{
    if (key_of_alias(name, out, meant_out)) {
        return;
    }
    *meant_out = key_nearest(section, name);
    if (*meant_out != NULL) {
        did_you_mean(*meant_out, out);
        return;
    }
    size_t at = (size_t)snprintf(out, JOB_HINT_BYTES, "expected one of");
    const char *comma = " ";
    for (int i = 0; i < JOB_KEY_N && at < JOB_HINT_BYTES; i++) {
        if (strcmp(job_keys[i].section, section) == 0) {
            at += (size_t)snprintf(out + at, JOB_HINT_BYTES - at, "%s%s", comma, job_keys[i].name);
            comma = ", ";
        }
    }
}

static const char *section_of_alias(const char *name)
{
    for (size_t i = 0; i < sizeof section_aliases / sizeof *section_aliases; i++) {
        if (strcasecmp(section_aliases[i].name, name) == 0) {
            return section_aliases[i].section;
        }
    }
    return NULL;
}

const char *job_hint_section(const char *name, char out[JOB_HINT_BYTES])
{
    const char *alias = section_of_alias(name);
    struct nearest nearest;
    nearest_init(name, &nearest);
    size_t at = (size_t)snprintf(out, JOB_HINT_BYTES, "expected one of");
    for (int i = 0; i < job_n_section; i++) {
        if (strcmp(job_sections[i].name, JOB_TOP_SECTION) != 0) {
            at += (size_t)snprintf(out + at, JOB_HINT_BYTES - at, " [%s]", job_sections[i].name);
            nearest_offer(&nearest, job_sections[i].name);
        }
    }
    const char *meant = alias != NULL ? alias : nearest.best;
    if (meant != NULL) {
        snprintf(out, JOB_HINT_BYTES, "did you mean [%s]?", meant);
    }
    return meant;
}

/* Are both equal except for case and the characters between words? */
static bool is_same_word(const char *word, const char *text)
{
    for (;; word++, text++) {
        text += strspn(text, "_- ");
        if (tolower((unsigned char)*word) != tolower((unsigned char)*text)) {
            return false;
        }
        if (*word == '\0') {
            return true;
        }
    }
}

void job_hint_choice(const struct job_key *key, const char *text, char out[JOB_HINT_BYTES])
{
    struct nearest nearest;
    nearest_init(text, &nearest);
    out[0] = '\0';
    for (size_t i = 0; i < sizeof choice_aliases / sizeof *choice_aliases; i++) {
        if (choice_aliases[i].list != key->list || !is_same_word(choice_aliases[i].name, text)) {
            continue;
        }
        if (choice_aliases[i].words != NULL) {
            snprintf(out, JOB_HINT_BYTES, " (%s)", choice_aliases[i].words);
            return;
        }
        nearest = (struct nearest){.name = text, .best = key->choice[choice_aliases[i].choice]};
    }
    for (int i = 0; i < key->n_choice; i++) {
        nearest_offer(&nearest, key->choice[i]);
    }
    if (nearest.best != NULL) {
        snprintf(out, JOB_HINT_BYTES, " (did you mean \"%s\"?)", nearest.best);
    }
}
