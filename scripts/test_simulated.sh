#!/usr/bin/env bash
# Runs the Python tests on the simulated accelerator: the given ones, or all of tests/python.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

[ $# -gt 0 ] || set -- tests/python
LOWTIDE_TEST_DEVICE=simulated python -m pytest -q -rs -n "$(nproc)" --dist worksteal "$@"
