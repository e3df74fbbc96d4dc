#!/usr/bin/env bash
# Installs a browser without a window, in which the tests open reports; where this system has no such
# package, they skip that.
set -euo pipefail

cd "$(dirname "$0")/.."

programs=$(python3 - <<'EOF'
import runpy
print(*runpy.run_path("python/lowtide/doctor/programs.py")["CHROMIUM"])
EOF
)
package=${programs%% *}  # Debian has one of that name
for program in $programs; do
  command -v "$program" >/dev/null && exit 0
done
sudo=()
# Not by a pipe to `grep -q`, which ends before apt-cache has written all, so that the pipe fails.
has_package() { [[ $(apt-cache policy "$package" 2>/dev/null) == *"Candidate: "[0-9]* ]]; }
if [ "$(id -u)" -ne 0 ]; then sudo=(sudo); fi
if ! has_package; then
  "${sudo[@]}" apt-get update -qq || true
fi
if ! has_package; then
  echo "setup: no package $package here: the tests of reports in a browser are skipped"
  exit 0
fi
echo "setup: installing Debian packages: $package"
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  "$package" >/dev/null ||
  echo "setup: $package could not be installed: the tests of reports in a browser are skipped"
