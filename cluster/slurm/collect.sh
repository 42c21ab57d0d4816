#!/usr/bin/env bash
# The end of a campaign, whatever became of its array: collect.sh FOLDER
set -euo pipefail
cd "$1/collector"
export PYTHONPATH=$PWD
exec python -m stages.collect --folder "$1"
