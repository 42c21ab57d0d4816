#!/usr/bin/env bash
# Build the image of a target: deploy/container/build.sh cpu|cuda|cuda-jax|tpu, or make image TARGET=…
#   BASE_IMAGE      what it stands on: debian:bookworm-slim, or a copy of it
#   CA_CERTIFICATE  file of a private certificate authority; the build reads it and no layer keeps it
#   BUILD_OPTIONS   more options for docker build
set -euo pipefail
source "$(dirname "$0")/common.sh"

# A client of version 23 or later builds with a plugin only.
version=$("$docker" version --format '{{.Client.Version}}')
if [ "${version%%.*}" -ge 23 ] && ! "$docker" buildx version >/dev/null 2>&1; then
  fail "this Docker client ($version) has no buildx; install it (Debian: apt-get install docker-buildx)," \
    "or name another client: DOCKER=/usr/bin/docker"
fi

# What a first build takes: the image, and in Docker's build cache the packages it is made of.
case $target in cpu) needed_gb=6 ;; cuda | cuda-jax) needed_gb=16 ;; tpu) needed_gb=7 ;; esac
folder=$("$docker" info --format '{{.DockerRootDir}}' 2>/dev/null) || folder= # Podman has no such word
same_packages=$("$docker" image ls --quiet --filter "label=mixed-precision.locks=$locks_sha256")
if [ -e "$folder" ] && [ -z "$same_packages" ]; then
  free_gb=$(($(df --output=avail --block-size=1M "$folder" | tail -n 1) / 1000))
  [ "$free_gb" -ge "$needed_gb" ] ||
    fail "the build needs $needed_gb GB in $folder and $free_gb GB are free there; make room" \
      "(docker system df shows what Docker keeps), or move Docker's data-root"
fi

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
