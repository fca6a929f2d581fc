# Shared by check-package, check-service, check-nvcc, check-bundle and gpu-check: counting checks, and a copy of this machine's file system. Sourced by bash.
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
empty() { [ -z "$("$@" 2>&1 | tee /dev/stderr)" ]; }
not() { ! "$@"; }

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
