#!/usr/bin/env bash
# Makes two machines of the lab with the distribution's Slurm, measures the controller with emulated nodes, and removes the machines again.
# Usage: tests/benchmark/emulated_slurmd.sh [NODES [NODES OF THE JOB [OPTIONS OF emulated_slurmd.py]]]
# (500, or as many as the free memory allows; all of them). taskset -c 0,1 in front of it chooses the two processors. What the monitoring costs, and nothing else:
#   tests/benchmark/emulated_slurmd.sh 500 500 --minutes=5 --skip jobs restart takeover
# GPUCLUSTER_BENCHMARK_SLURM_CONFIG='{"TCPTimeout": 2}' compares other settings of slurm.conf.
set -euo pipefail
cd "$(dirname "$0")/../.."
export GPUCLUSTER_LAB=${GPUCLUSTER_BENCHMARK_LAB:-99}
[ ! -d .venv ] || export PATH=$PWD/.venv/bin:$PATH
machine='{"__lab_machines": ["control", "gpu1"], "lab_remove_image": false}'
remove() { ansible-playbook playbooks/lab_down.yml --extra-vars "$machine" > /dev/null; }
trap remove EXIT
ansible-playbook playbooks/lab_up.yml --extra-vars "$machine" > /dev/null
ansible-playbook -i inventories/lab/hosts.yml -i tests/benchmark/emulated_slurmd.ini tests/benchmark/emulated_slurmd.yml \
  --extra-vars '{"gpucluster_removed_nodes": ["gpu1", "gpu2"]}' --extra-vars "emulated_nodes=${1:-500} emulated_job_nodes=${2:-0}" \
  --extra-vars "emulated_options='${*:3}'" --extra-vars "{\"emulated_slurm_config\": ${GPUCLUSTER_BENCHMARK_SLURM_CONFIG:-null}}"
