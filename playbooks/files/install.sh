#!/usr/bin/env bash
# Installs Ansible and this collection of an unpacked bundle on a control node without internet.
# Usage: install.sh DIRECTORY   makes a virtual environment in DIRECTORY; PYTHON=python3.x selects the interpreter
set -euo pipefail
[ $# = 1 ] || { echo "Usage: install.sh DIRECTORY" >&2; exit 2; }
bundle=$(cd "$(dirname "$0")" && pwd)
# Without -I, Python would take a module venv.py of the current directory.
"${PYTHON:-python3}" -I -m venv "$1"
"$1/bin/pip" install --quiet --disable-pip-version-check --no-index --find-links "$bundle/wheels" --requirement "$bundle/requirements.txt"
for collection in "$bundle"/collections/*.tar.gz; do
  [ ! -f "$collection" ] || "$1/bin/ansible-galaxy" collection install --offline --force --no-deps "$collection"
done
echo "Next: $1/bin/ansible-playbook -i INVENTORY hpcai.gpucluster.site -e gpucluster_bundle=FILE"
