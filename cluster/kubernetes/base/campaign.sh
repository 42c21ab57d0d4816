#!/usr/bin/env bash
# What a pod of a campaign does: campaign.sh prepare|run|collect. The code is that of the campaign's clone.
#   JOB_NAME       ends in the scheduled minute, the same for both jobs of a schedule, whatever a clock says when a pod
#                  starts; or in the campaign's name, where somebody made the job
#   MEETING_PLACE  shared_cache or remote
#   GIT_URL, WAIT_SECONDS and the rest are in campaign.env
set -euo pipefail
checkout=/workspace/checkout
name=${JOB_NAME#*campaign-run-}
name=${name#*campaign-collect-}
scheduled_seconds=
if [[ $name =~ ^[0-9]{8}$ ]] && ((10#$name > 28000000)); then # since 2023; 20261201 is a name that somebody chose
  scheduled_seconds=$((10#$name * 60))
  name=$(date --utc --date="@$scheduled_seconds" +%Y-%m-%d-%H%M)
fi
folder=$checkout/.campaigns/$name

case $1 in
  prepare)
    if [ -e "$folder/stages.txt" ]; then exit; fi
    exec 9>>/workspace/lock
    flock 9 || true # where files can't be locked, several prepare, and the first one wins
    if [ -e "$checkout" ]; then
      [ -e "$folder/collector" ] || git -C "$checkout" pull --quiet --ff-only
    else
      partial=$(mktemp --directory /workspace/partial-XXXXXX)
      git clone --quiet "$GIT_URL" "$partial/checkout"
      if [ -e /credentials/dvc ]; then install -m 600 /credentials/dvc "$partial/checkout/.dvc/config.local"; fi
      mv --no-target-directory "$partial/checkout" "$checkout" || [ -e "$checkout" ]
      rm -rf "$partial"
    fi
    cd "$checkout"
    PYTHONPATH=$checkout exec python -m stages.campaign --campaign "$name" --prepare --meeting-place "$MEETING_PLACE"
    ;;
  run)
    exec bash "$folder/collector/cluster/slurm/run.sh" "$folder"
    ;;
  collect)
    left_seconds=$WAIT_SECONDS
    if [ -n "$scheduled_seconds" ]; then
      left_seconds=$((scheduled_seconds + WAIT_SECONDS - $(date +%s))) # also for a pod in place of one that was lost
    fi
    cd "$folder/collector"
    status=0
    PYTHONPATH=$PWD python -m stages.collect --folder "$folder" --wait "$left_seconds" || status=$?
    if [ "$MEETING_PLACE" = shared_cache ] && ! git -C "$checkout" push --quiet origin "campaign/$name"; then
      echo "note: the branch campaign/$name is in $checkout, and can't be pushed to $GIT_URL"
    fi
    cat "$folder/status.json"
    exit "$status"
    ;;
  *)
    echo "error: campaign.sh prepare, run or collect, not '$1'" >&2
    exit 2
    ;;
esac
