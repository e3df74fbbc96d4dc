#!/usr/bin/env bash
# Builds and tests a copy of the sources with another version of torch, and of Python if one is named:
#   scripts/try-torch.sh 2.14.1 [python3.12]
# The copy lies in build-torch-VERSION and has an environment of its own, of several GB: PyPI's builds
# of most versions are those for CUDA. They also run without a GPU.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ! ${1:-} =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]]; then
  echo "usage: scripts/try-torch.sh VERSION [PYTHON], such as scripts/try-torch.sh 2.14.1" >&2
  exit 2
fi
version=$1
python=${2:-python3}
copy=build-torch-$version

# What is there is kept but for sources: the environment and the build of an earlier call.
mkdir -p "$copy"
find "$copy" -mindepth 1 -maxdepth 1 ! -name .venv ! -name build -exec rm -r {} +
git ls-files --cached --others --exclude-standard -z |
  tar --create --null --files-from - --ignore-failed-read |  # a file may be removed, uncommitted
  tar --extract --directory "$copy"  # with its time, so that the build compiles what changed
cd "$copy"
sed -i -E "s/\btorch==[0-9.]+/torch==$version/" scripts/requirements-torch.txt pyproject.toml

[ -x .venv/bin/python ] || "$python" -m venv .venv
scripts/setup.sh
scripts/build.sh
.venv/bin/python -c 'import sys, torch; print("torch", torch.__version__, "Python", sys.version)'
scripts/test.sh
