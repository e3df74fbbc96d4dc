#!/usr/bin/env bash
# Builds the core with the address and undefined-behaviour sanitizers and runs its tests.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

# -O1: instrumented code takes the compiler several times as long to optimize further.
cmake -G Ninja -B build-sanitize -DLOWTIDE_SANITIZE=address,undefined -DLOWTIDE_RUNTIME=OFF \
  -DLOWTIDE_BENCH=OFF -DCMAKE_CXX_FLAGS_RELEASE=-O1
cmake --build build-sanitize
ctest --test-dir build-sanitize --output-on-failure -j "$(nproc)"
