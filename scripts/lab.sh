#!/usr/bin/env bash
# Makes or removes the lab: containers on this machine that become a Slurm cluster with simulated GPUs. Or logs in to one of them.
# Usage: scripts/lab.sh up|down|ssh [USER@]MACHINE [COMMAND]
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.venv/bin:$PATH
say() { printf '\n== %s\n' "$*"; }

# Containers belong to root. Everything else runs as the user who called: root has a home of its own, and looks for the key in the user's.
cache=${XDG_CACHE_HOME:-$HOME/.cache}
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo --set-home --preserve-env=GPUCLUSTER_LAB,GPUCLUSTER_LAB_NFS,GPUCLUSTER_DEBIAN_MIRROR
  "XDG_CACHE_HOME=$cache" PYTHONDONTWRITEBYTECODE=1)

up() {
  say "Prepare this machine"
  scripts/setup.sh "${GPUCLUSTER_SETUP:-lab}"
  [ -z "${GPUCLUSTER_MIRROR:-}" ] || note_mirror
  say "Start control, login, gpu1 and gpu2 (containers with systemd, Debian 13)"
  "${as_root[@]}" "$PWD/.venv/bin/ansible-playbook" playbooks/lab_up.yml
  say "Make the cluster: ansible-playbook site.yml (the first time it compiles Slurm, about five minutes on two cores)"
  ansible-playbook site.yml
  say "The cluster is ready. Its GPUs are SIMULATED: nvidia-smi answers, nothing computes. InfiniBand is not part of the lab."
  ssh_to alice@login sinfo --Node --format='"%8N %8T %18G %f"'
  cat <<'NEXT'

What next:
  log in           scripts/lab.sh ssh alice@login     (bob, or root@MACHINE)
  see two GPUs     scripts/lab.sh ssh alice@login srun --gpus=2 nvidia-smi -L
  break a node     .venv/bin/ansible-playbook playbooks/lab_fault.yml -e node=gpu1 -e fault=gpu_lost
  ten minutes      docs/tour.md walks through jobs, a sick node and the validation
  run site again   .venv/bin/ansible-playbook site.yml    (nothing changes)
  your machines    .venv/bin/ansible-playbook playbooks/init.yml asks six questions and names the next steps
  measure          make bench
  remove it        make down
NEXT
}

# Notes the releases of a mirror for the lab. The note holds until make down.
note_mirror() {
  local source
  if [ -d "$GPUCLUSTER_MIRROR" ]; then
    source="mirror_directory=$(realpath -- "$GPUCLUSTER_MIRROR")"
  elif [[ $GPUCLUSTER_MIRROR =~ ^https?:// ]]; then
    source="mirror_url=${GPUCLUSTER_MIRROR%/}"
  else
    echo "GPUCLUSTER_MIRROR is '$GPUCLUSTER_MIRROR'; it must be a directory or an http or https URL. scripts/mirror.sh list shows its files." >&2
    return 1
  fi
  say "Check the mirror"
  mkdir -p "$cache/gpucluster/lab"
  ansible-playbook --inventory localhost, playbooks/mirror.yml --extra-vars "$source" \
    --extra-vars "mirror_inputs=$cache/gpucluster/lab/mirror_${GPUCLUSTER_LAB:-0}.yml"
}

down() {
  if [ ! -x .venv/bin/ansible-playbook ]; then
    echo "There is no lab: .venv is missing." >&2
    return 0
  fi
  "${as_root[@]}" "$PWD/.venv/bin/ansible-playbook" playbooks/lab_down.yml
}

ssh_to() {
  ssh -F "$cache/gpucluster/lab/ssh_config_${GPUCLUSTER_LAB:-0}" "$@"
}

case ${1:-} in
  up | down) "$1" ;;
  ssh) shift; ssh_to "$@" ;;
  *)
    echo "Usage: scripts/lab.sh up|down|ssh [USER@]MACHINE [COMMAND]" >&2
    exit 2
    ;;
esac
