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
cd "$clone"
export PYTHONPATH=$clone
if [ -e "$folder/remote" ]; then
  dvc pull download inputs
  dvc repro --single-item "$stage"
  dvc push --run-cache "$stage"
else
  dvc checkout download inputs
  dvc repro --single-item "$stage"
fi
rm -rf "$clone"
