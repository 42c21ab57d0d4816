#!/usr/bin/env bash
# Build the image of a target: deploy/container/build.sh cpu|cuda|cuda-jax|tpu, or make image TARGET=…
#   BASE_IMAGE      the base: debian:bookworm-slim, or a copy of it
#   CA_CERTIFICATE  file of a private certificate authority; the build reads it, but no layer keeps it
#   BUILD_OPTIONS   more options for docker build
set -euo pipefail
source "$(dirname "$0")/common.sh"

commit=null dirty=null revision=unknown
if revision=$(git rev-parse HEAD 2>/dev/null); then
  commit="\"$revision\"" dirty=false
  if [ -n "$(git status --porcelain)" ]; then
    dirty=true
    echo "note: the tree differs from its last commit; the image and its records will say so"
  fi
fi

options=(
  --target "$target" --tag "$image"
  --build-arg "COMMIT=$commit" --build-arg "DIRTY=$dirty"
  --label "mixed-precision.locks=$locks_sha256" --label "mixed-precision.dirty=$dirty"
  --label org.opencontainers.image.title=mixed-precision-reproduction
  --label org.opencontainers.image.licenses=Apache-2.0
  --label "org.opencontainers.image.revision=$revision"
)
if [ -n "${BASE_IMAGE:-}" ]; then
  options+=(--build-arg "BASE_IMAGE=$BASE_IMAGE")
fi
if [ -n "${CA_CERTIFICATE:-}" ]; then
  [ -r "$CA_CERTIFICATE" ] || fail "CA_CERTIFICATE=$CA_CERTIFICATE can't be read; name a PEM file"
  options+=(--secret "id=ca,src=$CA_CERTIFICATE")
fi
# shellcheck disable=SC2086  # several options in one variable
DOCKER_BUILDKIT=1 "$docker" build "${options[@]}" ${BUILD_OPTIONS:-} .
"$docker" image inspect --format "$image: {{.Size}} bytes, {{.Id}}" "$image"
