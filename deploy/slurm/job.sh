#!/usr/bin/env bash
# Run a command as a job of a campaign, in the campaign's folder: job.sh COMMAND…
# Slurm warns this shell when time is running out. The shell ends the command and requeues the job, whose run goes on after its
# last whole epoch. A job is requeued at most 20 times: after that, it probably never gets further.
set -uo pipefail
export PYTHONPATH=$PWD
"$@" &
command=$!
again() {
  trap '' USR1
  kill $command
  wait $command
  [ "${SLURM_RESTART_COUNT:-0}" -ge 20 ] || exec scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
  exit 1
}
trap again USR1
wait $command
