#include "trainerd/daemon/jobs/job_index.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"

#include <stdlib.h>
#include <string.h>

#define N_BUCKET 64 /* at first */

struct job_set_entry {
    struct job_set set;
    enum job_key key;
    uid_t uid;
    char *text;
    struct job_set_entry *next; /* in its bucket */
};

/* --- lists --- */

size_t job_list_place(const struct job_list *list, int64_t id)
{
    size_t low = 0, high = list->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list->at[middle]->id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool has(const struct job_list *list, int64_t id)
{
    size_t place = job_list_place(list, id);
    return place < list->n && list->at[place]->id == id;
}

/* cost  of moving the records behind it: none at the end */
static void list_add(struct job_list *list, struct job_record *record)
{
    if (list->n == list->capacity) {
        list->capacity = list->capacity == 0 ? 1 : 2 * list->capacity;
        list->at = realloc(list->at, list->capacity * sizeof *list->at);
        ASSERT(list->at != NULL);
    }
    size_t place = list->n == 0 || list->at[list->n - 1]->id < record->id ? list->n
                                                                          : job_list_place(list, record->id);
    memmove(&list->at[place + 1], &list->at[place], (list->n - place) * sizeof *list->at);
    list->at[place] = record;
    list->n++;
}

static void list_remove(struct job_list *list, int64_t id)
{
    size_t place = job_list_place(list, id);
    ASSERT(place < list->n && list->at[place]->id == id);
    list->n--;
    memmove(&list->at[place], &list->at[place + 1], (list->n - place) * sizeof *list->at);
}

/* --- sets --- */

static size_t bucket_of(const struct job_index *index, enum job_key key, uid_t uid, const char *text)
{
    uint64_t hash = UINT64_C(14695981039346656037) ^ ((uint64_t)uid << 8 | (uint64_t)key); /* FNV-1a */
    for (const char *c = text; *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
    }
    return (size_t)((hash ^ hash >> 32) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (index->n_bucket - 1);
}

static struct job_set_entry **find(const struct job_index *index, enum job_key key, uid_t uid, const char *text)
{
    struct job_set_entry **link = &index->bucket[bucket_of(index, key, uid, text)];
    while (*link != NULL && ((*link)->key != key || (*link)->uid != uid || strcmp((*link)->text, text) != 0)) {
        link = &(*link)->next;
    }
    return link;
}

static void grow(struct job_index *index)
{
    struct job_index before = *index;
    index->n_bucket = before.n_bucket == 0 ? N_BUCKET : 2 * before.n_bucket;
    index->bucket = memory_alloc(index->n_bucket, sizeof *index->bucket);
    for (size_t i = 0; i < before.n_bucket; i++) {
        for (struct job_set_entry *entry = before.bucket[i], *next; entry != NULL; entry = next) {
            next = entry->next;
            struct job_set_entry **head = &index->bucket[bucket_of(index, entry->key, entry->uid, entry->text)];
            entry->next = *head;
            *head = entry;
        }
    }
    free(before.bucket);
}

static void entry_release(struct job_set_entry *entry)
{
    free(entry->set.jobs.at);
    free(entry->text);
    free(entry);
}

void job_index_release(struct job_index *index)
{
    for (size_t i = 0; i < index->n_bucket; i++) {
        for (struct job_set_entry *entry = index->bucket[i], *next; entry != NULL; entry = next) {
            next = entry->next;
            entry_release(entry);
        }
    }
    free(index->bucket);
    free(index->all.jobs.at);
    free(index->open.at);
    *index = (struct job_index){0};
}

/* --- the sets of a record --- */

struct key {
    enum job_key key;
    uid_t uid;
    char text[JOB_NAME_BYTES > JOB_GROUP_BYTES ? JOB_NAME_BYTES : JOB_GROUP_BYTES];
};
#define KEYS_MOST (JOB_KEY_TAG + JOB_TAGS_MOST)

static void key_add(struct key *keys, size_t *n, enum job_key key, uid_t uid, const char *text, size_t n_text)
{
    struct key *one = &keys[*n];
    one->key = key;
    one->uid = uid;
    memcpy(one->text, text, n_text);
    one->text[n_text] = '\0';
    for (size_t i = 0; i < *n; i++) { /* a tag may be given twice */
        if (keys[i].key == key && strcmp(keys[i].text, one->text) == 0) {
            return;
        }
    }
    ++*n;
}

static size_t keys_of(const struct job_record *record, struct key keys[KEYS_MOST])
{
    size_t n = 0, n_name = strlen(record->name);
    key_add(keys, &n, JOB_KEY_OWNER, record->uid, "", 0);
    key_add(keys, &n, JOB_KEY_NAME, 0, record->name, n_name);
    key_add(keys, &n, JOB_KEY_NAME_OF_OWNER, record->uid, record->name, n_name);
    if (record->group[0] != '\0') {
        key_add(keys, &n, JOB_KEY_GROUP, record->uid, record->group, strlen(record->group));
    }
    for (const char *at = record->tags; *at != '\0' && n < KEYS_MOST;) {
        size_t n_tag = strcspn(at, ",");
        if (n_tag > 0 && n_tag < JOB_TAG_BYTES) {
            key_add(keys, &n, JOB_KEY_TAG, record->uid, at, n_tag);
        }
        at += n_tag + (at[n_tag] == ',');
    }
    return n;
}

static struct job_set *set_of(struct job_index *index, const struct key *key)
{
    if (index->n_entry >= index->n_bucket) {
        grow(index);
    }
    struct job_set_entry **link = find(index, key->key, key->uid, key->text);
    if (*link == NULL) {
        *link = memory_alloc(1, sizeof **link);
        **link = (struct job_set_entry){.key = key->key, .uid = key->uid, .text = strdup(key->text)};
        ASSERT((*link)->text != NULL);
        index->n_entry++;
    }
    return &(*link)->set;
}

void job_index_add(struct job_index *index, struct job_record *record)
{
    struct key keys[KEYS_MOST];
    size_t n = keys_of(record, keys);
    for (size_t i = 0; i <= n; i++) {
        struct job_set *set = i < n ? set_of(index, &keys[i]) : &index->all;
        list_add(&set->jobs, record);
        set->n_of_state[record->state]++;
    }
    if (!job_state_ended(record->state)) {
        list_add(&index->open, record);
    }
}

void job_index_remove(struct job_index *index, const struct job_record *record)
{
    struct key keys[KEYS_MOST];
    size_t n = keys_of(record, keys);
    for (size_t i = 0; i < n; i++) {
        struct job_set_entry **link = find(index, keys[i].key, keys[i].uid, keys[i].text), *entry = *link;
        list_remove(&entry->set.jobs, record->id);
        entry->set.n_of_state[record->state]--;
        if (entry->set.jobs.n == 0) {
            *link = entry->next;
            index->n_entry--;
            entry_release(entry);
        }
    }
    list_remove(&index->all.jobs, record->id);
    index->all.n_of_state[record->state]--;
    if (!job_state_ended(record->state)) {
        list_remove(&index->open, record->id);
    }
}

void job_index_changed(struct job_index *index, struct job_record *record, enum job_state before)
{
    struct key keys[KEYS_MOST];
    if (before == record->state) {
        return;
    }
    size_t n = keys_of(record, keys);
    for (size_t i = 0; i <= n; i++) {
        struct job_set *set = i < n ? set_of(index, &keys[i]) : &index->all;
        set->n_of_state[before]--;
        set->n_of_state[record->state]++;
    }
    if (job_state_ended(before) && !job_state_ended(record->state)) {
        list_add(&index->open, record);
    } else if (!job_state_ended(before) && job_state_ended(record->state)) {
        list_remove(&index->open, record->id);
    }
}

void job_index_promise(struct job_index *index, uid_t uid, int64_t n)
{
    struct job_set_entry *owner = index->n_bucket > 0 ? *find(index, JOB_KEY_OWNER, uid, "") : NULL;
    if (owner != NULL) { /* else there is no job that could be meant */
        owner->set.n_promised += n;
    }
}

/* --- looking --- */

const struct job_set *job_index_find(const struct job_index *index, enum job_key key, uid_t uid, const char *text)
{
    static const struct job_set none;
    struct job_set_entry **link = index->n_bucket > 0 ? find(index, key, uid, text) : NULL;
    return link != NULL && *link != NULL ? &(*link)->set : &none;
}

size_t job_index_select(const struct job_index *index, const struct job_ask *ask, size_t n_most,
                        const struct job_record **out, size_t *n_looked_out)
{
    const struct job_list *lists[] = {&ask->one->jobs, ask->other != NULL ? &ask->other->jobs : &ask->one->jobs,
                                      ask->is_open ? &index->open : &ask->one->jobs};
    const struct job_list *shortest = lists[0];
    size_t n = 0, n_looked = 0;
    for (int i = 1; i < 3; i++) {
        shortest = lists[i]->n < shortest->n ? lists[i] : shortest;
    }
    for (size_t at = job_list_place(shortest, ask->before); at-- > 0 && n < n_most;) {
        const struct job_record *record = shortest->at[at];
        bool is_asked = true;
        n_looked++;
        for (int i = 0; i < 3; i++) {
            is_asked = is_asked && (lists[i] == shortest || has(lists[i], record->id));
        }
        if (is_asked) {
            out[n++] = record;
        }
    }
    *n_looked_out = n_looked;
    return n;
}

void job_index_count(const struct job_ask *ask, int64_t n_of_state[JOB_STATE_N])
{
    if (ask->other == NULL) {
        memcpy(n_of_state, ask->one->n_of_state, sizeof ask->one->n_of_state);
        return;
    }
    bool is_one = ask->one->jobs.n < ask->other->jobs.n;
    const struct job_list *few = is_one ? &ask->one->jobs : &ask->other->jobs;
    const struct job_list *many = is_one ? &ask->other->jobs : &ask->one->jobs;
    memset(n_of_state, 0, JOB_STATE_N * sizeof *n_of_state);
    for (size_t i = 0; i < few->n; i++) {
        n_of_state[few->at[i]->state] += has(many, few->at[i]->id);
    }
}
