#!/usr/bin/env bash
# Makes or removes the lab: three containers on this machine that become a Slurm cluster.
# Usage: scripts/lab.sh up|down
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.venv/bin:$PATH
say() { printf '\n== %s\n' "$*"; }

# Containers belong to root. Everything else runs as the user who called: root has a home of its own, and looks for the key in the user's.
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo --set-home --preserve-env=GPUCLUSTER_LAB,GPUCLUSTER_LAB_NFS,GPUCLUSTER_DEBIAN_MIRROR
  "XDG_CACHE_HOME=${XDG_CACHE_HOME:-$HOME/.cache}" PYTHONDONTWRITEBYTECODE=1)

up() {
  say "Prepare this machine"
  scripts/setup.sh "${GPUCLUSTER_SETUP:-lab}"
  say "Start control, gpu1 and gpu2 (containers with systemd, Debian 13)"
  "${as_root[@]}" "$PWD/.venv/bin/ansible-playbook" playbooks/lab_up.yml
  say "Make the cluster: ansible-playbook site.yml (the first time it compiles Slurm, about six minutes on two cores)"
  ansible-playbook site.yml
  say "The cluster is ready. GPUs, InfiniBand and NFS are not part of the lab: these are containers on one machine."
  ansible control -m ansible.builtin.command -a sinfo
  cat <<'NEXT'

What next:
  log in           .venv/bin/ansible-console control      or: sudo podman exec -it gpucluster-lab0-control bash
  run a job        .venv/bin/ansible control -m command -a "srun -N2 --mpi=pmix hostname"
  run site again   .venv/bin/ansible-playbook site.yml    (nothing changes)
  your machines    edit inventories/onprem, then: .venv/bin/ansible-playbook -i inventories/onprem site.yml
  measure          make bench
  remove it        make down
NEXT
}

down() {
  if [ ! -x .venv/bin/ansible-playbook ]; then
    echo "There is no lab: .venv is missing." >&2
    return 0
  fi
  "${as_root[@]}" "$PWD/.venv/bin/ansible-playbook" playbooks/lab_down.yml
}

case ${1:-} in
  up | down) "$1" ;;
  *)
    echo "Usage: scripts/lab.sh up|down" >&2
    exit 2
    ;;
esac
