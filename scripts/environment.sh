#!/usr/bin/env bash
# An environment of Python in FOLDER with the packages of scripts/requirements-NAME.txt, each by its
# hash: environment.sh NAME FOLDER. Does nothing when they are there.
set -euo pipefail
cd "$(dirname "$0")/.."
requirements=scripts/requirements-$1.txt
stamp=$2/requirements.txt
if ! cmp -s "$requirements" "$stamp"; then
  echo "$1: installing Python packages in $2"
  [ -x "$2/bin/python" ] || python3 -m venv "$2"
  "$2/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
    -r "$requirements"
  cp "$requirements" "$stamp"
fi
