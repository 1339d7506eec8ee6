#!/usr/bin/env bash
# Installs what the lab and the tests need: Debian or Ubuntu packages, and a virtual environment in .venv.
# Usage: scripts/setup.sh [lab|dev]   (dev adds the tools that make test runs)
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(debian-archive-keyring gpg mmdebstrap openssh-client podman python3-venv rsync runc)
requirements=requirements.txt
[ "${1:-lab}" = lab ] || requirements=requirements-dev.txt

sudo=()
[ "$(id -u)" = 0 ] || sudo=(sudo)

missing=()
for package in "${packages[@]}"; do
  dpkg-query --show --showformat='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
if [ "${#missing[@]}" -gt 0 ]; then
  echo "== Install ${missing[*]} with apt"
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# Distributions build their Python with optimization, pyenv does not: Ansible runs a fifth longer with it.
candidates=(/usr/bin/python3 python3)
[ -z "${PYTHON:-}" ] || candidates=("$PYTHON")
python=
for candidate in "${candidates[@]}"; do
  if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$candidate && break; fi
done
[ -n "$python" ] || { echo "Python 3.11 or newer is needed; name another interpreter with PYTHON=python3.x" >&2; exit 1; }

stamp=.venv/.$(basename "$requirements").sha256
if ! sha256sum --check --status "$stamp" 2>/dev/null; then
  echo "== Install the Python packages of $requirements into .venv (about a minute)"
  [ -x .venv/bin/python ] || "$python" -m venv .venv
  .venv/bin/pip install --quiet --disable-pip-version-check --requirement "$requirements" 2>&1 | { grep -v '^WARNING: Location' || true; }
  sha256sum requirements.txt "$requirements" | sort -u > "$stamp"
fi

key=${XDG_CACHE_HOME:-$HOME/.cache}/gpucluster/lab/id_ed25519
if [ ! -f "$key" ]; then
  mkdir -p -m 0700 "$(dirname "$key")"
  ssh-keygen -q -t ed25519 -N '' -C 'gpucluster lab' -f "$key"
fi
