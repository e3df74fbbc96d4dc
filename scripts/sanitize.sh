#!/usr/bin/env bash
# Runs the C++ tests under sanitizers: all of them under address and undefined behaviour, the
# runtime and training on LibTorch included; then those of parts that plan in threads under thread.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

cmake --preset address
cmake --build --preset address
# LibTorch is compiled without the sanitizers: containers that cross its border look overrun, and
# what it keeps until the end looks leaked.
ASAN_OPTIONS=detect_container_overflow=0:detect_leaks=0 \
  ctest --test-dir build-address --output-on-failure -j "$(nproc)"

cmake --preset thread
cmake --build --preset thread --target test_base test_planner test_slower
ctest --test-dir build-thread --output-on-failure -j "$(nproc)" -L 'base|planner|slower'
