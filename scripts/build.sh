#!/usr/bin/env bash
# Configures build/ and builds the given targets there; all of them when none is given.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

if [ ! -f build/build.ninja ]; then
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  cmake --preset release >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
fi
cmake --build build --target "${@:-all}"
