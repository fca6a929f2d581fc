# trainerd: one non-recursive Makefile. `make help` lists the targets; V=1 shows the commands.
# Variants live side by side: build/release, build/asan, build/fuzz. CC=clang works everywhere.
ifeq ($(origin CXX),default)
CXX := $(if $(findstring clang,$(CC)),$(subst clang,clang++,$(CC)),g++)
endif
VARIANT ?= release
BUILD   ?= build/$(VARIANT)
PREFIX  ?= /usr/local
SYSCONFDIR ?= /etc
FUZZ_S  ?= 60
Q       := $(if $(V),,@)
# Device code is built where nvcc is found, for VARIANT=release; CUDA=0 leaves it out. NVCC="ccache nvcc" caches.
ifeq ($(origin NVCC),undefined)
NVCC    := $(shell command -v nvcc 2>/dev/null)
endif
CUDA    ?= $(if $(NVCC),1,0)

WARN    := -Wall -Wextra -Wpedantic -Wshadow
CWARN   := $(WARN) -Wstrict-prototypes -Wmissing-prototypes -Wvla
WERROR  ?=
# Undefined behaviour is a trap, which AddressSanitizer reports with its line (handle_sigill): words for each place take longer to compile and to start.
SAN_asan := -fsanitize=address,undefined -fsanitize-undefined-trap-on-error -fno-omit-frame-pointer
# Of undefined behaviour, what kernels are checked for that take long to compile.
SAN_SOME := -fno-sanitize=undefined -fsanitize=bounds,shift,signed-integer-overflow
SAN_fuzz := $(SAN_asan) -fsanitize=fuzzer-no-link -DLOG_BUG_ABORTS
# Device code on the CPU (tests/emulator): workers.device = "cuda-emulated".
EMULATED := $(filter emulated emulated-asan emulated-tsan,$(VARIANT))
SAN_emulated-asan := $(SAN_asan) -DEMULATOR_ASAN
# A sanitized program has megabytes of numbers around its globals. At a fixed address the loader leaves them as they are: it starts in 3/4 of the time.
FIXED := $(filter asan emulated-asan,$(VARIANT))
SAN_emulated-tsan := -fsanitize=thread -DEMULATOR_TSAN
# Reports of the sanitizers name functions and lines; whoever debugs uses the release.
DEBUG   := $(if $(filter release,$(VARIANT)),-g,-g1)
LEVEL   := $(if $(filter release emulated,$(VARIANT)),-O3,$(if $(filter emulated-asan,$(VARIANT)),-O0,-O1))
FLAGS   := $(DEBUG) $(LEVEL) $(SAN_$(VARIANT)) $(if $(FIXED),-fno-pie) -fopenmp -ffp-contract=off -fno-math-errno -I. -D_GNU_SOURCE $(if $(EMULATED),-fPIC -Itests/emulator/include -DCUDA_EMULATED) $(WERROR)
CFLAGS  += -std=c11 $(CWARN) $(FLAGS)
CXXFLAGS += -std=c++17 $(WARN) $(FLAGS)
LDFLAGS += -fopenmp $(SAN_$(VARIANT)) $(if $(FIXED),-no-pie) -Wl,--as-needed
# Emulated GPUs and portable vectors call fmaf for each number, unless the compiler knows that the processor has it: the same bits.
FMA     := $(if $(shell grep -m 1 -w fma /proc/cpuinfo),-mfma)
# Sanitized jobs spend their time in the mathematics; central differences, which are a test's own, need no sanitizer. The rest takes longer to
# compile than to run, and so do tests, but for central differences and benchmarks, and in part the kernels of an emulated GPU. Of the three
# widths of a vector, whose kernels are one source, the portable one has all checks of undefined behaviour.
TESTS_OBJECTS := $(addprefix $(BUILD)/obj/tests/,$(addsuffix /%.o,unit system golden equivalence))
ifeq ($(VARIANT),asan)
$(BUILD)/obj/models/%.o $(BUILD)/obj/tests/support/model/truth.c.o: CFLAGS += -O2
$(BUILD)/obj/tests/support/model/truth.c.o: CFLAGS += -fno-sanitize=all
$(BUILD)/obj/models/cpu/kernels/%.o: CFLAGS += -O1
$(BUILD)/obj/models/cpu/kernels/kernels_portable.c.o: CFLAGS += $(FMA)
$(BUILD)/obj/models/cpu/kernels/kernels_avx%.c.o: CFLAGS += $(SAN_SOME)
$(BUILD)/obj/trainerd/%.o $(TESTS_OBJECTS): CFLAGS += -O0
endif
ifeq ($(VARIANT),emulated)
$(BUILD)/obj/models/cuda/%.o $(BUILD)/obj/tests/gpu/%.o: CXXFLAGS += -O1
endif
$(BUILD)/obj/models/cuda/%.cu.o: CXXFLAGS += $(FMA)
ifeq ($(VARIANT),emulated-asan)
$(BUILD)/obj/models/cuda/%.cu.o: CXXFLAGS += $(SAN_SOME) -fsanitize=alignment
$(BUILD)/obj/tests/emulator/%.o: CXXFLAGS += -O2
endif
ifeq ($(VARIANT),release)
$(TESTS_OBJECTS): CFLAGS += -g1 -O1
$(BUILD)/obj/models/cpu/kernels/%.o: CFLAGS += -g1
$(BUILD)/obj/protocol/toml/toml.cpp.o: CXXFLAGS += -g1 -O1
endif
# No fuzzer spends time in models, and only fuzz_head in worker.
ifeq ($(VARIANT),fuzz)
$(BUILD)/obj/models/%.o $(BUILD)/obj/worker/%.o: CFLAGS += -O0
endif
# The vector kernels of the cpu device take minutes under sanitizers. The variant asan has them so; no fuzzer computes by them.
ifeq ($(VARIANT),fuzz)
$(BUILD)/obj/models/cpu/kernels/%.o: CFLAGS += -fno-sanitize=all
endif

