/* A random campaign: its seed, what is drawn from it, its last steps for the message of a failure. */
#ifndef TESTS_SYSTEM_ATTACK_CAMPAIGN_H
#define TESTS_SYSTEM_ATTACK_CAMPAIGN_H

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Take the seed of ATTACK_SEED, or the kept one, and print it. */
void campaign_begin(const char *name);
uint64_t campaign_seed(void);

/* Does TEST_THOROUGH ask for a long campaign? */
bool campaign_is_thorough(void);

/* A number from 0 to below - 1. below > 0 */
uint32_t campaign_draw(uint32_t below);

/* Let processes go on for so many milliseconds: where in their work the next step finds them is to be random, no
 * event is waited for. */
void campaign_nap(uint32_t ms);

/* Begin a step; add a word about it. */
void campaign_step(int step);
void campaign_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Be root again, whoever this process acts as: a failure ends the test. */
#define HOLDS(condition, ...) ((condition) ? (void)0 : campaign_fail(__FILE__, __LINE__, __VA_ARGS__))
void campaign_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
