/* What the warps of emulated kernels ask of memory, counted exactly: by kernel, and by load and store. */
#ifndef TESTS_EMULATOR_SECTORS_COUNT_H
#define TESTS_EMULATOR_SECTORS_COUNT_H

#ifdef __cplusplus
extern "C" {
#endif

/* Count kernels from now on, under this name. */
void count_begin(const char *name);
/* Print a line for each kernel since count_begin, its fields apart by tabs: the name, the kernel's symbol, threads of a
 * block, bytes of shared memory, launches; of global memory sectors asked for, the least sectors, bytes used, and
 * sectors touched at least once in a launch; of shared memory wavefronts and the least wavefronts; atomics of lanes.
 * by_place: and indented, of each place in the code its address, bytes of a lane, sectors or wavefronts, the least. */
void count_print(int by_place);

#ifdef __cplusplus
}
#endif

#endif
