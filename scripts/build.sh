#!/usr/bin/env bash
# Configures and builds into build/ (or $1, with further CMake options behind it).
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
folder=${1:-build}
torch=$(python -c 'import torch; print(torch.utils.cmake_prefix_path)' 2>/dev/null)
if [ ! -f "$folder/build.ninja" ] || [ $# -gt 1 ]; then
  cmake -G Ninja -B "$folder" -DCMAKE_PREFIX_PATH="$torch" -DLOWTIDE_PYTHON=ON \
    -DPython_EXECUTABLE="$PWD/.venv/bin/python" "${@:2}" >"/tmp/lowtide-cmake.$$" 2>&1 || {
    cat "/tmp/lowtide-cmake.$$" >&2
    exit 1
  }
  rm -f "/tmp/lowtide-cmake.$$"
fi
cmake --build "$folder"
