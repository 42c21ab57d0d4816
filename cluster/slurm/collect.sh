#!/usr/bin/env bash
# End a campaign, however its array ended: collect.sh FOLDER
set -euo pipefail
cd "$1/collector"
export PYTHONPATH=$PWD
exec python -m stages.collect --folder "$1"
