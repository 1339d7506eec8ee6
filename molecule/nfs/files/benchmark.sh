#!/usr/bin/env bash
# Measures reads and writes of one file over NFS with fio, in MB/s, on a plain mount and on the mount of the role.
# An emulated machine transfers tens of MB/s, so a delay simulates a fast network. 20 ms at 30 MB/s are 0.6 MB in
# flight, and 0.2 ms at 100 Gbit/s (Ethernet) are 2.5 MB. Usage: patience=SECONDS benchmark.sh MOUNTPOINT SOURCE
set -euo pipefail
path=$1 source=$2
delay=20ms size=${BENCHMARK_MB:-16}m
mounts=(/home /shared)

automounts() { for mount in "${mounts[@]}"; do systemctl "$1" "$(systemd-escape --path --suffix=automount "$mount")"; done; }
soon() { timeout -k 5 "$patience" "$@"; }
restore() {
  tc qdisc del dev eth1 root
  soon umount /mnt/plain 2>/dev/null || true
  automounts start
}

measure() { # DIRECTORY read|write
  echo 3 > /proc/sys/vm/drop_caches
  soon setpriv --reuid=1000 --regid=100 --clear-groups \
    fio --name=stream --filename="$1/benchmark" --rw="$2" --bs=1M --size="$size" --ioengine=psync --end_fsync=1 --output-format=json |
    python3 -c 'import json, sys; job = json.load(sys.stdin)["jobs"][0]; print(job[sys.argv[1]]["bw_bytes"] / 1e6)' "$2"
}

# Mounts of one server share connections and options, so only one kind may be mounted at a time.
soon umount -a -t nfs4
automounts stop
tc qdisc add dev eth1 root netem delay "$delay" limit 100000
trap restore EXIT
mkdir -p /mnt/plain
soon mount -t nfs "$source" /mnt/plain
plain_write=$(measure /mnt/plain write)
plain_read=$(measure /mnt/plain read)
soon umount /mnt/plain
automounts start
soon stat "$path/." > /dev/null
role_write=$(measure "$path" write)
role_read=$(measure "$path" read)
soon setpriv --reuid=1000 --regid=100 --clear-groups rm -f "$path/benchmark"
printf '{"delay": "%s", "plain": {"read": %.1f, "write": %.1f}, "role": {"read": %.1f, "write": %.1f}}\n' \
  "$delay" "$plain_read" "$plain_write" "$role_read" "$role_write"
