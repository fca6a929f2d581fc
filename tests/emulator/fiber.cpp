/* Switching stacks, and telling sanitizers of it. */
#include "tests/emulator/fiber.h"

#include <sys/mman.h>

#ifdef EMULATOR_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

#ifndef __x86_64__
#error "the switch between stacks is written for x86-64"
#endif

#define STACK_BYTES ((size_t)256 * 1024)
#define GUARD_BYTES 4096
/* Stacks begin in different lines of a page, or those of a warp would fight for one set of the cache. */
#define N_BEGIN 61
#define BEGIN_BYTES 192

extern "C" void emulator_switch(void **save, void *to);
/* Keep what a call keeps, on the old stack; take it from the new one. */
asm(".globl emulator_switch\nemulator_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");
#define N_KEPT 6

namespace emulator
{

fiber *fiber_current;

static void *home_sp, *home_tsan;
static const std::function<void()> *body;
#ifdef EMULATOR_ASAN
static void *home_fake_stack;
static const void *home_stack;
static size_t home_stack_bytes;
static bool is_from_home; /* its stack is learned where a fiber comes from it */

static void arrive(void *fake_stack)
{
    const void *stack;
    size_t n_bytes;
    __sanitizer_finish_switch_fiber(fake_stack, &stack, &n_bytes);
    if (is_from_home) {
        home_stack = stack;
        home_stack_bytes = n_bytes;
        is_from_home = false;
    }
}
#endif

void fiber_body(const std::function<void()> *what)
{
    body = what;
    home_tsan = tsan_self();
}

void *fiber_home()
{
    return home_tsan;
}

void fiber_wait()
{
    fiber *f = fiber_current, *next = fiber_next();
    fiber_current = next;
#ifdef EMULATOR_ASAN
    __sanitizer_start_switch_fiber(&f->fake_stack, next != nullptr ? next->stack : home_stack,
                                   next != nullptr ? STACK_BYTES : home_stack_bytes);
#endif
    tsan_become(next != nullptr ? next->tsan : home_tsan);
    emulator_switch(&f->sp, next != nullptr ? next->sp : home_sp);
#ifdef EMULATOR_ASAN
    arrive(f->fake_stack);
#endif
}

void fiber_run(fiber *f)
{
    fiber_current = f;
#ifdef EMULATOR_ASAN
    is_from_home = true;
    __sanitizer_start_switch_fiber(&home_fake_stack, f->stack, STACK_BYTES);
#endif
    tsan_become(f->tsan);
    emulator_switch(&home_sp, f->sp);
#ifdef EMULATOR_ASAN
    __sanitizer_finish_switch_fiber(home_fake_stack, nullptr, nullptr);
#endif
}

/* One body after another, for as many blocks as there are. */
static void fiber_main()
{
#ifdef EMULATOR_ASAN
    arrive(nullptr);
#endif
    for (;;) {
        (*body)();
        *fiber_current->state = FIBER_ENDED;
        fiber_wait();
    }
}

void fiber_open(fiber *f)
{
    if (f->stack != nullptr) {
        return;
    }
    f->stack = mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->stack == MAP_FAILED) {
        die("no memory for the stack of a thread");
    }
    mprotect(f->stack, GUARD_BYTES, PROT_NONE);
    static size_t n_open;
    void **top = (void **)((char *)f->stack + STACK_BYTES - 64 - n_open++ % N_BEGIN * BEGIN_BYTES);
    *top = (void *)fiber_main;
    f->sp = top - N_KEPT;
    f->tsan = tsan_new();
}

} // namespace emulator
