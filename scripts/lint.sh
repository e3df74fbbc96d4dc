#!/usr/bin/env bash
# Checks the sources without running them: ruff and mypy by pyproject.toml, clang-format by
# .clang-format, clang-tidy by .clang-tidy. With arguments: clang-tidy alone, on the batches that
# compile these files of src/.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

tools=build-tidy/tools
scripts/environment.sh lint "$tools"

if [ $# -eq 0 ]; then
  python -m pytest -q tests/python/test_lint.py  # ruff and mypy
  # Not tests/: it would lay out their tables of cases, with two functions each, worse.
  git ls-files 'src/*.cc' 'src/*.h' | xargs "$tools/bin/clang-format" --dry-run -Werror || {
    echo "lint: run $tools/bin/clang-format -i on these files" >&2
    exit 1
  }
fi

log=build-tidy/configure.log
cmake --preset tidy >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
# A batch of files takes hardly longer than one of them: its time goes into headers.
batches=(build-tidy/CMakeFiles/*/Unity/*.cxx)
if [ $# -gt 0 ]; then
  mapfile -t batches < <(printf '/%s"\n' "$@" | grep -lFf - "${batches[@]}")
  if [ ${#batches[@]} -eq 0 ]; then
    echo "lint: no batch compiles $*; name files as src/base/file.cc" >&2
    exit 1
  fi
fi
printf '%s\0' "${batches[@]}" |
  xargs -0 -n 1 -P "$(nproc)" "$tools/bin/clang-tidy" -p build-tidy --quiet
