#!/usr/bin/env bash
# Runs every test: C++ (ctest), Python (pytest), and the core's tests again under the sanitizers.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

ctest --test-dir build --output-on-failure -j "$(nproc)"
python -m pytest -q tests/python tests/cli

scripts/build.sh build-sanitize -DLOWTIDE_SANITIZE=address,undefined -DLOWTIDE_RUNTIME=OFF \
  -DLOWTIDE_PYTHON=OFF -DLOWTIDE_BENCH=OFF
ctest --test-dir build-sanitize --output-on-failure -j "$(nproc)"
