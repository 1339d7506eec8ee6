#!/bin/sh
# One attempt to join the cluster. gpucluster-join.service starts it again until it succeeds.
# JOIN_SERVER exports JOIN_DIRECTORY to the subnet of the nodes; only root of a node can read it.
set -eu

join() {
  directory=$1
  for file in join.json munge.key slurm.tar gpucluster-join; do
    [ -s "$directory/$file" ] || { echo "$JOIN_SERVER:$JOIN_DIRECTORY has no $file yet" >&2; return 1; }
  done
  python3 -IS "$directory/gpucluster-join" "$directory"
  mkdir -p /var/lib/gpucluster
  : > /var/lib/gpucluster/joined
}

if [ -n "${JOIN_LOCAL:-}" ]; then
  join "$JOIN_LOCAL"
  exit
fi

export DEBIAN_FRONTEND=noninteractive
if ! command -v mount.nfs4 >/dev/null; then
  apt-get -q -y -o DPkg::Lock::Timeout=300 update
  apt-get -q -y -o DPkg::Lock::Timeout=300 --no-install-recommends install nfs-common
fi
mount=/run/gpucluster-join
mkdir -p -m 0700 "$mount"
mountpoint -q "$mount" || timeout 60 mount -t nfs -o ro,vers=4.2,soft,timeo=100,retrans=2,nosuid,nodev \
  "$JOIN_SERVER:$JOIN_DIRECTORY" "$mount"
trap 'umount "$mount" && rmdir "$mount"' EXIT
join "$mount"