# So that loops with choices become vectors: exceptions are not read, and values stay.
$(BUILD)/obj/models/cpu/kernels/%.o: CFLAGS += -fno-trapping-math

# The modules that each module may use, itself first, and the libraries that each may link.
MODULES := protocol partition models worker trainerd
BELOW_protocol  := protocol
BELOW_partition := partition protocol
BELOW_models    := models protocol
BELOW_worker    := worker models partition protocol
BELOW_trainerd  := trainerd worker models partition protocol
BELOW_daemon    := trainerd protocol
LIB_protocol  := -ljansson -lxxhash -lucp -lucs -lsodium
LIB_partition := -lmetis -lzip -lz
LIB_models    := -ldnnl
LIB_trainerd  := -luv -lsqlite3 -lmicrohttpd -lgnutls
libs = $(foreach module,$(1),$(LIB_$(module))) -lm -lpthread -ldl
comma := ,

MAINS := $(wildcard */main_*.c)
# Of the cuda device programs have these two files; they and all others make a shared object.
CUDA_OUTSIDE := models/cuda/module.c models/cuda/sizes.c
CUDA_MODULE := $(if $(EMULATED)$(and $(filter release,$(VARIANT)),$(filter 1,$(CUDA))),$(BUILD)/lib/trainer-cuda.so)
# sudo make install finds no nvcc where only the user's PATH has it: the device that make built stays.
KEPT := $(if $(CUDA_MODULE)$(NVCC),,$(and $(filter install,$(MAKECMDGOALS)),$(filter file,$(origin CUDA)),$(wildcard $(BUILD)/lib/trainer-cuda.so)))
CUDA_SOURCES := $(filter-out models/cuda/module.c,$(wildcard models/cuda/*.c models/cuda/*/*.c models/cuda/*/*.cu))
SOURCES := $(filter-out $(MAINS) $(filter-out $(CUDA_OUTSIDE),$(CUDA_SOURCES)),$(foreach module,$(MODULES),$(wildcard $(module)/*.c $(module)/*/*.c $(module)/*/*/*.c $(module)/*/*.cpp))) \
    $(if $(EMULATED),$(filter-out $(CUDA_OUTSIDE),$(CUDA_SOURCES)))
ifeq ($(VARIANT),fuzz)
SOURCES := $(filter-out $(foreach f,coordinator/epochs coordinator/plan coordinator/records coordinator/score daemon/commands daemon/jobs \
    daemon/monitor ctl/experiments,trainerd/$(f)/%) $(wildcard trainerd/ctl/*.c),$(SOURCES)) # which no fuzzer links
endif
EMULATOR := $(wildcard tests/emulator/*.cpp)
object = $(patsubst %,$(BUILD)/obj/%.o,$(1))
# Of the emulator ThreadSanitizer sees copies alone. Rows of four floats stay loads of 16 bytes, which are counted as such (COUNTED).
ifeq ($(VARIANT),emulated-tsan)
$(call object,$(filter-out %/copy.cpp,$(EMULATOR))): CXXFLAGS += -fno-sanitize=thread
$(BUILD)/obj/%.cu.o: CXXFLAGS += -fno-tree-sra
endif
archive = $(foreach module,$(1),$(BUILD)/lib/$(module).a)

# A program is the file <module>/main_<name>.c; '_' becomes '-': main_trainer_worker.c is build/bin/trainer-worker.
# It links the modules that its own may use; the daemon and its client link fewer (scripts/check-links checks them).
program = $(BUILD)/bin/$(subst _,-,$(patsubst main_%.c,%,$(notdir $(1))))
program_modules = $(if $(filter trainerd/main_trainerd.c trainerd/main_trainctl.c,$(1)),$(BELOW_daemon),$(BELOW_$(patsubst %/,%,$(dir $(1)))))
PROGRAMS := $(foreach m,$(MAINS),$(call program,$(m)))
# One test program per folder below tests/system (test-system-FOLDER), one per other kind of test, and of unit tests one for each of these
# folders (test- and its last name), with the tests in folders below it that are not listed. Programs of their own: tests that replace functions.
folders_in = $(sort $(notdir $(patsubst %/,%,$(dir $(wildcard $(1)/*/*.c)))))
UNIT_FOLDERS := protocol partition models worker trainerd trainerd/coordinator trainerd/coordinator/epochs trainerd/daemon trainerd/daemon/commands trainerd/ctl
SEES_DAEMON := trainerd trainerd/daemon trainerd/daemon/commands trainerd/ctl
TEST_MODULES := $(notdir $(UNIT_FOLDERS))
unit_sources = $(filter-out $(foreach f,$(filter $(1)/%,$(UNIT_FOLDERS)),tests/unit/$(f)/%),$(shell find tests/unit/$(1) -name '*.c'))
unit_modules = $(if $(filter $(1),$(SEES_DAEMON)),$(BELOW_daemon),$(BELOW_$(firstword $(subst /, ,$(1)))))
SYSTEM_FOLDERS := $(call folders_in,tests/system)
TEST_KINDS := $(foreach k,equivalence golden gradient,$(if $(wildcard tests/$(k)/*.c),$(k)))
UNIT_TESTS := $(patsubst %,$(BUILD)/bin/test-%,$(TEST_MODULES))
SYSTEM_TESTS := $(patsubst %,$(BUILD)/bin/test-system-%,$(SYSTEM_FOLDERS))
TESTS   := $(patsubst %,$(BUILD)/bin/test-%,$(TEST_KINDS)) $(SYSTEM_TESTS) $(UNIT_TESTS)
BENCHES := $(patsubst tests/bench/%.c,$(BUILD)/bin/%,$(wildcard tests/bench/bench_*.c))
FUZZERS := $(patsubst tests/fuzz/%.c,$(BUILD)/bin/%,$(wildcard tests/fuzz/fuzz_*.c))

# Another variant in a folder beside this one's: $(call variant,asan) TARGET; $(call of_variant,asan,PROGRAMS).
beside = $(if $(filter build/release,$(BUILD)),build/$(1),$(BUILD)-$(1))
JOBS = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))
variant = +$(Q)$(MAKE) --no-print-directory $(JOBS) VARIANT=$(1) BUILD=$(call beside,$(1))
of_variant = $(patsubst $(BUILD)/%,$(call beside,$(1))/%,$(2))
FUZZ = $(call variant,fuzz) CC=clang
RUN = $(Q)BUILD=$(BUILD) FUZZ_S=$(1) scripts/run-tests

.PHONY: all objects other tests unit emulator emulated counted counted-other gpu-programs gpu-bundle check check-all asan bench bench-programs benches fuzz fuzzers quickstart install uninstall package wheel docs lint shape format clean help force
.SECONDARY:

all: $(PROGRAMS) $(CUDA_MODULE) ## the programs, in build/bin
	$(Q)$(if $(filter build/release,$(BUILD)),mkdir -p build && ln -sfn release/bin build/bin)
	$(Q)$(if $(CUDA_MODULE)$(KEPT),,rm -f $(BUILD)/lib/trainer-cuda.so)
	@echo "  $(if $(CUDA_MODULE),$(CUDA_MODULE)$(if $(EMULATED), (emulated), by $(NVCC)),$(if $(KEPT),with $(KEPT) as it is,without a device for GPUs: $(if $(NVCC),VARIANT=$(VARIANT) CUDA=$(CUDA),no nvcc)))"

# Emulated variants take objects of the host, which know nothing of CUDA, from another variant, which is made first.
OTHER := $(if $(filter build/emulated build/emulated-tsan %-emulated %-emulated-tsan,$(BUILD)),release,$(if $(filter build/emulated-asan %-emulated-asan,$(BUILD)),asan))
ifneq ($(OTHER),)
OTHER_BUILD := $(if $(filter build/$(VARIANT),$(BUILD)),build/$(OTHER),$(BUILD:%-$(VARIANT)=%)$(patsubst asan,-asan,$(OTHER:release=)))
OTHERS := $(call object,$(shell grep -LE 'CUDA_EMULATED|models/cuda/|job_keys.def' $(filter-out models/cuda/%,$(filter %.c,$(SOURCES)))))
$(OTHERS): $(BUILD)/obj/%: $(OTHER_BUILD)/obj/%
	@mkdir -p $(@D)
	$(Q)cp $< $@
$(OTHERS:$(BUILD)/%=$(OTHER_BUILD)/%): other ;
other:
	+$(Q)$(MAKE) --no-print-directory $(JOBS) VARIANT=$(OTHER) BUILD=$(OTHER_BUILD) objects
endif
objects: $(call object,$(SOURCES))
	@:

# The texts of model kinds and decoders lie in the programs, as TEXT("gcn", "…") in a file that model_kinds.c includes.
KIND_TEXTS := $(BUILD)/obj/texts/kind_texts.inc
$(KIND_TEXTS): Makefile $(wildcard configs/programs/*.gnn configs/decoders/*.gnn)
	@mkdir -p $(@D)
	$(Q)for text in $(filter %.gnn,$^); do name=$${text#configs/}; echo "TEXT(\"$${name%.gnn}\","; sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' $$text; echo ")"; done > $@
$(BUILD)/obj/protocol/job/model_kinds.c.o: CFLAGS += -DKIND_TEXTS=\"$(KIND_TEXTS)\"
$(BUILD)/obj/protocol/job/model_kinds.c.o: $(KIND_TEXTS)

$(BUILD)/obj/%.c.o: %.c
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC   $<")
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/obj/%.cpp.o: %.cpp
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CXX  $<")
	$(Q)$(CXX) $(CXXFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/obj/%.cu.o: %.cu
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CXX  $<")
	$(Q)$(CXX) $(CXXFLAGS) -MMD -MP -x c++ -c $< -o $@

# A target made of all files of a folder depends on their list, too: a new file may be older than the target, or a file removed.
define members_rule
$(1): $(2) $(BUILD)/obj/$(notdir $(1)).list
$(BUILD)/obj/$(notdir $(1)).list: MEMBERS := $(2)
endef
$(BUILD)/obj/%.list: force
	@mkdir -p $(@D)
	@echo '$(MEMBERS)' | cmp -s - $@ || echo '$(MEMBERS)' > $@

$(BUILD)/lib/%.a:
	@mkdir -p $(@D)
	$(Q)rm -f $@ && ar rcs $@ $(filter %.o,$^)
members_of = $(call object,$(filter $(1)/%,$(SOURCES)) $(if $(filter models,$(1)),$(if $(EMULATED),$(EMULATOR))))
$(foreach module,$(MODULES),$(eval $(call members_rule,$(call archive,$(module)),$(call members_of,$(module)))))
# Test support is an archive, so that each test links only the members that its modules allow; all link the report hook.
$(eval $(call members_rule,$(BUILD)/lib/support.a,$(call object,$(filter-out tests/support/report.c,$(wildcard tests/support/*.c tests/support/*/*.c)))))

