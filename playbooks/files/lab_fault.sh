#!/usr/bin/env bash
# Mends every fault of lab_faults.yml that is not simulated, then causes the fault $1 if it is one of these. Mending changes nothing
# on a healthy node.
set -e
run=/run/gpucluster-simulation
topology=/opt/gpucluster/nccl/topo.xml

rm -f /dev/shm/lab-fault
if mountpoint --quiet $run/shared; then
  mountpoint --quiet /shared || mount --bind $run/shared /shared
  umount --lazy $run/shared
fi
mount --options remount,bind,rw /shared
! test -f $run/topo.xml || mv $run/topo.xml $topology
sed -i /Xid/d $run/kernel.log
rm -f /etc/slurm/{epilog,prolog}.d/99-lab-fault

case $1 in
  disk_full)
    fallocate --length "$(df --output=avail --block-size=1 /dev/shm | awk 'NR == 2 {printf "%d", $1 * 0.97}')" /dev/shm/lab-fault
    ;;
  mount)
    mkdir -p $run/shared
    mount --bind /shared $run/shared
    umount --lazy /shared
    ;;
  read_only)
    mount --options remount,bind,ro /shared
    ;;
  topology)
    cp --no-clobber --preserve $topology $run/topo.xml
    echo '<system version="1">' > $topology
    ;;
  xid)
    printf '[%s] NVRM: Xid (PCI:0000:43:00): 79, GPU has fallen off the bus.\n' "$(cut -d ' ' -f 1 /proc/uptime)" >> $run/kernel.log
    ;;
  epilog | prolog)
    install --mode=0755 /dev/stdin "/etc/slurm/$1.d/99-lab-fault" <<< $'#!/bin/sh\necho fault of the lab >&2\nexit 1'
    ;;
esac
