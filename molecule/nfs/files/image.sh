#!/usr/bin/env bash
# Makes the image of the scenario's virtual machines from Debian packages, once, and prints the directory that holds
# its disk, kernel and initrd. Uses sudo where it is not root.
set -euo pipefail

here=$(dirname "$(realpath "$0")")
kept=$here/../../shared/files/usercustomize.py
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpucluster
key=$cache/lab/id_ed25519
mirror=${GPUCLUSTER_DEBIAN_MIRROR:-}
suite=bookworm # its kernel 6.1 boots under emulation with every CPU feature; that of Debian 13 does not
# What the roles install is in the machines from the start, as in many a cloud image: an emulated machine takes minutes for it. The server is off.
base=linux-image-cloud-amd64,systemd-sysv,udev,kmod,iproute2,openssh-server,python3-minimal,python3-apt,fio
base+=,ca-certificates,chrony,e2fsprogs,mdadm,nfs-common,nfs-kernel-server,procps,xfsprogs

# Nothing here needs these.
masked=(e2scrub_{reap.service,all.timer} apt-daily{,-upgrade}.timer fstrim.timer dpkg-db-backup.timer mdcheck_{start,continue}.timer
  mdmonitor-oneshot.timer mdmonitor.service systemd-tmpfiles-clean.timer getty@tty1.service serial-getty@ttyS0.service dbus.{service,socket}
  systemd-{binfmt,logind,networkd,pstore,timesyncd,update-utmp,update-utmp-runlevel,user-sessions,journal-flush,sysusers}.service
  modprobe@{configfs,dm_mod,drm,efi_pstore,fuse,loop}.service kmod-static-nodes.service
  dev-{hugepages,mqueue}.mount sys-kernel-{debug,tracing,config}.mount sys-fs-fuse-connections.mount)

run() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

make_key() {
  [ -f "$key" ] && return
  mkdir -p -m 0700 "$(dirname "$key")"
  ssh-keygen -q -t ed25519 -N '' -C 'gpucluster lab' -f "$key"
}

make_image() {
  make_key
  local image part
  # Named after everything that it is made of.
  image=$cache/vm/$({ cat "$0" "$kept" "$key.pub"; echo "$mirror"; } | sha256sum | cut -c1-16)
  echo "$image"
  [ ! -f "$image/disk" ] || return 0
  mkdir -p "$cache/vm"
  part=$(mktemp -d "$cache/vm/part.XXXXXX")
  # shellcheck disable=SC2064  # the directory is known now
  trap "run rm -rf '$part'" EXIT
  cp "$key.pub" "$part/key"
  cp "$kept" "$part/"
  declare -f customize > "$part/functions"
  declare -p masked >> "$part/functions"
  # shellcheck disable=SC2016  # $1 is the root that mmdebstrap hands to its hooks
  run mmdebstrap --quiet --variant=apt --include="$base" \
    --aptopt='APT::Install-Recommends "false"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --customize-hook="bash -euc '. $part/functions; customize \"\$1\" $part' hook \"\$1\"" \
    "$suite" "$part/root.tar" ${mirror:+"$mirror"} >&2
  run bash -euc 'exec >&2; cd "$1"; mkdir root; tar -C root -xf root.tar; cp root/boot/vmlinuz-* kernel; cp root/boot/initrd.img-* initrd
    mke2fs -q -t ext4 -d root disk 2G; rm -rf root root.tar; chown "$2" kernel initrd disk' hook "$part" "$(id -u)"
  rm -rf "$image"
  mv "$part" "$image"
}

# In the root $1 of the machine, with the files in $2: its networks, its key, and nothing that slows its boot.
customize() {
  cd "$1"
  cat > usr/local/sbin/lab-network << 'SCRIPT'
#!/bin/sh
# Cheaper than a daemon: on a busy host an emulated one misses its own start timeout.
modprobe virtio_net
until [ -e /sys/class/net/eth0 ] && [ -e /sys/class/net/eth1 ]; do sleep 0.1; done # work: ends with the boot
ip address add 10.0.2.15/24 dev eth0
ip address add "10.77.0.$(hostname | tr -dc 0-9)/24" dev eth1
ip link set eth0 up
ip link set eth1 up
SCRIPT
  chmod 0755 usr/local/sbin/lab-network
  cat > etc/systemd/system/lab-network.service << 'UNIT'
[Unit]
DefaultDependencies=no
After=systemd-udev-trigger.service
Before=network.target network-online.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/lab-network
[Install]
WantedBy=network-online.target multi-user.target
UNIT
  printf '127.0.0.1 localhost\n' > etc/hosts
  printf '/dev/vda / ext4 noatime 0 0\n' > etc/fstab
  head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n' > etc/machine-id
  rm -f etc/hostname
  # A server that comes back waits for its clients as long as a lease lasts, 90 s by default.
  mkdir -p etc/nfs.conf.d
  printf '[nfsd]\nlease-time=10\ngrace-time=10\n' > etc/nfs.conf.d/lab.conf
  mkdir -p -m 0700 root/.ssh
  cp "$2/key" root/.ssh/authorized_keys
  cp "$2/usercustomize.py" usr/lib/python3/dist-packages/ # an emulated processor needs seconds to compile a module of Ansible
  chroot . systemctl --quiet enable lab-network.service
  chroot . systemctl --quiet set-default multi-user.target
  chroot . systemctl --quiet mask "${masked[@]}"
  # udev looks at disks, networks and what brings their drivers, not at 64 consoles; nobody reads how units start.
  mkdir -p etc/systemd/system/systemd-udev-trigger.service.d etc/systemd/system.conf.d etc/systemd/journald.conf.d
  printf '[Service]\nExecStart=\nExecStart=udevadm trigger --subsystem-match=%s\n' \
    'block --subsystem-match=net --subsystem-match=pci --subsystem-match=virtio --subsystem-match=nvme --subsystem-match=bdi' \
    > etc/systemd/system/systemd-udev-trigger.service.d/lab.conf
  printf '[Manager]\nLogLevel=notice\n' > etc/systemd/system.conf.d/lab.conf
  printf '[Journal]\nStorage=volatile\nMaxLevelStore=notice\n' > etc/systemd/journald.conf.d/lab.conf
  (cd usr/lib/udev/rules.d && rm -f 60-{autosuspend,cdrom_id,drm,evdev,fido-id,input-id,sensor,serial}.rules 60-persistent-{alsa,input,storage-tape,v4l}.rules 7*.rules)
  sed -i '/pam_systemd/d' etc/pam.d/common-session
  # The initrd loads what the disk needs, and no more: it is unpacked by the emulated processor, and needs no udev.
  rm -f usr/share/initramfs-tools/hooks/{mdadm,udev} usr/share/initramfs-tools/scripts/*/{mdadm,udev}
  printf 'MODULES=list\n' > etc/initramfs-tools/conf.d/lab
  printf 'virtio_pci\nvirtio_blk\next4\ncrc32c_generic\n' > etc/initramfs-tools/modules
  chroot . update-initramfs -u
  echo 'update_initramfs=no' > etc/initramfs-tools/update-initramfs.conf # the machines boot from kernel and initrd beside the disk
  chroot . systemctl --quiet disable chrony.service nfs-server.service
  rm -f etc/apt/sources.list.d/*
  : > etc/apt/sources.list
}

make_image
