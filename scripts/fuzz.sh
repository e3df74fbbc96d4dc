#!/usr/bin/env bash
# Reads damaged files and plans random graphs under the address and undefined-behaviour sanitizers:
# scripts/fuzz.sh [SECONDS for each program [SEED]]. What made a program fail stays in
# build-fuzz/fuzz_*.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
seconds=${1:-60}
seed=${2:-1}

cmake --preset fuzz
cmake --build --preset fuzz
cd build-fuzz
tests/fuzz_graph "$seconds" "$seed"
tests/fuzz_layout "$seconds" "$seed"
tests/fuzz_plans "$seconds" "$seed"
