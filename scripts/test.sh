#!/usr/bin/env bash
# Runs the tests: C++ (ctest), then Python (pytest).
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

ctest --test-dir build --output-on-failure -j "$(nproc)"
scripts/test_python.sh
scripts/test_simulated.sh tests/python/test_wrap.py tests/python/test_pending_passes.py
