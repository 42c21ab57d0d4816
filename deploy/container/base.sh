#!/usr/bin/env bash
# Make a base image from Debian's package archive, if none can be pulled: deploy/container/base.sh NAME
# Needs root and debootstrap. Then build with BASE_IMAGE=NAME.
set -euo pipefail
name=$1
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
debootstrap --variant=minbase bookworm "$folder" >/dev/null
rm -rf "$folder"/var/cache/apt/* "$folder"/var/lib/apt/lists/* "$folder"/var/log/* # as slim as Debian's own
rm -rf "$folder"/usr/share/doc/* "$folder"/usr/share/info/* "$folder"/usr/share/locale/* "$folder"/usr/share/man/*
tar --directory "$folder" --create . | "${DOCKER:-docker}" import - "$name"
