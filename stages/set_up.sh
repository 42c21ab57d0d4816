#!/bin/sh
# Make .venv with the packages that requirements/uv.txt locks: stages/set_up.sh PYTHON. If the project's packages don't support
# that Python, uv finds or fetches a Python that they support. If uv is not on the path, pip first installs uv from a package
# index and checks its hash.
set -eu
locked='install --quiet --require-hashes --requirement requirements/uv.txt'
trap 'rm -rf "${folder:-}"' EXIT

# fail REMEDY: print the remedy, and end with status 1.
fail() {
  echo "what to do: $1; then run the same command" >&2
  exit 1
}
index='read the message above; if it is about the network, connect this machine to a Python package index, or name one that it reaches (PIP_INDEX_URL=… and UV_DEFAULT_INDEX=…)'

echo "setting up .venv"
if ! .venv/bin/python -c '' 2>/dev/null || ! uv=$(command -v .venv/bin/uv); then
  if ! uv=$(command -v uv); then
    folder=$(mktemp -d)
    "$1" -m venv "$folder" || fail "install Python's venv (Debian and Ubuntu: sudo apt-get install python3-venv), or uv"
    # shellcheck disable=SC2086  # several words
    "$folder/bin/python" -m pip --disable-pip-version-check $locked || fail "$index"
    uv=$folder/bin/uv
  fi
  fits='import sys; print(sys.executable if (3, 11) <= sys.version_info < (3, 14) else ">=3.11,<3.14")'
  "$uv" venv --quiet --clear --python "$("$1" -c "$fits")" .venv || fail "install Python 3.13 (Fedora: sudo dnf install python3.13), or $index"
fi
# shellcheck disable=SC2086
"$uv" pip $locked --python .venv || fail "$index"
