# Shared by gpu-check and gpu-bench: the unpacked archive of `make gpu-bundle`, and the machine that it is on. Sourced by bash, in the
# archive's folder.
[ -e bundle.txt ] || { echo "$0 runs where the archive of \`make gpu-bundle\` is unpacked" >&2; exit 2; }
of_bundle() { awk -v key="$1" '$1 == key { $1 = ""; print substr($0, 2) }' bundle.txt; }
device=$(of_bundle device)
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT

# --- libraries: the archive's, then CUDA's, which may be the toolkit's or PyTorch's ---
# The first Python that has PyTorch, or the first there is. PyTorch Geometric is the archive's where that Python has none.
python=
for candidate in python3 /usr/bin/python3; do
    command -v "$candidate" > /dev/null || continue
    python=${python:-$candidate}
    ! "$candidate" -c 'from importlib.util import find_spec; exit(find_spec("torch") is None)' || { python=$candidate && break; }
done
if [ -n "$python" ] && ! "$python" -c 'from importlib.util import find_spec; exit(find_spec("torch_geometric") is None)'; then
    export PYTHONPATH=$PWD/python${PYTHONPATH:+:$PYTHONPATH}
fi
cuda_folders() {
    ls -d /usr/local/cuda/lib64 /usr/local/cuda-*/lib64 "$(dirname "$(readlink -f "$(command -v nvcc)")")/../lib64"
    [ -z "$python" ] || "$python" -c 'import glob, site, sys
for place in site.getsitepackages() + sys.path:
    print(*glob.glob(place + "/nvidia/*/lib"), sep="\n")'
} 2> /dev/null
bundle_libraries=$(printf '%s\n' "$PWD/lib/carried" "$(cuda_folders)" "${LD_LIBRARY_PATH:-}" | tr ':' '\n' | awk 'NF && !seen[$0]++' | paste -sd:)
run_limit_s= run_under=()
# run PROGRAM ARGUMENTS…: one of the archive's, for run_limit_s seconds at most, under run_under
run() {
    local program=$1
    shift
    LD_LIBRARY_PATH=$bundle_libraries UCX_MODULE_DIR=$PWD/lib/carried/ucx OMP_WAIT_POLICY=passive GOMP_SPINCOUNT=0 \
        ${run_limit_s:+timeout -k 5 "$run_limit_s"} "${run_under[@]}" "bin/$program" "$@"
}

# --- what must be there ---
if [ "$(uname -m)" != "$(of_bundle machine)" ]; then
    echo "this archive is for $(of_bundle machine), this machine is $(uname -m)"
    exit 69
fi
has_glibc=$(getconf GNU_LIBC_VERSION 2> /dev/null | awk '{ print $2 }')
if [ "$(printf '%s\n' "$(of_bundle glibc)" "${has_glibc:-0}" | sort -V | head -n 1)" != "$(of_bundle glibc)" ]; then
    echo "this archive needs glibc $(of_bundle glibc), this machine has ${has_glibc:-another C library}"
    exit 69
fi
gpus=$(run trainer-worker --gpus 2>&1) || { echo "$gpus"; exit 69; }
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2> /dev/null | head -n 1)
machine_line() {
    echo "GPU ${gpus%%$'\n'*}; driver ${driver:-none}; trainerd $(of_bundle version), commit $(of_bundle commit), nvcc $(of_bundle nvcc); $(nproc) cores"
}
