#!/usr/bin/env bash
# Makes a virtual environment with another release of ansible-core, and with what the tests need.
# Usage: .ci/core.sh PYTHON PACKAGE DIRECTORY   (PACKAGE such as 'ansible==14.*')
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 package=$2 directory=$3

# Two parts of the tests may want it at the same time.
mkdir -p "$(dirname "$directory")"
exec 9> "$directory.lock"
flock 9
# Without the linters, which need a release of their own.
wanted=$(sed -E '/^(-r |ansible==|ansible-lint|galaxy-importer)/d' requirements.txt requirements-dev.txt; echo "$package")
[ "$(cat "$directory/wanted" 2>/dev/null)" != "$wanted" ] || exit 0
rm -rf "$directory"
"$python" -m venv "$directory"
"$directory/bin/pip" install --quiet --disable-pip-version-check --requirement <(echo "$wanted")
echo "$wanted" > "$directory/wanted"
