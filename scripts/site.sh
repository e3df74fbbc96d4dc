#!/usr/bin/env bash
# Builds the documentation as a site, in out/site; fails where a link or a name leads nowhere.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/environment.sh site .venv-site
NO_MKDOCS_2_WARNING=1 .venv-site/bin/mkdocs build --quiet --strict
echo "site: out/site/index.html"
