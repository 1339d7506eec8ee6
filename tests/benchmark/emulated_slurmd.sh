#!/usr/bin/env bash
# Makes one machine of the lab with the distribution's Slurm, measures its controller with emulated nodes, and removes the machine again.
# Usage: tests/benchmark/emulated_slurmd.sh [NODES]   (500; as many of them as the free memory allows)
set -euo pipefail
cd "$(dirname "$0")/../.."
export GPUCLUSTER_LAB=${GPUCLUSTER_BENCHMARK_LAB:-99}
[ ! -d .venv ] || export PATH=$PWD/.venv/bin:$PATH
machine='{"__lab_machines": ["control"], "lab_remove_image": false}'
remove() { ansible-playbook playbooks/lab_down.yml --extra-vars "$machine" > /dev/null; }
trap remove EXIT
ansible-playbook playbooks/lab_up.yml --extra-vars "$machine" > /dev/null
ansible-playbook -i inventories/lab/hosts.yml -i tests/benchmark/emulated_slurmd.ini tests/benchmark/emulated_slurmd.yml \
  --extra-vars '{"gpucluster_removed_nodes": ["gpu1", "gpu2"]}' --extra-vars "emulated_nodes=${1:-500}"
