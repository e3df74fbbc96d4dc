#!/usr/bin/env bash
# Installs everything that building and testing need: Debian packages, and Python packages in .venv.
# Does nothing when all of it is there.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ nlohmann-json3-dev libcli11-dev libfmt-dev libgtest-dev libgmock-dev
          libbenchmark-dev libxxhash-dev libboost-dev ccache)
python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
python3 - <<'EOF' || packages+=(python3-dev)
import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))
EOF

missing=()
for package in "${packages[@]}"; do
  [[ $(dpkg-query -W -f='${Status}' "$package" 2>/dev/null) == *"ok installed" ]] ||
    missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "setup: installing Debian packages: ${missing[*]}"
  sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
      echo "setup: run as root, or install sudo: these packages are missing: ${missing[*]}" >&2
      exit 1
    }
    sudo=(sudo)
  fi
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null
fi

# All packages have hashes but torch, which comes with those that its build still needs.
requirements=(scripts/requirements.txt scripts/requirements-torch.txt
              scripts/requirements-integrations.txt scripts/requirements-cuda.txt)
stamp=.venv/requirements.txt
if ! cat "${requirements[@]}" | cmp -s - "$stamp"; then
  echo "setup: installing Python packages in .venv"
  [ -x .venv/bin/python ] || python3 -m venv .venv
  pip=(.venv/bin/python -m pip install --quiet --disable-pip-version-check)
  locked=("${pip[@]}" --require-hashes --no-deps)
  "${locked[@]}" -r "${requirements[0]}"
  "${pip[@]}" -r "${requirements[1]}"
  "${locked[@]}" -r "${requirements[2]}"
  "${locked[@]}" --upgrade --target .venv/cuda -r "${requirements[3]}"
  cat "${requirements[@]}" >"$stamp"
fi

# .venv's Python finds the package, wherever the checkout lies now, and torch finds its backend;
# .venv's bin has the command.
site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
echo "$PWD/python" >"$site/lowtide.pth"
.venv/bin/python scripts/entry_points.py "$site"
ln -sf ../../build/lowtide .venv/bin/lowtide
