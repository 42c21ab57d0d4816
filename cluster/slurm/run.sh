#!/usr/bin/env bash
# One element of a campaign's array: the DVC stage in the line of its number, in a clone of its own.
#   run.sh FOLDER   the campaign's, with stages.txt and collector/, on a file system that the nodes share
set -euo pipefail
folder=$1
stage=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" "$folder/stages.txt")
clone=$folder/workers/$SLURM_ARRAY_TASK_ID
rm -rf "$clone" # of an attempt that was ended
git clone --quiet "$folder/collector" "$clone"
cp "$folder/collector/.dvc/config.local" "$clone/.dvc/"
mkdir -p "$folder/checkpoints" "$clone/.cache"
ln -s "$folder/checkpoints" "$clone/.cache/checkpoints" # where the next attempt finds them
cd "$clone"
export PYTHONPATH=$clone

# Slurm's warning that time is running out goes to this shell, and on to all of the job. Training ends its epoch, keeps
# it and fails; then the job is queued again. DVC and its shell have to ignore the signal, which kills them otherwise.
warned=
trap 'warned=1; trap "" USR1; kill -USR1 0' USR1
unwarned() {
  local status=0
  (trap '' USR1 && exec "$@") &
  wait $! || status=$?
  if [ "$warned" ]; then # the wait itself was interrupted
    status=0
    wait $! || status=$?
  fi
  return $status
}

get=checkout
if [ -e "$folder/remote" ]; then get=pull; fi
dvc $get download inputs
if ! unwarned dvc repro --single-item "$stage"; then
  if [ "$warned" ]; then exec scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"; fi
  exit 1
fi
if [ -e "$folder/remote" ]; then dvc push --run-cache "$stage"; fi
cd "$folder"
rm -rf "$clone"
