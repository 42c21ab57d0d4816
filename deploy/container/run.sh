#!/usr/bin/env bash
# Run the study, or a command, in a container of a target's image, on this checkout, as the calling user:
#   deploy/container/run.sh cpu|cuda|cuda-jax|tpu [command…], or make repro-in-container TARGET=… [PROFILE=…]
#   TFDS_DATA_DIR   the folder of prepared data sets, mounted read-only; by default ~/tensorflow_datasets, mounted writable
#   CA_CERTIFICATE  file of a private certificate authority, for downloads
#   JAX_PLATFORMS   set to cpu to try the cuda-jax and tpu images without a GPU or TPU
#   RUN_OPTIONS     more options for docker run
set -euo pipefail
source "$(dirname "$0")/common.sh"
shift
workspace=$PWD

# mount PATH [ro]: mount a folder or file at the same path inside the container, so that paths in git's and DVC's files are valid.
mount() {
  options+=(--volume "$1:$1${2:+:$2}")
}

[ "$(stat --format %u .)" = "$(id -u)" ] ||
  fail "$workspace belongs to $(stat --format %U .) and you are $(id -un 2>/dev/null || id -u);" \
    "run this as its owner, or in a clone of your own, so that the results have one owner"
git_folder=$(git rev-parse --path-format=absolute --git-common-dir 2>/dev/null) ||
  fail "$workspace is no git checkout, which DVC needs; git clone the project"

"$docker" image inspect "$image" >/dev/null 2>&1 || fail "there is no image $image; build it: make image TARGET=$target"
[ "$(label mixed-precision.locks)" = "$locks_sha256" ] ||
  fail "$image was not built from this tree's ${locks[*]}; build it again: make image TARGET=$target"
[ "$(label mixed-precision.dirty)" != true ] ||
  echo "note: $image was built from a tree with uncommitted changes; the records say so"

digest='{{if .RepoDigests}}{{index .RepoDigests 0}}{{else}}{{.Id}}{{end}}'
options=(
  --rm --init --read-only --tmpfs /tmp --shm-size 1g
  --user "$(id -u):$(id -g)"
  --workdir "$workspace"
  --env "IMAGE_DIGEST=$("$docker" image inspect --format "$digest" "$image")"
  --env TINI_KILL_PROCESS_GROUP=1 # an interrupt reaches every process inside
  --env JAX_PLATFORMS --env XLA_FLAGS --env CUDA_VISIBLE_DEVICES
)
mount "$workspace"
if [ -t 0 ] && [ -t 1 ]; then
  options+=(--interactive --tty)
fi
if [ "$git_folder" != "$workspace/.git" ]; then # a worktree
  mount "$git_folder"
fi
for file in .dvc/config.local .dvc/config; do
  cache=$(sed -n '/^\[cache\]/,/^\[/s/^ *dir *= *//p' "$file" 2>/dev/null) || true
  if [ -n "$cache" ]; then
    cache=$(cd .dvc && realpath --canonicalize-missing "$cache")
    mkdir -p "$cache"
    mount "$cache"
    break
  fi
done
if [ -n "${TFDS_DATA_DIR:-}" ]; then
  data=$(realpath --canonicalize-existing "$TFDS_DATA_DIR/" 2>/dev/null) ||
    fail "TFDS_DATA_DIR=$TFDS_DATA_DIR is no folder; name the one that holds the prepared data sets, or unset it"
  mount "$data" ro
else
  data=$HOME/tensorflow_datasets
  mkdir -p "$data"
  mount "$data"
fi
options+=(--env "TFDS_DATA_DIR=$data")
if [ -n "${CA_CERTIFICATE:-}" ]; then
  certificate=$(realpath --canonicalize-existing "$CA_CERTIFICATE" 2>/dev/null) ||
    fail "CA_CERTIFICATE=$CA_CERTIFICATE can't be read; name a PEM file"
  mount "$certificate" ro
  options+=(--env "SSL_CERT_FILE=$certificate" --env "REQUESTS_CA_BUNDLE=$certificate")
fi

case $target in
  cuda | cuda-jax)
    if [ "$target" = cuda ] || [ "${JAX_PLATFORMS:-}" != cpu ]; then
      # Ask Docker itself whether it can provide a GPU.
      answer=$("$docker" run --rm --gpus all "$image" true 2>&1) ||
        fail "Docker can't hand out an NVIDIA GPU (${answer%%$'\n'*}); install the driver and the NVIDIA Container" \
          "Toolkit (nvidia-ctk runtime configure --runtime=docker, then restart Docker), or use TARGET=cpu"
      options+=(--gpus all)
    fi
    ;;
  tpu)
    if [ "${JAX_PLATFORMS:-}" != cpu ]; then
      shopt -s nullglob
      devices=(/dev/accel* /dev/vfio/*)
      [ ${#devices[@]} -gt 0 ] ||
        fail "there is no TPU here (no /dev/accel*, no /dev/vfio/*); run this on a TPU VM," \
          "or with JAX_PLATFORMS=cpu to try the image without one"
      for device in "${devices[@]}"; do
        options+=(--device "$device" --group-add "$(stat --format %g "$device")")
      done
      # libtpu locks memory, and asks the host's metadata service how the TPUs are connected.
      options+=(--ulimit memlock=-1 --network host)
    fi
    ;;
esac

if [ $# -eq 0 ]; then
  set -- make --no-print-directory BIN=/opt/venv/bin "ENGINE=$target" ${PROFILE:+"PROFILE=$PROFILE"} study
fi
# shellcheck disable=SC2086  # several options in one variable
exec "$docker" run "${options[@]}" ${RUN_OPTIONS:-} "$image" "$@"
