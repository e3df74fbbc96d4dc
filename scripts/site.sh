#!/usr/bin/env bash
# Builds the documentation as a site, in out/site; fails where a link or a name leads nowhere.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=scripts/requirements-site.txt
stamp=.venv-site/requirements.txt
if ! cmp -s "$requirements" "$stamp"; then
  echo "site: installing Python packages in .venv-site"
  [ -x .venv-site/bin/python ] || python3 -m venv .venv-site
  .venv-site/bin/python -m pip install --quiet --disable-pip-version-check \
    --require-hashes --no-deps -r "$requirements"
  cp "$requirements" "$stamp"
fi
NO_MKDOCS_2_WARNING=1 .venv-site/bin/mkdocs build --quiet --strict
echo "site: out/site/index.html"
