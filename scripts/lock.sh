#!/usr/bin/env bash
# Writes scripts/requirements*.txt: what the .in files beside them pin, with the hash of each file that
# the index has of it, which pip then asks for. Run it when a version changes.
set -euo pipefail
cd "$(dirname "$0")"

tools=../build-lock
[ -x "$tools/bin/uv" ] || {
  python3 -m venv "$tools"
  "$tools/bin/python" -m pip install --quiet --disable-pip-version-check uv==0.13.9
}
for pinned in requirements*.in; do
  # Debian 12 has Python 3.11.2, and some packages ask for a later one.
  "$tools/bin/uv" pip compile --quiet --generate-hashes --no-deps --no-annotate --universal \
    --python-version 3.11.2 --custom-compile-command scripts/lock.sh \
    --output-file "${pinned%.in}.txt" "$pinned"
done
