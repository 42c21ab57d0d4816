#!/usr/bin/env bash
# Install the locked packages of a target into /opt/venv, while an image is built.
set -euo pipefail
target=$1
unset SSL_CERT_FILE # the file at this path does not exist yet
if [ -s /run/ca.pem ]; then export SSL_CERT_FILE=/run/ca.pem; fi # a private certificate authority, for the build only
# uv leaves files only in its cache, which no image keeps.
export UV_CACHE_DIR=/var/cache/uv TMPDIR=/var/cache/uv UV_LINK_MODE=copy VIRTUAL_ENV=/opt/venv
/opt/uv/bin/uv venv --quiet --python /usr/bin/python3 "$VIRTUAL_ENV"
# Compile Python files now, because a study can't write to /opt/venv.
/opt/uv/bin/uv pip install --quiet --compile-bytecode --require-hashes \
  -r "requirements/$target.txt" -r requirements/workflow.txt
# The public certificate authorities, for Debian's git and Python, are those of the locked certifi.
ln -s "$("$VIRTUAL_ENV/bin/python" -m certifi)" "$VIRTUAL_ENV/certificates.pem"
# Remove 290 MB of headers, because the image has no compiler.
rm -r "$VIRTUAL_ENV"/lib/python3*/site-packages/tensorflow/include
