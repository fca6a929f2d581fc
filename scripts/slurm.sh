# Shared by check-slurm and check-slurm-runner: a Slurm of two nodes, north and south, that are this machine. Sourced by bash, after checks.sh.
#
# Slurm's daemons run for the check alone, with their files in a temporary folder, $place, and ports that are free. Needs the packages of
# scripts/install-deps --system; the check is skipped without.
bin=$(realpath "${BUILD:-build/release}/bin")
PATH=$PATH:/usr/sbin
needs Slurm munged slurmctld slurmd sbatch srun scancel squeue python3

place=$(mktemp -d)
end() {
    scancel --quiet --user="$(id -un)" --signal=KILL --full 2> /dev/null
    until_true no_jobs
    local process
    for process in $(tasks | cut -d' ' -f1); do # of a node without a slurmd
        kill -KILL "$process"
    done
    end_daemons
    rm -rf "$place"
}
no_jobs() { [ -z "$(squeue --noheader)" ]; }

# --- Slurm ---
slurm_start() { # [LINE OF SLURM.CONF...]
    local host ports munge="$place/munge" me
    host=$(hostname)
    me=$(id -un)
    read -ra ports < <(ports 3)
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
    for process in $(workers "SLURM_CONF=$SLURM_CONF"); do
        echo "$process $(tr '\0' '\n' < "/proc/$process/environ" | sed -n 's/^SLURMD_NODENAME=//p')"
    done
}
none_left() { [ -z "$(tasks)" ]; }
slurm_or_skip() { # [LINE OF SLURM.CONF...]
    slurm_start "$@" && return
    skip "Slurm does not start here: $(tail -n 3 "$place"/*.out | tr '\n' ' ')"
    end
    finish
}
