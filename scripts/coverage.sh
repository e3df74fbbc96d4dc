#!/usr/bin/env bash
# Tells which share of the lines of the core the C++ tests run, for each folder of src/; fails below
# 90%. With arguments: only the tests and the folders of these parts, such as `packing report`.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

build=build-coverage
tools=$build/tools
scripts/environment.sh coverage "$tools"

log=$build/configure.log
cmake --preset coverage >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
targets=() labels=() filters=()
for part in "$@"; do
  targets+=("test_$part")
  filters+=(--filter "src/$part/")
  labels+=("^$part\$")
done
cmake --build "$build" --target "${targets[@]:-all}"
find "$build" -name '*.gcda' -delete  # of runs before this one
ctest --test-dir "$build" --output-on-failure -j "$(nproc)" \
  -L "$(IFS='|'; echo "${labels[*]:-.*}")"

# The command is tested from Python. Loops of searches do run billions of times, which gcovr doubts.
summary=$build/lines.json
status=0
"$tools/bin/gcovr" --root . "$build" "${filters[@]:---filter=src/}" --exclude 'src/cli/' \
  -j "$(nproc)" --gcov-suspicious-hits-threshold 0 --json-summary "$summary" \
  --txt "$build/lines.txt" --fail-under-line 90 || status=$?
python3 scripts/coverage_folders.py "$summary"
echo "coverage: lines of each file: $build/lines.txt"
exit "$status"
