#!/usr/bin/env bash
# Manages two virtual machines for the scenario (Debian 12 in QEMU, with KVM if a guest boots with it, else emulated).
# Needs no root. ssh uses the user network of QEMU. The machines reach each other by multicast on the loopback device.
# Usage: vms.sh up|down|start NAME|stop NAME
set -euo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpucluster
lab=${GPUCLUSTER_LAB:-100}
work=$cache/vm/lab$lab
here=$(dirname "$0")

run() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

install_packages() {
  local package missing=()
  for package in debian-archive-keyring e2fsprogs gpg mmdebstrap openssh-client qemu-system-x86 qemu-utils; do
    dpkg-query --show --showformat='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  [ "${#missing[@]}" -eq 0 ] && return
  run apt-get update -qq
  run env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# A guest may hang although /dev/kvm can be opened. KVM is used only if a kernel starts its first program.
kvm_boots() {
  [ -w /dev/kvm ] || return 1
  timeout --kill-after=2 $((20 * ${GPUCLUSTER_TEST_PATIENCE:-1})) qemu-system-x86_64 -M q35 -accel kvm -cpu host -m 512 -nodefaults -display none -no-reboot \
    -kernel "$1/kernel" -initrd "$1/initrd" -append 'console=ttyS0 panic=-1 root=/dev/none' -serial stdio 2>/dev/null </dev/null |
    grep -q --max-count=1 'Run /init as init process'
}

start() {
  local name=$1 number=${1#nfs} image disk
  image=$("$here/image.sh")
  mkdir -p "$work"
  [ -f "$work/accel" ] || { kvm_boots "$image" && echo kvm || echo tcg; } > "$work/accel"
  # Emulation for one possible processor leaves out the memory barriers of the guest. QEMU's NVMe drive runs in another thread, and then loses
  # requests (after 4,000 reads; none in 1.3 million with the barriers). So there are two possible processors, and one is there.
  local accel=(-accel tcg,thread=multi -cpu max,la57=off)
  [ "$(cat "$work/accel")" = tcg ] || accel=(-accel kvm -cpu host)
  [ -f "$work/$name.qcow2" ] || qemu-img create -q -f qcow2 -F raw -b "$image/disk" "$work/$name.qcow2"
  # The client's drives are NVMe drives, as role scratch expects. The server's are named in nfs_volumes. Linux names virtio drives in the
  # order of these devices: vda, vdb, vdc.
  local drives=(-drive "file=$work/$name.qcow2,if=none,id=root,format=qcow2,cache=unsafe" -device virtio-blk-pci,drive=root) kind=nvme
  [ "$name" = nfs2 ] || kind=virtio-blk-pci
  for disk in a b; do
    [ -f "$work/$name$disk" ] || truncate --size=320M "$work/$name$disk"
    drives+=(-drive "file=$work/$name$disk,if=none,id=$disk,format=raw,cache=unsafe" -device "$kind,drive=$disk,serial=lab$number$disk")
  done
  # The scenario takes less than an hour. Long after that, a forgotten machine stops automatically.
  setsid timeout $((7200 * ${GPUCLUSTER_TEST_PATIENCE:-1})) qemu-system-x86_64 -name "$name" -M q35 "${accel[@]}" -smp 1,maxcpus=2 -m 768 -nodefaults -no-user-config -display none \
    -kernel "$image/kernel" -initrd "$image/initrd" \
    -append "root=/dev/vda rw console=ttyS0 quiet systemd.hostname=$name systemd.show_status=0 net.ifnames=0 mitigations=off apparmor=0 audit=0" \
    -serial "file:$work/$name.console" -pidfile "$work/$name.pid" \
    "${drives[@]}" \
    -netdev "user,id=ssh,restrict=on,hostfwd=tcp:127.0.0.1:$((23000 + lab * 10 + number))-:22" \
    -device "virtio-net-pci,netdev=ssh,mac=52:54:00:00:01:0$number" \
    -netdev "socket,id=lan,mcast=230.77.0.$((lab + 1)):$((26000 + lab)),localaddr=127.0.0.1" \
    -device "virtio-net-pci,netdev=lan,mac=52:54:00:00:02:0$number" \
    -object rng-random,filename=/dev/urandom,id=rng -device virtio-rng-pci,rng=rng \
    </dev/null >"$work/$name.qemu" 2>&1 &
}

# Stops the machine without a shutdown, like a power failure.
stop() {
  local pid file=$work/$1.pid
  [ -f "$file" ] || return 0
  pid=$(cat "$file")
  if tr '\0' ' ' < "/proc/$pid/cmdline" 2>/dev/null | grep -q "qemu.* -name $1 .*$work/"; then
    kill "$pid"
    while [ -d "/proc/$pid" ]; do sleep 0.2; done # work: nothing survives SIGTERM here
  fi
  rm -f "$file"
}

case $1 in
  up)
    install_packages
    "$here/image.sh" >/dev/null
    "$0" down
    start nfs1
    start nfs2
    cat "$work/accel"
    ;;
  down)
    stop nfs1
    stop nfs2
    rm -rf "$work"
    ;;
  start | stop) "$1" "$2" ;;
  *)
    sed -n '2,4p' "$0"
    exit 2
    ;;
esac
