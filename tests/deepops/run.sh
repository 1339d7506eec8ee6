#!/usr/bin/env bash
# Takes over a cluster of DeepOps in the lab, to the end of site.yml and a job. Needs root and the packages that `make lab` built.
# Usage: GPUCLUSTER_LAB=N tests/deepops/run.sh   (another lab than yours: it makes new machines, and removes them at the end)
#
# prepare.yml makes machines as DeepOps leaves them, with a running Slurm in /usr/local. A job ends before, and one waits in the queue. Then from_deepops.yml
# and site.yml run, twice, with the inventory of DeepOps.
set -euo pipefail
cd "$(dirname "$0")/../.."
lab=${GPUCLUSTER_LAB:?is not set: name a lab that may be removed}
export GPUCLUSTER_LAB=$lab
patience=$((600 * ${GPUCLUSTER_TEST_PATIENCE:-1}))
work=$(mktemp -d)

fail() {
  echo "deepops: $*" >&2
  exit 1
}
on() { podman exec "gpucluster-lab$lab-$1" "${@:2}"; }
play() { timeout --kill-after=60 $((20 * patience)) .venv/bin/ansible-playbook -i "$work/inventory" "$@"; }
# Fails unless a command on a machine prints a text: expect MACHINE TEXT COMMAND...
expect() {
  local found
  found=$(on "$1" "${@:3}" 2>&1) || true
  [[ $found == *"$2"* ]] || fail "$1: '${*:3}' printed '$found', not '$2'"
}

remove() {
  .venv/bin/ansible-playbook playbooks/lab_down.yml > "$work/down.log" || echo "deepops: the lab was not removed; see $work/down.log" >&2
}
.venv/bin/ansible-playbook playbooks/lab_up.yml > "$work/up.log"
trap remove EXIT
mkdir "$work/inventory"
cp -R inventories/lab/group_vars "$work/inventory/"
rm -r "$work/inventory/group_vars/all"
cp tests/deepops/hosts.yml "$work/inventory/"

echo "== Make the cluster of DeepOps"
play tests/deepops/prepare.yml > "$work/prepare.log" || fail "see $work/prepare.log"
for ((second = 0; second < patience; second++)); do
  [[ $(on control sinfo --noheader --format=%T) == idle ]] && break
  sleep 1
done
expect control gpu1 sh -c 'cd /shared && timeout '"$patience"' runuser -u alice -- srun --gpus=2 --nodelist=gpu1 hostname'
on control scontrol update partition=batch state=down
on control sh -c "cd /shared && runuser -u alice -- sbatch --output=/shared/second.out --gpus=2 --wrap 'readlink -f \$(command -v srun); nvidia-smi -L; srun echo done'"

echo "== site.yml alone is refused"
! play site.yml > "$work/refused.log" || fail "site.yml was not refused"
grep -q "has the Slurm of DeepOps" "$work/refused.log" || fail "see $work/refused.log"
! grep -E 'changed=[1-9]' "$work/refused.log" || fail "site.yml changed something; see $work/refused.log"
expect control PartitionDown squeue --noheader

echo "== Take the cluster over"
SECONDS=0
play playbooks/from_deepops.yml > "$work/retire.log" || fail "see $work/retire.log"
play site.yml > "$work/site.log" || fail "see $work/site.log"
echo "== both playbooks: $SECONDS s"

echo "== Look at the cluster"
# The job from DeepOps' queue runs on the Slurm of packages, and the accounting goes on.
for ((second = 0; second < patience; second++)); do
  grep -qx done <(on control cat /shared/second.out 2> /dev/null) && break
  sleep 1
done
expect control /usr/bin/srun cat /shared/second.out
expect control "GPU 1:" cat /shared/second.out
expect control done cat /shared/second.out
expect control "1|alice|compute-account|COMPLETED" sacct --user=alice --allocations --noheader --parsable2 --format=jobid,user,account,state
expect control "ClusterName             = deepops" scontrol show config
expect control "StateSaveLocation       = /var/spool/slurm/ctld" scontrol show config
expect control 1-00:00:00 sinfo --noheader --format=%l
expect control unix_socket mariadb --execute "SELECT plugin FROM mysql.user WHERE user = 'slurm'"
expect control gpu2 sh -c 'cd /shared && timeout '"$patience"' runuser -u alice -- srun --nodes=2 --gpus-per-node=1 hostname'
expect control "no active jobs on this node" runuser -u alice -- ssh -o BatchMode=yes -o StrictHostKeyChecking=no gpu1 hostname
expect login idle sinfo --noheader --format=%T
for machine in control login gpu1 gpu2; do
  expect "$machine" uid=22078 id slurm
  expect "$machine" "of a user" cat /raid/data
  expect "$machine" "of the site" cat /sw/module
  expect "$machine" "0 left" sh -c 'echo $(ls -d /usr/local/sbin/slurm* /usr/local/lib/*slurm* /etc/systemd/system/slurm*.service /etc/localusers 2> /dev/null | wc -l) left'
  [ "$(on "$machine" sha256sum /etc/munge/munge.key)" = "$(on control sha256sum /etc/munge/munge.key)" ] || fail "$machine has another munge key"
done
expect gpu1 /usr/sbin/slurmd sh -c 'readlink /proc/$(pgrep -o slurmd)/exe'

echo "== Run both playbooks again"
play playbooks/from_deepops.yml > "$work/again.log" || fail "see $work/again.log"
play site.yml >> "$work/again.log" || fail "see $work/again.log"
! grep -E 'changed=[1-9]' "$work/again.log" || fail "the second run changed something; see $work/again.log"
echo "== The cluster was taken over; the logs are in $work"
