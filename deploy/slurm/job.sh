#!/usr/bin/env bash
# Run a command as a job of a campaign, in the campaign's folder: job.sh COMMAND…
# Slurm's warning that time is running out comes to this shell. It ends the command, and the job is queued again: a run goes on
# after its last whole epoch. A job that is queued again for the 20th time probably never gets further.
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
