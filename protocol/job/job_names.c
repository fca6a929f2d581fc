/* [model.names], read and printed. What its rows mean is trainerd/coordinator/records/weight_names.h's. */
#include "protocol/job/job_keys.h"
#include "protocol/toml/toml.h"

#include <stdlib.h>
#include <string.h>

static int n_star(const char *text)
{
    int n = 0;
    for (; *text != '\0'; text++) {
        n += *text == '*';
    }
    return n;
}

enum status job_name_read(struct job_names *names, const char *where, const struct toml_entry *entry)
{
    if (entry->type == TOML_TYPE_TABLE) {
        return status_fail(STATUS_CONFIG,
                           "%s: model.names.%.100s is a table; expected a name with dots in quotes, as "
                           "\"convs.0\" = \"conv1\"",
                           where, entry->key);
    }
    if (entry->type != TOML_TYPE_TEXT) {
        return status_fail(STATUS_CONFIG,
                           "%s: \"%.100s\" in [model.names] is %s; expected a text, the name in the file", where,
                           entry->key, toml_type_text(entry->type));
    }
    if (entry->key[0] == '\0' || strlen(entry->key) >= JOB_TENSOR_BYTES || strlen(entry->text) >= JOB_TENSOR_BYTES) {
        return status_fail(STATUS_CONFIG,
                           "%s: a name in [model.names] has %zu bytes, and %zu in the file; expected at most %d",
                           where, strlen(entry->key), strlen(entry->text), JOB_TENSOR_BYTES - 1);
    }
    if (n_star(entry->key) > 1 || n_star(entry->text) != n_star(entry->key)) {
        return status_fail(STATUS_CONFIG,
                           "%s: \"%s\" = \"%s\" in [model.names]; expected at most one *, and as many in "
                           "the file's name",
                           where, entry->key, entry->text);
    }
    int i = 0;
    while (i < names->n && strcmp(names->of[i].ours, entry->key) != 0) {
        i++;
    }
    if (i == JOB_TENSOR_MOST) {
        return status_fail(STATUS_CONFIG, "%s: more than %d names in [model.names]", where, JOB_TENSOR_MOST);
    }
    names->n += i == names->n;
    strcpy(names->of[i].ours, entry->key);
    strcpy(names->of[i].theirs, entry->text);
    return STATUS_OK;
}

void job_print_names(FILE *file, const struct job *job)
{
    for (int i = 0; i < job->names.n; i++) {
        char *ours = toml_quote(job->names.of[i].ours), *theirs = toml_quote(job->names.of[i].theirs);
        fprintf(file, "%s = %s\n", ours, theirs);
        free(theirs);
        free(ours);
    }
}
