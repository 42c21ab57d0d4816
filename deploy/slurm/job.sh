#!/usr/bin/env bash
# Run a command as a job of a campaign, in the campaign's folder: job.sh COMMAND…
# Slurm sends USR1 to this shell shortly before the time of a run's job ends. The shell then ends the command and requeues the
# job. In the requeued job, the run continues after its last finished epoch. A job is requeued at most 20 times, because a run
# that is not finished by then probably makes no progress.
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
