#!/usr/bin/env bash
# Runs the Python tests, with further arguments for pytest: `-m sweep` for the long ones alone.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

python -m pytest -q -n "$(nproc)" --dist worksteal tests/python tests/cli "$@"
python -m pytest -q tests/simulated "$@"  # a process of its own: it has another device
