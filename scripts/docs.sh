#!/usr/bin/env bash
# Builds the site of the documentation in .cache/site/html, and checks its internal links. It needs no network.
# Usage: scripts/docs.sh [DIRECTORY]   (another directory for the site)
set -euo pipefail
cd "$(dirname "$0")/.."
site=$(realpath --canonicalize-missing -- "${1:-.cache/site/html}")
if [ -n "$(ls -A "$site" 2> /dev/null)" ] && [ ! -f "$site/objects.inv" ]; then
  echo "$site has other files than those of a site. Nothing was changed." >&2
  exit 1
fi

[ -x .venv/bin/sphinx-build ] && .venv/bin/python -c 'import furo, myst_parser' 2> /dev/null || scripts/setup.sh dev
export PATH=$PWD/.venv/bin:$PATH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
stage=$work/collections/ansible_collections/hpcai/gpucluster
mkdir -p "$stage" "$work/pages"
# antsibull-docs finds a collection under its full name only.
cp -R galaxy.yml meta playbooks plugins roles "$stage"

echo "== Write the reference of modules, plugins and roles"
ANSIBLE_COLLECTIONS_PATH=$work/collections antsibull-docs collection --use-current --fail-on-error \
  --no-add-antsibull-docs-version --dest-dir "$work/pages" hpcai.gpucluster

echo "== Render the pages"
python3 .ci/docs_pages.py "$work/pages"
rm -rf "$site"
# A warning is an error: a link to a page or a heading that does not exist, or a page that no list names.
sphinx-build --quiet --fail-on-warning --keep-going --jobs 2 --conf-dir .ci/sphinx --doctree-dir "$work/doctrees" "$work/pages" "$site"

echo "== Check the links"
python3 .ci/site_links.py "$site"
echo "The site is $site/index.html"
