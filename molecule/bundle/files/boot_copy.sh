#!/usr/bin/env bash
# Boots a copy of a node as the machine gpu2 of the lab, and prints the time of its start in seconds since 1970.
# Usage: boot_copy.sh LAB NUMBER ROOT PUBLIC_KEY. The archive is in the directory that all machines share.
set -euo pipefail
lab=$1 network=10.213.$2 root=$3 key=$4
shared=$(podman volume inspect --format '{{.Mountpoint}}' "$lab-shared")
rm -rf "$root"
mkdir -p "$root"
tar --extract --file "$shared/node/node.tar" --directory "$root" --numeric-owner --same-permissions --acls --xattrs
rm -r "$shared/node"

begin=$EPOCHSECONDS
podman run --detach --replace --name "$lab-gpu2" --hostname gpu2 --systemd=always --privileged --network "$lab" --ip "$network.22" \
  --add-host "control:$network.10" --add-host "gpu1:$network.21" --add-host "gpu2:$network.22" \
  --volume "$lab-shared:/shared" --volume "$key:/etc/gpucluster-lab.pub:ro" --rootfs "$root" /sbin/init
for _attempt in $(seq $((600 * ${GPUCLUSTER_TEST_PATIENCE:-1}))); do
  if (exec 3<> "/dev/tcp/$network.22/22") 2> /dev/null; then
    echo "$begin"
    exit 0
  fi
  sleep 1
done
echo "sshd of the copy does not answer on $network.22; the container is $(podman inspect --format '{{.State.Status}}' "$lab-gpu2")" >&2
exit 1
