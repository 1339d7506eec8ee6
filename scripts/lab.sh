#!/usr/bin/env bash
# Makes or removes the lab: containers on this machine that become a Slurm cluster with simulated GPUs. Or logs in to one of them.
# GPUCLUSTER_LAB_GPUS=real divides the GPUs of this machine among the nodes instead. This holds until scripts/lab.sh down.
# Usage: scripts/lab.sh up|down|ssh [USER@]MACHINE [COMMAND]
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.venv/bin:$PATH
say() { printf '\n== %s\n' "$*"; }

# Containers belong to root. Everything else runs as the user who called: root has a home of its own, and looks for the key in the user's.
cache=${XDG_CACHE_HOME:-$HOME/.cache}
gpus=$cache/gpucluster/lab/gpus_${GPUCLUSTER_LAB:-0}
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo --set-home --preserve-env=GPUCLUSTER_LAB,GPUCLUSTER_LAB_NFS,GPUCLUSTER_DEBIAN_MIRROR
  "XDG_CACHE_HOME=$cache" PYTHONDONTWRITEBYTECODE=1)

up() {
  [ -z "${GPUCLUSTER_LAB_GPUS:-}" ] || divide_gpus
  say "Prepare this machine"
  scripts/setup.sh "${GPUCLUSTER_SETUP:-lab}"
  [ -z "${GPUCLUSTER_MIRROR:-}" ] || note_mirror
  say "Start control, login, gpu1 and gpu2 (containers with systemd, Debian 13)"
  "${as_root[@]}" "$PWD/.venv/bin/ansible-playbook" playbooks/lab_up.yml
  say "Make the cluster: ansible-playbook site.yml (the first time it compiles Slurm, three to five minutes on two cores)"
  ansible-playbook site.yml
  if [ -d "$gpus" ]; then
    say "The cluster is ready. Its GPUs are those of this machine, and no setting of them was changed. InfiniBand is not part of the lab."
  else
    say "The cluster is ready. Its GPUs are SIMULATED: nvidia-smi answers, nothing computes. InfiniBand is not part of the lab."
  fi
  ssh_to alice@login sinfo --Node --format='"%8N %8T %18G %f"'
  cat <<'NEXT'

What next:
  log in           scripts/lab.sh ssh alice@login     (bob, or root@MACHINE)
  see GPUs         scripts/lab.sh ssh alice@login srun --gpus=1 nvidia-smi -L
  break a node     .venv/bin/ansible-playbook playbooks/lab_fault.yml -e node=gpu1 -e fault=gpu_lost   (simulated GPUs only)
  ten minutes      docs/tour.md walks through jobs, a sick node and the validation
  run site again   .venv/bin/ansible-playbook site.yml    (nothing changes)
  your machines    .venv/bin/ansible-playbook playbooks/init.yml asks six questions and names the next steps
  measure          make bench
  remove it        make down
NEXT
}

# Notes which GPUs of this machine each node gets. Nothing was made before, so a machine without a GPU stays as it is.
divide_gpus() {
  [ "$GPUCLUSTER_LAB_GPUS" = real ] || { echo "GPUCLUSTER_LAB_GPUS is '$GPUCLUSTER_LAB_GPUS'; allowed: real, or nothing" >&2; return 1; }
  python3 scripts/real_gpus.py "$gpus" gpu1 gpu2
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
