# Shared by the checks that are shell scripts: counting checks, waiting, jobs and their daemons in a folder, and a copy of this machine's file
# system. Sourced by bash.
passed=0 failed=0 skipped=0

# check NAME COMMAND...: one test, passed when the command exits with 0
check() {
    local name=$1 output
    shift
    if output=$("$@" 2>&1); then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAIL  %s: %s\n%s\n' "$name" "$*" "$output" | sed '2,$s/^/    /'
    fi
}
skip() {
    skipped=$((skipped + 1))
    echo "skipped: $*"
}
finish() {
    echo "tests: $passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
    exit
}
# needs WHAT PROGRAM...: all is skipped where a program is missing
needs() {
    local program
    for program in "${@:2}"; do
        command -v "$program" > /dev/null || { skip "$1 needs $program: scripts/install-deps --system"; finish; }
    done
}
until_true() { # COMMAND...: for five minutes and more, which a loaded machine may need
    local try
    for try in $(seq 3000); do
        ! "$@" > /dev/null 2>&1 || return 0
        sleep 0.1
    done
    echo "still not: $*"
    return 1
}
empty() { [ -z "$("$@" 2>&1 | tee /dev/stderr)" ]; }
not() { ! "$@"; }

# --- below $place, a folder of the check: daemons, whose process is in NAME.run since checks run in shells of their own, and jobs ---
start() { # NAME COMMAND...
    "${@:2}" >> "$place/$1.out" 2>&1 &
    echo $! > "$place/$1.run"
    disown
}
kill_it() { kill "-$2" "$(cat "$place/$1.run")"; }                                                   # NAME SIGNAL
has_died() { ! grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$(cat "$place/$1.run")/status"; } # NAME
end_daemons() {
    local file
    for file in "$place"/*.run; do
        kill "$(cat "$file")" 2> /dev/null
    done
    for file in "$place"/*.run; do
        until_true has_died "$(basename "$file" .run)"
    done
}
ports() { # N: free ones
    python3 -c 'import socket, sys
all = [socket.socket() for _ in range(int(sys.argv[1]))]
[s.bind(("127.0.0.1", 0)) for s in all]
print(*(s.getsockname()[1] for s in all))' "$1"
}
job_write() { # LINE OF [workers]...: $place/job.toml
    cat > "$place/job.toml" << 'END'
[dataset]
generator = "sbm"
nodes = 3000
degree = 10
features = 24
[partition]
parts = 4
cache = "off"
[model]
kind = "sage"
layers = 3
hidden = 16
[train]
epochs = 600
eval_every = 100
checkpoint_every = 50
[workers]
threads = 1
END
    printf '%s\n' "$@" >> "$place/job.toml"
}
local_job() { # [ARGUMENT...]: the job by workers of this machine, in $place/here
    "$bin/trainerd" --config "$place/job.toml" --set workers.launcher=local --set workers.count=2 --set "output.dir=$place/here" "$@"
}
same_as_local() { # OUTPUT
    local file
    for file in model.safetensors best.safetensors logits.npy; do
        cmp "$place/here/$file" "$place/$1/$file" || return 1
    done
}
trained() { cat "$place/$1"/.run-*/metrics.jsonl | grep -q .; } # OUTPUT: an epoch is in its metrics
checkpointed() { ls "$place/$1"/.run-*/checkpoint/epoch-*; } # OUTPUT
epochs_of() { sed -n 's/.*interrupted after \([0-9]*\) of .*/\1/p' "$place/$1.out"; } # OUTPUT: where it was interrupted
workers() { # VARIABLE=VALUE: workers with this in their environment
    local process
    for process in $(pgrep -x trainer-worker); do
        ! tr '\0' '\n' < "/proc/$process/environ" 2> /dev/null | grep -qxF "$1" || echo "$process"
    done
}

# copy_make PLACE: mount a copy of this machine's file system at PLACE/root; files written there are in memory, in PLACE/new. PLACE is
# an empty folder. Needs its own mount namespace, with which the copy ends. Fails where that is not possible.
copy_make() {
    mount -t tmpfs none "$1" && mkdir "$1/root" "$1/new" "$1/work" &&
        mount -t overlay none -o "lowerdir=/,upperdir=$1/new,workdir=$1/work" "$1/root" &&
        mount -t tmpfs none "$1/root/dev" && mount -t tmpfs none "$1/root/run" && mount -t tmpfs none "$1/root/tmp" || return 1
    local device
    mkdir -m 1777 "$1/root/dev/shm"
    mkdir "$1/root/dev/pts"
    ln -s /proc/self/fd "$1/root/dev/fd"
    for device in "null 3" "zero 5" "full 7" "random 8" "urandom 9"; do
        mknod -m 666 "$1/root/dev/${device% *}" c 1 "${device#* }"
    done
}
