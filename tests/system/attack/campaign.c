#include "tests/system/attack/campaign.h"

#include "protocol/base/random.h"
#include "tests/system/attack/user.h"

#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { SEED_KEPT = 3, N_STORY = 4096 };

static uint64_t seed, n_drawn;
static char story[N_STORY];
static int at_step;

void campaign_begin(const char *name)
{
    const char *given = getenv("ATTACK_SEED");
    seed = given != NULL ? strtoull(given, NULL, 10) : SEED_KEPT;
    n_drawn = 0;
    fprintf(stderr, "attack: %s, seed %llu%s\n", name, (unsigned long long)seed,
            campaign_is_thorough() ? ", at length" : "");
}

uint64_t campaign_seed(void)
{
    return seed;
}

bool campaign_is_thorough(void)
{
    return getenv("TEST_THOROUGH") != NULL;
}

uint32_t campaign_draw(uint32_t below)
{
    const struct random_key key = {.seed = seed};
    return random_u32(&key, n_drawn++, 0) % below;
}

void campaign_nap(uint32_t ms)
{
    poll(NULL, 0, (int)ms);
}

static void add(const char *text)
{
    size_t n = strlen(story), n_text = strlen(text);
    if (n + n_text >= N_STORY) { /* forget the older half */
        memmove(story, story + N_STORY / 2, n - N_STORY / 2 + 1);
        n = strlen(story);
    }
    strcpy(story + n, text);
}

void campaign_step(int step)
{
    char text[32];
    at_step = step;
    snprintf(text, sizeof text, "\n  %d:", step);
    add(text);
}

void campaign_note(const char *format, ...)
{
    char text[512] = " ";
    va_list values;
    va_start(values, format);
    vsnprintf(text + 1, sizeof text - 1, format, values);
    va_end(values);
    add(text);
}

/* Seed, step and the last notes. */
static const char *campaign_story(void)
{
    static char whole[N_STORY + 128];
    snprintf(whole, sizeof whole, "seed %llu, step %d:%s", (unsigned long long)seed, at_step, story);
    return whole;
}

void campaign_fail(const char *file, int line, const char *format, ...)
{
    static char said[4096];
    va_list values;
    va_start(values, format);
    vsnprintf(said, sizeof said, format, values);
    va_end(values);
    user_leave();
    cr_assert_fail("%s:%d: %s\n  %s", file, line, said, campaign_story());
}