# $(call link_rule,program,objects,modules,further libraries and flags)
define link_rule
$(1): $(2) $(call archive,$(3))
	@mkdir -p $$(@D)
	$$(if $$(V),,@echo "  LINK $$@")
	$$(Q)$$(CXX) $$(LDFLAGS) $$(filter %.o %.a,$$^) $(4) $(call libs,$(3)) -o $$@
endef
tests_in = $(call object,$(wildcard $(1)) tests/support/report.c) $(BUILD)/lib/support.a
$(foreach m,$(MAINS),$(eval $(call link_rule,$(call program,$(m)),$(call object,$(m)),$(call program_modules,$(m)))))
test_rule = $(eval $(call link_rule,$(BUILD)/bin/test-$(1),$(call tests_in,$(2)),$(3),-lcriterion -Wl$(comma)--wrap=criterion_internal_test_setup)) \
    $(eval $(call members_rule,$(BUILD)/bin/test-$(1),$(call tests_in,$(2))))
$(foreach f,$(UNIT_FOLDERS),$(call test_rule,$(notdir $(f)),$(call unit_sources,$(f)),$(call unit_modules,$(f))))
$(foreach t,$(TEST_KINDS),$(call test_rule,$(t),tests/$(t)/*.c,$(BELOW_trainerd)))
$(foreach t,$(SYSTEM_FOLDERS),$(call test_rule,system-$(t),tests/system/$(t)/*.c tests/system/$(t)/*/*.c,$(BELOW_trainerd)))
$(foreach b,$(notdir $(BENCHES)),$(eval $(call link_rule,$(BUILD)/bin/$(b),$(call object,tests/bench/$(b).c) $(BUILD)/lib/support.a,$(BELOW_trainerd))))
$(foreach f,$(notdir $(FUZZERS)),$(eval $(call link_rule,$(BUILD)/bin/$(f),$(call object,tests/fuzz/$(f).c),$(BELOW_trainerd),-fsanitize=fuzzer)))
# What tests/property asks to train a job.
PROPERTY_RUN := $(BUILD)/bin/property-run
$(eval $(call link_rule,$(PROPERTY_RUN),$(call object,$(wildcard tests/property/*.c)) $(BUILD)/lib/support.a,$(BELOW_trainerd)))
$(PROPERTY_RUN): LDFLAGS += -Wl,--dynamic-list=models/cuda/module.exports
$(PROPERTY_RUN): models/cuda/module.exports | $(CUDA_MODULE)
# These tests start the programs in the same folder.
$(SYSTEM_TESTS) $(BUILD)/bin/test-golden $(BUILD)/bin/test-equivalence: | $(PROGRAMS) $(CUDA_MODULE)
$(BUILD)/bin/test-system-interop: | $(BUILD)/bin/test-system-jobs

# The cuda device is a shared object that workers open at run time (models/cuda/module.h), made by nvcc, or emulated by the C++ compiler. It
# contains CUDA's run time, and takes from the worker what module.exports says.
CUDA_HOME := $(patsubst %/bin/nvcc,%,$(realpath $(shell command -v $(lastword $(NVCC)) 2>/dev/null)))
# CUDA_PTX=1 leaves the last step to the driver, in a third of the time and a folder of its own: quickstart, and check where that was before it.
# install takes what they made; CUDA_PTX= makes it whole.
CUDA_PTX ?= $(if $(filter install,$(MAKECMDGOALS)),$(if $(wildcard $(BUILD)/cuda),,$(if $(wildcard $(BUILD)/cuda-ptx),1)))
CUDA_BUILD := $(BUILD)/$(if $(CUDA_PTX),cuda-ptx,cuda)
NVCC_CODE := -gencode arch=compute_80$(comma)code=$(if $(CUDA_PTX),compute_80,[sm_80$(comma)sm_90$(comma)compute_80])
NVCC_FLAGS := -std=c++17 -O3 -fmad=false -I. -D_GNU_SOURCE $(NVCC_CODE) -Xptxas -v,-warn-spills,-warn-lmem-usage $(if $(WERROR),-Werror all-warnings) \
    -Xcompiler -fPIC,-Wall,-Wextra,-ffp-contract=off,-fno-math-errno$(if $(WERROR),$(comma)$(WERROR))
CUDA_OBJECTS := $(if $(EMULATED),$(call object,$(CUDA_SOURCES) $(EMULATOR)),$(patsubst %,$(CUDA_BUILD)/%.o,$(CUDA_SOURCES)))

# What the compiler says is kept for scripts/check-nvcc: warnings, and apart from them the registers of each kernel.
$(CUDA_BUILD)/%.cu.o: %.cu
	@mkdir -p $(@D)
	$(if $(V),,@echo "  NVCC $<")
	$(Q)$(NVCC) $(NVCC_FLAGS) -MMD -MP -c $< -o $@ > $@.ptxas 2>&1; status=$$?; \
	    grep -vE '^ptxas info |^    [0-9]+ bytes stack frame' $@.ptxas > $@.log; cat $@.log >&2; exit $$status

# A file's kernels alone, as scripts/hot-loops reads them: code of sm_90, or PTX.
HOT_CODE = @mkdir -p $(@D); $(NVCC) $(filter-out $(NVCC_CODE),$(NVCC_FLAGS)) -arch=sm_90 --$(patsubst .%,%,$(suffix $@)) -MMD -MP -MF $@.d $< -o $@ > $@.log 2>&1
$(BUILD)/hot/%.cubin: %.cu
	$(HOT_CODE)
$(BUILD)/hot/%.ptx: %.cu
	$(HOT_CODE)

$(CUDA_BUILD)/%.c.o: %.c
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC   $< (CUDA)")
	$(Q)$(CC) $(CFLAGS) -fPIC -isystem $(CUDA_HOME)/include -MMD -MP -c $< -o $@

$(eval $(call members_rule,$(BUILD)/lib/trainer-cuda.so,$(CUDA_OBJECTS)))
$(BUILD)/lib/trainer-cuda.so: models/cuda/module.map
	@mkdir -p $(@D)
	$(if $(V),,@echo "  LINK $@")
	$(Q)$(CXX) -shared $(filter-out -no-pie,$(LDFLAGS)) -Wl,--version-script=models/cuda/module.map $(filter %.o,$^) \
	    $(if $(EMULATED),,-L$(CUDA_HOME)/lib64 -lcudart_static -lrt -ldl) -lm -lpthread -o $@
$(call program,worker/main_trainer_worker.c): LDFLAGS += -Wl,--dynamic-list=models/cuda/module.exports
$(call program,worker/main_trainer_worker.c): models/cuda/module.exports

# Programs for a machine with a GPU (tests/gpu), and the archive that takes them there (scripts/gpu-bundle). Both open trainer-cuda.so, as
# workers do. The benchmark has kernels of its own, and finds cuSPARSE, which shares the device's stream.
GPU_PROGRAMS := $(if $(CUDA_MODULE),$(BUILD)/bin/gpu_operations $(BUILD)/bin/bench_gpu $(if $(filter emulated,$(VARIANT)),$(BUILD)/hashes.txt))
GPU_BENCH := $(wildcard tests/gpu/bench/*.c tests/gpu/bench/*.cu)
GPU_BENCH_LIBRARY := models/cuda/library.c models/cuda/aggregate/spmm_library.c
GPU_BENCH_OBJECTS := $(if $(EMULATED),$(call object,$(GPU_BENCH)),$(patsubst %,$(CUDA_BUILD)/%.o,$(GPU_BENCH) $(GPU_BENCH_LIBRARY)))
GPU_OPERATIONS_OBJECTS := $(call object,tests/gpu/gpu_operations.c $(wildcard tests/support/operations/*.c))
$(eval $(call link_rule,$(BUILD)/bin/gpu_operations,$(GPU_OPERATIONS_OBJECTS),$(BELOW_models)))
$(eval $(call members_rule,$(BUILD)/bin/gpu_operations,$(GPU_OPERATIONS_OBJECTS)))
$(eval $(call link_rule,$(BUILD)/bin/bench_gpu,$(GPU_BENCH_OBJECTS),models $(BELOW_partition),$(if $(EMULATED),,-L$(CUDA_HOME)/lib64 -lcudart_static -lrt)))
$(eval $(call members_rule,$(BUILD)/bin/bench_gpu,$(GPU_BENCH_OBJECTS)))
MODULE_TAKES := $(patsubst %;,-Wl$(comma)-u$(comma)%,$(filter-out };,$(filter %;,$(file < models/cuda/module.exports))))
$(BUILD)/bin/gpu_operations $(BUILD)/bin/bench_gpu: LDFLAGS += -Wl,--dynamic-list=models/cuda/module.exports $(MODULE_TAKES)
$(BUILD)/bin/gpu_operations $(BUILD)/bin/bench_gpu: | $(CUDA_MODULE)
# The bits of each operation, emulated.
$(BUILD)/hashes.txt: $(BUILD)/bin/gpu_operations $(CUDA_MODULE)
	$(Q)$< --print > $@.new && mv $@.new $@

gpu-programs: $(GPU_PROGRAMS) ## programs that test and measure a GPU (tests/gpu), where nvcc is or VARIANT=emulated

gpu-bundle: all gpu-programs ## one archive for a machine with a GPU: programs, scripts/gpu-check and gpu-bench, and what they need
	$(if $(EMULATED),,$(call variant,emulated) all gpu-programs)
	$(Q)BUILD=$(BUILD) EMULATED=$(if $(EMULATED),$(BUILD),$(call beside,emulated)) scripts/gpu-bundle

# The CUDA emulator (tests/emulator), in three builds: plain, and under sanitizers. Of the emulator itself ThreadSanitizer sees copies
# alone, AddressSanitizer everything.
EMULATOR_BUILDS := plain asan tsan
EMULATOR_SAN_asan := $(SAN_asan)
EMULATOR_SAN_tsan := -fsanitize=thread
EMULATOR_DEFINE_asan := -DEMULATOR_ASAN
EMULATOR_DEFINE_tsan := -DEMULATOR_TSAN
EMULATOR_FLAGS := -std=c++17 $(WARN) -g -O2 -ffp-contract=off -fno-math-errno -I. -Itests/emulator/include -D_GNU_SOURCE
define emulator_rules
$(BUILD)/emulator/$(1)/copy.cpp.o $(BUILD)/emulator/$(1)/%.cu.o: SAN := $(EMULATOR_SAN_$(1))
$(BUILD)/emulator/$(1)/%.cpp.o: tests/emulator/%.cpp
	@mkdir -p $$(@D)
	$$(if $$(V),,@echo "  CXX  $$< ($(1))")
	$$(Q)$$(CXX) $$(EMULATOR_FLAGS) $$(WERROR) $$(if $$(filter tsan,$(1)),$$(SAN),$$(EMULATOR_SAN_$(1))) $$(EMULATOR_DEFINE_$(1)) -MMD -MP -c $$< -o $$@
$(BUILD)/emulator/$(1)/%.cu.o: tests/emulator/%.cu
	@mkdir -p $$(@D)
	$$(if $$(V),,@echo "  CXX  $$< ($(1))")
	$$(Q)$$(CXX) $$(EMULATOR_FLAGS) $$(WERROR) $$(EMULATOR_SAN_$(1)) -MMD -MP -x c++ -c $$< -o $$@
$(BUILD)/emulator/$(1)/faults: $$(patsubst tests/emulator/%,$(BUILD)/emulator/$(1)/%.o,$(EMULATOR) tests/emulator/faults.cu)
	$$(if $$(V),,@echo "  LINK $$@")
	$$(Q)$$(CXX) $$(EMULATOR_SAN_$(1)) $$^ -o $$@
endef
$(foreach b,$(EMULATOR_BUILDS),$(eval $(call emulator_rules,$(b))))
EMULATOR_FAULTS := $(foreach b,$(EMULATOR_BUILDS),$(BUILD)/emulator/$(b)/faults)
emulator: $(EMULATOR_FAULTS) ## the CUDA emulator with faults planted in small kernels, plain and under sanitizers

# What kernels ask of memory, counted (tests/emulator/sectors): g++ calls a function of ours at each load and store. These are the kernels of
# the variant emulated-tsan, whose objects are made first, without the sanitizer's run time.
COUNTED := $(filter %.cu,$(CUDA_SOURCES)) tests/emulator/sectors/planted.cu
COUNTED_OBJECTS := $(call object,$(COUNTED))
ifeq ($(VARIANT),emulated)
COUNTED_BUILD := $(patsubst %emulated,%emulated-tsan,$(BUILD))
COUNTED_OBJECTS := $(COUNTED_OBJECTS:$(BUILD)/%=$(COUNTED_BUILD)/%)
$(COUNTED_OBJECTS): counted-other ;
counted-other:
	+$(Q)$(MAKE) --no-print-directory $(JOBS) VARIANT=emulated-tsan BUILD=$(COUNTED_BUILD) counted
SECTORS_OBJECTS := $(COUNTED_OBJECTS) \
    $(call object,$(wildcard tests/emulator/sectors/*.c tests/emulator/sectors/*.cpp) tests/gpu/bench/figure.c tests/gpu/bench/graph.c)
$(eval $(call link_rule,$(BUILD)/bin/sectors,$(SECTORS_OBJECTS),models $(BELOW_partition)))
$(eval $(call members_rule,$(BUILD)/bin/sectors,$(SECTORS_OBJECTS)))
$(BUILD)/bin/sectors: LDFLAGS += -rdynamic
endif
counted: $(COUNTED_OBJECTS)
	@:

EMULATED_TESTS := $(patsubst %,$(BUILD)/bin/test-%,models golden gradient)
emulated: ## the programs with the cuda device emulated, in build/emulated/bin (workers.device = "cuda-emulated")
	$(call variant,emulated) all $(call of_variant,emulated,$(EMULATED_TESTS) $(PROPERTY_RUN))

tests: $(TESTS) ## all test programs
unit: $(UNIT_TESTS)
benches: $(BENCHES)
fuzzers: $(FUZZERS)

# Programs that take longest come first, so that no core is idle at the end. AT_LENGTH has tests that TEST_THOROUGH=1 makes longer; check and the
# variant asan run them, and all others, in short.
LONGEST := $(patsubst %,$(BUILD)/bin/test-%,system-daemon equivalence system-jobs system-clients system-fleet models gradient golden system-interop)
IN_ORDER := $(LONGEST) $(filter-out $(LONGEST),$(TESTS))
AT_LENGTH := $(patsubst %,'$(BUILD)/bin/test-%',system-attack:attack/injections equivalence:@(bits|programs)/* \
    system-daemon:@(daemon_faults|random)/* system-jobs:planted/* system-fleet:faults/* models:operations/*)
# The variant asan leaves out what other programs read, and of jobs the lossy ones, which equivalence has, too, and those that planted links mislead.
SANITIZED := '$(call of_variant,asan,$(BUILD)/bin/test-system-jobs):!(lossy|planted)/*' $(call of_variant,asan,$(filter-out %-interop %-jobs,$(IN_ORDER)))

# The device for GPUs, of which no machine without one runs a line, is left to check-all, but kept up to date where it is.
check: ## every test that finds a fault in seconds, and lint, with the release build; one closing line
	$(Q)scripts/install-deps --test
	$(call variant,release) BUILD=$(BUILD) CUDA_PTX=1 $(if $(wildcard $(BUILD)/lib/trainer-cuda.so),,CUDA=0) WERROR=-Werror all tests $(PROPERTY_RUN)
	$(call RUN,5 TEST_PREPARED=1) scripts/check-python $(IN_ORDER) scripts/check-property scripts/check-roofline scripts/check-layers scripts/check-format scripts/shape scripts/check-links

# Other software that reads our files needs no sanitizer.
check-all: ## what check leaves out: sanitizers, fuzzers, the emulated GPU, nvcc, tests at length, documents, package, service, Slurm, ssh, Kubernetes
	$(Q)scripts/install-deps --test && scripts/install-deps --system
	+$(Q)$(MAKE) --no-print-directory $(JOBS) WERROR=-Werror built-asan built-release built-emulated built-emulated-asan built-emulated-tsan built-fuzz
	$(call RUN,5 TEST_PREPARED=1) scripts/check-emulated scripts/check-emulated-sanitizers TEST_THOROUGH=1 $(AT_LENGTH) scripts/check-property \
	    TEST_THOROUGH= TEST_PROGRAMS=30 TEST_MODELS=6 scripts/check-python:at_random TEST_PROGRAMS= TEST_MODELS= scripts/check-wheel \
	    scripts/check-slurm-runner scripts/check-service scripts/check-web scripts/check-nvcc scripts/check-bundle scripts/check-package scripts/check-docs \
	    $(SANITIZED) scripts/check-slurm scripts/check-emulated-memory scripts/check-notebooks scripts/check-ssh \
	    scripts/check-emulator scripts/check-kubernetes $(call of_variant,fuzz,$(FUZZERS))

# What check-all runs, several variants at a time: one that copies objects of another is built after it.
.PHONY: built-release built-asan built-emulated built-emulated-asan built-emulated-tsan built-fuzz
built-release:
	$(call variant,release) BUILD=$(BUILD) all tests benches emulator gpu-programs $(PROPERTY_RUN)
built-asan:
	$(call variant,asan) all tests
built-emulated: built-release built-emulated-tsan
	$(call variant,emulated) all gpu-programs $(call of_variant,emulated,$(EMULATED_TESTS) $(PROPERTY_RUN) $(BUILD)/bin/sectors)
built-emulated-asan: built-asan
	$(call variant,emulated-asan) all $(call of_variant,emulated-asan,$(BUILD)/bin/gpu_operations)
built-emulated-tsan: built-release
	$(call variant,emulated-tsan) $(call of_variant,emulated-tsan,$(BUILD)/bin/gpu_operations) counted
built-fuzz:
	$(FUZZ) fuzzers

asan: ## all tests under the address and undefined-behaviour sanitizers, at length
	$(call variant,asan) all tests
	$(Q)TEST_THOROUGH=all BUILD=$(BUILD) scripts/run-tests $(call of_variant,asan,$(TESTS))

fuzz: ## every fuzzer for FUZZ_S seconds (60)
	$(FUZZ) fuzzers
	$(call RUN,$(FUZZ_S)) $(call of_variant,fuzz,$(FUZZERS))

lint: all ## check format, the include rule, headers that compile alone, libraries of the daemon, types of the Python package
	$(Q)scripts/check-format && scripts/check-layers && scripts/shape && BUILD=$(BUILD) scripts/check-links && BUILD=$(BUILD) scripts/check-python --types

shape: ## figures of the code's shape beside their goals
	$(Q)scripts/shape

format: ## format every C, C++ and CUDA file
	$(Q)find protocol partition models worker trainerd tests \( -name '*.[ch]' -o -name '*.cpp' -o -name '*.cu' \) -print0 | xargs -0 clang-format -i

bench: $(BENCHES) ## run every benchmark
	$(Q)for bench in $(BENCHES); do $$bench || exit 1; done

PYG ?= python3
bench-programs: all $(BUILD)/bin/bench_tile ## tile programs beside loops by hand, and texts beside PyTorch Geometric, by a Python that has it (PYG)
	$(Q)$(BUILD)/bin/bench_tile && $(PYG) scripts/compare-programs.py

quickstart: ## install missing packages, build, train on a generated graph
	$(Q)scripts/install-deps
	$(call variant,release) BUILD=$(BUILD) CUDA_PTX=1 all
	$(Q)$(BUILD)/bin/trainerd --config configs/quickstart.toml

docs: $(BUILD)/bin/trainerd $(BUILD)/bin/trainctl ## generate configs/README.md, configs/daemon/trainerd.toml, docs/errors.md, docs/protocol.md and docs/api.md
	$(Q)$< --describe-config --markdown > configs/README.md
	$(Q)$< --describe-daemon > configs/daemon/trainerd.toml
	$(Q)$< --describe-errors > docs/errors.md
	$(Q)sed '/^## Requests$$/q' docs/protocol.md > $(BUILD)/protocol.md && echo >> $(BUILD)/protocol.md
	$(Q)$(BUILD)/bin/trainctl protocol >> $(BUILD)/protocol.md && cp $(BUILD)/protocol.md docs/protocol.md
	$(Q)scripts/api-reference

INSTALL = $(Q)BUILD=$(BUILD) PREFIX=$(PREFIX) SYSCONFDIR=$(SYSCONFDIR) DESTDIR=$(DESTDIR) scripts/install-files
install: all ## programs, man pages, completions, job files, the systemd unit (DESTDIR, PREFIX, SYSCONFDIR)
	$(INSTALL) install

uninstall: ## remove the installed files, but not a changed /etc/trainerd/trainerd.toml
	$(INSTALL) uninstall

package: all ## make a Debian package in build/release/
	$(Q)BUILD=$(BUILD) scripts/package

wheel: ## a Python wheel in build/release/ with the programs and their libraries (docs/install.md)
	$(Q)scripts/wheel --check
	+$(Q)$(MAKE) --no-print-directory $(JOBS) all
	$(Q)BUILD=$(BUILD) scripts/wheel

clean: ## remove build/
	rm -rf build

help: ## this list
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/^([a-z-]+):[^#]*## */  \1\t/' | expand -t 20

-include $(shell find $(BUILD)/obj $(CUDA_BUILD) $(BUILD)/hot $(BUILD)/emulator -name '*.d' 2>/dev/null)
