#!/usr/bin/env bash
# Runs every test: C++ (ctest), then Python (pytest).
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

ctest --test-dir build --output-on-failure -j "$(nproc)"
python -m pytest -q -n "$(nproc)" --dist worksteal tests/python tests/cli
