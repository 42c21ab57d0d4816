#!/usr/bin/env bash
# Run one element of a campaign: the DVC stage in the line of its number, in a clone of its own.
#   run.sh FOLDER   the campaign's, with stages.txt and collector/
# The number, from 0, is that of Slurm's array or of Kubernetes' Indexed Job. A stage that is finished ends at once.
set -euo pipefail
folder=$1
index=${SLURM_ARRAY_TASK_ID:-${JOB_COMPLETION_INDEX:?is for an element of a job}}
stage=$(sed -n "$((index + 1))p" "$folder/stages.txt")
if [ -z "$stage" ]; then
  echo "error: $folder/stages.txt has no line $((index + 1))" >&2
  exit 2
fi
clone=$folder/workers/$index
rm -rf "$clone" # of an attempt that was ended; its checkpoint and what it finished lie elsewhere
git clone --quiet "$folder/collector" "$clone"
cp "$folder/collector/.dvc/config.local" "$clone/.dvc/"
mkdir -p "$folder/checkpoints" "$clone/.cache"
ln -s "$folder/checkpoints" "$clone/.cache/checkpoints"
cd "$clone"
export PYTHONPATH=$clone

# Slurm's warning that time is running out goes to this shell, and from here to all of the job. Training ends its epoch,
# keeps it and fails; then the job is queued again. DVC and its shell must ignore the signal, which would end them.
warned=
trap 'warned=1; trap "" USR1; kill -USR1 0' USR1
unwarned() {
  local status=0
  (trap '' USR1 && exec "$@") &
  wait $! || status=$?
  if [ "$warned" ]; then # it was the wait that the signal ended
    status=0
    wait $! || status=$?
  fi
  return $status
}

step=()
if [[ $stage == speed@* && "${SLURM_JOB_ID:-}" ]]; then # a node to itself has more CPUs than the job of a run
  step=(srun --ntasks=1 --exact --cpus-per-task="$SLURM_CPUS_PER_TASK")
fi
run() {
  if unwarned "${step[@]}" dvc repro "$@" --single-item "$stage"; then return; fi
  if [ "$warned" ] && [ "${SLURM_ARRAY_JOB_ID:-}" ]; then
    exec scontrol requeue "${SLURM_ARRAY_JOB_ID}_$index"
  fi
  exit 1
}

if [ -e "$folder/remote" ]; then
  dvc cache dir --local "$folder/cache" # what can't be pushed now is pushed by the next attempt
  dvc pull download inputs
  run --pull
  for pause in 20 60 180 0; do
    if dvc push --run-cache "$stage"; then break; fi
    if [ $pause = 0 ]; then exit 1; fi
    sleep $pause
  done
else
  dvc checkout download inputs
  run
fi
cd "$folder"
rm -rf "$clone"
