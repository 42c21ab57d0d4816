#!/bin/sh
# Make .venv, with a Python that the packages are made for and with what requirements/uv.txt locks:
# stages/set_up.sh PYTHON. Where PYTHON won't do, another one on the path does, or one that uv finds or fetches.
set -eu
python=$1
locked='install --quiet --require-hashes --requirement requirements/uv.txt'
version_fits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; }
can_start() { version_fits "$1" && "$1" -c 'import ensurepip, venv' 2>/dev/null; }

# no_packages NAME: how to reach an index by the variable of that name.
no_packages() {
  echo "what to do: connect this machine to a Python package index, or name one that it reaches ($1=https://…);" \
    "then run the same command" >&2
  exit 1
}

# shellcheck disable=SC2086  # several words
fill() {
  if [ -x .venv/bin/uv ]; then
    .venv/bin/uv pip $locked --python .venv || no_packages UV_DEFAULT_INDEX
  else
    .venv/bin/python -m pip --disable-pip-version-check $locked || no_packages PIP_INDEX_URL
  fi
}

echo "setting up .venv"
if version_fits .venv/bin/python && { [ -x .venv/bin/uv ] || .venv/bin/python -c 'import pip' 2>/dev/null; }; then
  fill
  exit
fi
what=$("$python" -c 'import platform; print("is Python", platform.python_version())' 2>/dev/null) || what='does not start'
! version_fits "$python" || what="$what, without venv"
for candidate in "$python" python3.13 python3.12 python3.11; do
  if can_start "$candidate"; then
    [ "$candidate" = "$python" ] || echo "$python $what; the packages are for Python 3.11 to 3.13: taking $candidate"
    "$candidate" -m venv --clear .venv
    fill
    exit
  fi
done

echo "$python $what; the packages are for Python 3.11 to 3.13: uv looks for one, or else fetches it"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# shellcheck disable=SC2086
if uv=$(command -v uv) || {
  uv=$folder/bin/uv
  "$python" -c 'import ensurepip, venv' 2>/dev/null && "$python" -m venv "$folder" &&
    "$folder/bin/python" -m pip --disable-pip-version-check $locked
}; then
  if "$uv" venv --quiet --clear --python '>=3.11,<3.14' .venv; then
    # shellcheck disable=SC2086
    "$uv" pip $locked --python .venv || no_packages UV_DEFAULT_INDEX
    exit
  fi
fi

debian=python3-venv ubuntu='add-apt-repository ppa:deadsnakes/ppa && sudo apt-get install python3.13-venv' fedora=python3.13
for candidate in "$python" python3.13 python3.12 python3.11; do
  if version_fits "$candidate"; then # it lacks venv alone
    fedora=python$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    debian=$fedora-venv ubuntu="apt-get install $fedora-venv"
  fi
done
cat >&2 <<END
error: there is no Python 3.11 to 3.13 with venv here, and uv could not fetch one. Install it, then run the same command:
  Debian: sudo apt-get install $debian
  Ubuntu: sudo $ubuntu
  Fedora: sudo dnf install $fedora
END
exit 1
