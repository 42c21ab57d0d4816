#!/usr/bin/env bash
# Run a command as a job of a campaign, in the campaign's folder: job.sh COMMAND…
# Slurm's warning that time is running out comes to this shell, and goes on to the command. Training then ends its epoch, keeps
# it and ends in status 75, and the job is queued again.
set -uo pipefail
export PYTHONPATH=$PWD
trap '' USR1 # the command ignores the signal, unless it listens to it
"$@" &
command=$!
warned= status=0
trap 'warned=1; trap "" USR1; kill -USR1 $command' USR1
wait $command || status=$?
if [ "$warned" ]; then # it was the wait that the signal ended
  status=0
  wait $command || status=$?
fi
if [ $status = 75 ]; then exec scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"; fi
exit $status
