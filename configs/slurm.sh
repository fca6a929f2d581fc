#!/bin/bash
# A job on Slurm: sbatch configs/slurm.sh job.toml; the job file has workers.launcher = "slurm" and output.dir = "out".
#SBATCH --ntasks=4 --cpus-per-task=8 --mem-per-cpu=2G --time=24:00:00
#SBATCH --requeue --open-mode=append --signal=TERM@120
for checkpoint in out/.run-*/checkpoint/epoch-*.ckpt; do
    [ ! -e "$checkpoint" ] || resume=--resume # it was preempted, or had no time left
done
trainerd --config "$1" $resume
code=$?
[ $code != 75 ] || scontrol requeue "$SLURM_JOB_ID"
exit $code
