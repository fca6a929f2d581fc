# trainerd: one non-recursive Makefile. `make help` lists the targets; V=1 shows the commands.
CC      ?= gcc
CXX     ?= g++
VARIANT ?= release
BUILD   ?= build/$(VARIANT)
PREFIX  ?= /usr/local
NVCC    := $(shell command -v nvcc 2>/dev/null)
Q       := $(if $(V),,@)

WARN    := -Wall -Wextra -Wpedantic -Wshadow
CWARN   := $(WARN) -Wstrict-prototypes -Wmissing-prototypes -Wvla
WERROR  ?=
SAN_asan := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
OPT_release := -O3
OPT_asan    := -O1
FLAGS   := -g $(OPT_$(VARIANT)) $(SAN_$(VARIANT)) -fopenmp -ffp-contract=off -fno-math-errno -I. -D_GNU_SOURCE $(WERROR)
CFLAGS  += -std=c11 $(CWARN) $(FLAGS)
CXXFLAGS += -std=c++17 $(WARN) $(FLAGS)
LDFLAGS += -fopenmp $(SAN_$(VARIANT))

# What each room may link; programs list the rooms they are made of, upper rooms first.
LIB_protocol  := -ljansson -lxxhash -lucp -lucs -lstdc++
LIB_partition := -lmetis -lzip -lz
LIB_models    := -ldnnl
LIB_trainerd  := -luv
LIBS := $(LIB_trainerd) $(LIB_models) $(LIB_partition) $(LIB_protocol) -lm -lpthread

ROOMS := protocol partition models worker trainerd
MAINS := $(wildcard */main_*.c)
SOURCES := $(filter-out $(MAINS),$(foreach room,$(ROOMS),$(wildcard $(room)/*.c $(room)/*/*.c $(room)/*.cpp)))
object = $(patsubst %,$(BUILD)/obj/%.o,$(1))
archive = $(foreach room,$(1),$(BUILD)/lib/$(room).a)
ALL_ROOMS := $(call archive,trainerd worker models partition protocol)

# A program is the file <room>/main_<name>.c; '_' becomes '-': main_trainer_worker.c is build/bin/trainer-worker.
PROGRAMS := $(foreach m,$(MAINS),$(BUILD)/bin/$(subst _,-,$(patsubst main_%.c,%,$(notdir $(m)))))
# A test program per folder below tests/unit and per other kind of test.
TEST_ROOMS := $(notdir $(patsubst %/,%,$(dir $(wildcard tests/unit/*/*.c))))
TEST_KINDS := golden gradient equivalence system
TESTS := $(foreach r,$(sort $(TEST_ROOMS)),$(BUILD)/bin/test-$(r)) \
         $(foreach k,$(TEST_KINDS),$(if $(wildcard tests/$(k)/*.c),$(BUILD)/bin/test-$(k)))
BENCHES := $(patsubst tests/bench/%.c,$(BUILD)/bin/%,$(wildcard tests/bench/bench_*.c))

.PHONY: all tests clean help
.SECONDARY:

all: $(PROGRAMS) ## the programs, in build/bin
	$(Q)$(if $(filter build/release,$(BUILD)),mkdir -p build && ln -sfn release/bin build/bin)

$(BUILD)/obj/%.c.o: %.c
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC   $<")
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/obj/%.cpp.o: %.cpp
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CXX  $<")
	$(Q)$(CXX) $(CXXFLAGS) -MMD -MP -c $< -o $@

define room_rule
$(BUILD)/lib/$(1).a: $(call object,$(filter $(1)/%,$(SOURCES)))
	@mkdir -p $$(@D)
	$$(Q)rm -f $$@ && ar rcs $$@ $$^
endef
$(foreach room,$(ROOMS),$(eval $(call room_rule,$(room))))

define test_rule
$(BUILD)/bin/test-$(1): $(call object,$(wildcard tests/unit/$(1)/*.c tests/$(1)/*.c tests/support/*.c)) $(ALL_ROOMS)
	@mkdir -p $$(@D)
	$$(if $$(V),,@echo "  LINK $$@")
	$$(Q)$$(CC) $$(LDFLAGS) $$^ -lcriterion $$(LIBS) -o $$@
endef
$(foreach t,$(sort $(TEST_ROOMS)) $(TEST_KINDS),$(eval $(call test_rule,$(t))))

$(BUILD)/bin/bench_%: $(BUILD)/obj/tests/bench/bench_%.c.o $(ALL_ROOMS)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $^ $(LIBS) -o $@

define program_rule
$(BUILD)/bin/$(subst _,-,$(patsubst main_%.c,%,$(notdir $(1)))): $(call object,$(1)) $(ALL_ROOMS)
	@mkdir -p $$(@D)
	$$(if $$(V),,@echo "  LINK $$@")
	$$(Q)$$(CC) $$(LDFLAGS) $$^ $$(LIBS) -o $$@
endef
$(foreach m,$(MAINS),$(eval $(call program_rule,$(m))))

tests: $(TESTS) ## all test programs

clean: ## remove build/
	rm -rf build

help: ## this list
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/^([a-z-]+):[^#]*## */  \1\t/' | expand -t 20

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
