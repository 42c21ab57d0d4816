#!/usr/bin/env bash
# One element of a campaign: the DVC stage in the line of its number, in a clone of its own.
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
rm -rf "$clone" # of an attempt that was ended
git clone --quiet "$folder/collector" "$clone"
cp "$folder/collector/.dvc/config.local" "$clone/.dvc/"
cd "$clone"
export PYTHONPATH=$clone
if [ -e "$folder/remote" ]; then
  dvc pull download inputs
  dvc repro --pull --single-item "$stage"
  dvc push --run-cache "$stage"
else
  dvc checkout download inputs
  dvc repro --single-item "$stage"
fi
rm -rf "$clone"
