#!/usr/bin/env bash
# Makes the image of the lab's machines from Debian packages; needs no container registry.
# Usage: lab_image.sh IMAGE SUITE PACKAGE,PACKAGE... [MIRROR]
set -euo pipefail
image=$1 suite=$2 packages=$3 mirror=${4:-}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The key of the lab is mounted at start, and belongs to whoever made the lab; host keys and the machine's identity are made at first boot.
cat > "$work/lab.conf" <<'SSHD'
AuthorizedKeysFile .ssh/authorized_keys /etc/gpucluster-lab.pub
StrictModes no
SSHD
cat > "$work/host-keys.conf" <<'UNIT'
[Service]
ExecStartPre=
ExecStartPre=/usr/bin/ssh-keygen -A
ExecStartPre=/usr/sbin/sshd -t
UNIT

# On other machines udev lets every user mount with FUSE. Modules are loaded by the host's kernel, so the unit that loads them here can only fail.
echo 'z /dev/fuse 0666 root root -' > "$work/devices.conf"

# shellcheck disable=SC2016  # $1 is the root that mmdebstrap hands to its hooks
mmdebstrap --quiet --variant=minbase --skip=cleanup/apt/lists --include="$packages" \
  --customize-hook="upload $work/lab.conf /etc/ssh/sshd_config.d/lab.conf" \
  --customize-hook='mkdir -p "$1/etc/systemd/system/ssh.service.d"' \
  --customize-hook="upload $work/host-keys.conf /etc/systemd/system/ssh.service.d/host-keys.conf" \
  --customize-hook="upload $work/devices.conf /etc/tmpfiles.d/lab-devices.conf" \
  --customize-hook='mkdir -p -m 0700 "$1/root/.ansible/tmp"' \
  --customize-hook='ln -s /dev/null "$1/etc/systemd/system/systemd-modules-load.service"' \
  --customize-hook='rm -f "$1"/etc/ssh/ssh_host_* "$1/etc/hostname"; : > "$1/etc/machine-id"' \
  "$suite" "$work/root.tar" ${mirror:+"$mirror"}
podman import --quiet "$work/root.tar" "$image"
