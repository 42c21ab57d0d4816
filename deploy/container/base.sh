#!/usr/bin/env bash
# Make a base image from Debian's package archive, if no base image can be pulled: deploy/container/base.sh NAME
# This needs root and debootstrap. Afterwards, build images with BASE_IMAGE=NAME.
set -euo pipefail
name=$1
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
debootstrap --variant=minbase bookworm "$folder" >/dev/null
rm -rf "$folder"/var/cache/apt/* "$folder"/var/lib/apt/lists/* "$folder"/var/log/* # Debian's slim image lacks such files, too
rm -rf "$folder"/usr/share/doc/* "$folder"/usr/share/info/* "$folder"/usr/share/locale/* "$folder"/usr/share/man/*
tar --directory "$folder" --create . | "${DOCKER:-docker}" import - "$name"
