/* The key reference, made from the list: plain for a terminal, markdown for configs/README.md. */
#include "protocol/job/job.h"
#include "protocol/job/job_keys.h"
#include "protocol/toml/toml.h"

#include <stdlib.h>
#include <string.h>

static void default_text(const struct job_key *key, char out[JOB_EXPECT_BYTES])
{
    char *quoted;
    switch (key->type) {
    case JOB_TYPE_TEXT:
        quoted = toml_quote(key->text_default);
        snprintf(out, JOB_EXPECT_BYTES, "%s", quoted);
        free(quoted);
        break;
    case JOB_TYPE_INT:
    case JOB_TYPE_INT_OR:
    case JOB_TYPE_SIZE:
        snprintf(out, JOB_EXPECT_BYTES, "%lld", (long long)key->int_default);
        break;
    case JOB_TYPE_REAL:
        job_real_text(key->real_default, out);
        break;
    case JOB_TYPE_BOOL:
        snprintf(out, JOB_EXPECT_BYTES, "%s", key->int_default != 0 ? "true" : "false");
        break;
    case JOB_TYPE_CHOICES:
        snprintf(out, JOB_EXPECT_BYTES, "[]");
        break;
    case JOB_TYPE_CHOICE:
        snprintf(out, JOB_EXPECT_BYTES, "\"%s\"", key->choice[key->int_default]);
        break;
    }
}

static void print_heading(FILE *file, const struct job_section *section, bool markdown)
{
    bool top = strcmp(section->name, JOB_TOP_SECTION) == 0;
    const char *open = top ? "" : "[", *close = top ? "" : "]";
    if (markdown) {
        fprintf(file, "\n## %s%s%s\n%s.\n\n| key | takes | default | meaning |\n|---|---|---|---|\n", open,
                top ? "before the first section" : section->name, close, section->help);
    } else {
        fprintf(file, "\n%s%s%s  %s\n", open, section->name, close, section->help);
    }
}

static void print_key(FILE *file, enum job_key_id id, bool markdown)
{
    const struct job_key *key = &job_keys[id];
    char expect[JOB_EXPECT_BYTES], value[JOB_EXPECT_BYTES], help[JOB_HELP_BYTES];
    job_key_help(id, help);
    job_key_expect(key, expect);
    default_text(key, value);
    if (markdown) {
        const char *tick = value[0] != '\0' ? "`" : "";
        fprintf(file, "| `%s` | %s | %s%s%s | %s |\n", key->name, expect, tick, value, tick, help);
    } else {
        fprintf(file, "  %-20s %s\n  %-20s %s%s%s\n", key->name, help, "", expect,
                value[0] != '\0' ? "; default " : "", value);
    }
}

void job_describe(FILE *file, bool markdown)
{
    if (markdown) {
        fputs("# Job files\n\n"
              "The `.toml` files of this folder are jobs: `trainerd --config configs/cora-gcn.toml`. Copy one and\n"
              "change it. Its first lines name the paper and the data folder that it needs;\n"
              "[docs/data.md](../docs/data.md) shows how to make that folder.\n\n"
              "This is the list of all keys, made from `protocol/job/job_keys.def` by `make docs`.\n"
              "`--set section.key=value` overrides the file. Unknown keys and values out of range are errors that\n"
              "name the place. A key without effect beside the others (`model.alpha` with `model.kind = \"gcn\"`)\n"
              "only draws a remark, so that one file can serve several kinds.\n",
              file);
    }
    for (int i = 0; i < job_n_section; i++) {
        print_heading(file, &job_sections[i], markdown);
        for (int k = 0; k < JOB_KEY_N; k++) {
            if (strcmp(job_keys[k].section, job_sections[i].name) == 0) {
                print_key(file, (enum job_key_id)k, markdown);
            }
        }
    }
}
