# Shared by check-slurm and check-slurm-runner: a Slurm of two nodes, north and south, that are this machine. Sourced by bash, after checks.sh.
#
# Slurm's daemons run for the check alone, with their files in a temporary folder, $place, and ports that are free. Needs the packages of
# scripts/install-deps --system; the check is skipped without.
bin=$(realpath "${BUILD:-build/release}/bin")
PATH=$PATH:/usr/sbin
for program in munged slurmctld slurmd sbatch srun scancel squeue python3; do
    if ! command -v $program > /dev/null; then
        skip "Slurm needs $program: scripts/install-deps --system"
        finish
    fi
done

place=$(mktemp -d)
end() {
    scancel --quiet --user="$(id -un)" --signal=KILL --full 2> /dev/null
    until_true no_jobs
    local file process
    for process in $(tasks | cut -d' ' -f1); do # of a node without a slurmd
        kill -KILL "$process"
    done
    for file in "$place"/*.run; do
        kill "$(cat "$file")" 2> /dev/null
    done
    for file in "$place"/*.run; do
        until_true has_died "$(basename "$file" .run)"
    done
    rm -rf "$place"
}
until_true() { # for a minute
    local try
    for try in $(seq 600); do
        ! "$@" > /dev/null 2>&1 || return 0
        sleep 0.1
    done
    echo "still not: $*"
    return 1
}
no_jobs() { [ -z "$(squeue --noheader)" ]; }

# --- Slurm ---
# Its pid is in a file, since checks run in shells of their own.
start() { # NAME COMMAND...: a daemon
    "${@:2}" >> "$place/$1.out" 2>&1 &
    echo $! > "$place/$1.run"
    disown
}
kill_it() { kill "-$2" "$(cat "$place/$1.run")"; }                                                       # NAME SIGNAL
has_died() { ! grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$(cat "$place/$1.run")/status"; } # NAME
slurm_start() { # [LINE OF SLURM.CONF...]
    local host ports munge="$place/munge" me
    host=$(hostname)
    me=$(id -un)
    read -ra ports < <(python3 -c 'import socket
all = [socket.socket() for _ in range(3)]
[s.bind(("", 0)) for s in all]
print(*(s.getsockname()[1] for s in all))')
    mkdir "$munge" && chmod 755 "$place" "$munge"
    head -c 1024 /dev/urandom > "$munge/key" && chmod 400 "$munge/key"
    cat > "$place/slurm.conf" << END
ClusterName=check
SlurmctldHost=$host
SlurmctldPort=${ports[0]}
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=socket=$munge/socket,cred_expire=5
SlurmUser=$me
SlurmdUser=$me
StateSaveLocation=$place/state
SlurmdSpoolDir=$place/spool-%n
SlurmctldPidFile=$place/slurmctld.pid
SlurmdPidFile=$place/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
MpiDefault=none
ReturnToService=2
NodeName=south NodeHostname=$host NodeAddr=127.0.0.1 Port=${ports[1]} CPUs=2 RealMemory=1000
NodeName=north NodeHostname=$host NodeAddr=127.0.0.1 Port=${ports[2]} CPUs=2 RealMemory=1000
PartitionName=all Nodes=ALL Default=YES State=UP
END
    printf '%s\n' "$@" >> "$place/slurm.conf"
    export SLURM_CONF=$place/slurm.conf
    start munged munged --force --foreground --socket="$munge/socket" --key-file="$munge/key" --log-file="$munge/log" \
        --pid-file="$munge/pid" --seed-file="$munge/seed"
    until_true test -S "$munge/socket" || return 1
    start slurmctld slurmctld -D -f "$SLURM_CONF"
    start south slurmd -D -N south -f "$SLURM_CONF"
    start north slurmd -D -N north -f "$SLURM_CONF"
    two_idle() { [ "$(sinfo --noheader --states=idle --format=%D)" = 2 ]; }
    until_true two_idle
}

tasks() { # workers that Slurm has started for this check, as "PID NODE"
    local process
    for process in $(pgrep -x trainer-worker); do
        if tr '\0' '\n' < "/proc/$process/environ" 2> /dev/null | grep -qxF "SLURM_CONF=$SLURM_CONF"; then
            echo "$process $(tr '\0' '\n' < "/proc/$process/environ" | sed -n 's/^SLURMD_NODENAME=//p')"
        fi
    done
}
none_left() { [ -z "$(tasks)" ]; }
