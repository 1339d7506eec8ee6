#!/usr/bin/env bash
# Leaves a machine only its own GPUs, and hides the others from the driver's libraries. Changes no setting of a GPU.
# Usage: lab_gpus.sh ROOT [NUMBER...]   ROOT has a /dev and a /proc of its own; it is / inside of the machine. NUMBER is that of /dev/nvidiaNUMBER
set -euo pipefail
root=${1%/}
shift

for device in "$root"/dev/nvidia[0-9]*; do
  [[ " $* " == *" ${device##*nvidia} "* ]] || rm -f "$device"
done
[ $# -gt 0 ] || rm -rf "$root"/dev/nvidia*
[ -r /proc/driver/nvidia/params ] || exit 0

seen=$(mktemp -d -p "$root/run" nvidia.XXXXXX)
chmod 755 "$seen"
cp /proc/driver/nvidia/version "$seen/"
# Otherwise the libraries make the removed device files again.
sed 's/^ModifyDeviceFiles: 1/ModifyDeviceFiles: 0/' /proc/driver/nvidia/params > "$seen/params"
for gpu in /proc/driver/nvidia/gpus/*; do
  number=$(sed -n 's/^Device Minor:[[:space:]]*//p' "$gpu/information")
  [[ " $* " != *" $number "* ]] || install -D -m 444 "$gpu/information" "$seen/gpus/${gpu##*/}/information"
done
mount --bind "$seen" "$root/proc/driver/nvidia"
