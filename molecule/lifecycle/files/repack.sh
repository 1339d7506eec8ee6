#!/usr/bin/env bash
# Creates a second build from a finished one without a compiler. It has the same packages and another digest.
# Usage: repack.sh ARCHIVE NEW-ARCHIVE [PACKAGE]   PACKAGE is an additional package, such as dev
set -euo pipefail
old=$(basename "$1" .tar) new=$(basename "$2" .tar)
[ ! -f "$2" ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar --extract --file "$1" --directory "$work"
directory=$work/gpucluster/$old
mv "$directory" "$work/gpucluster/$new"
directory=$work/gpucluster/$new
for name in slurm-smd{,-client,-slurmd,-slurmctld,-slurmdbd,-sackd,-libpam-slurm-adopt} ${3:+slurm-smd-$3}; do
  package=$(echo "$directory/${name}"_*.deb)
  dpkg-deb -R "$package" "$work/tree"
  sed -i "s/gpucluster\.${old##*-}/gpucluster.${new##*-}/g" "$work/tree/DEBIAN/control"
  dpkg-deb -Zgzip -z1 --root-owner-group -b "$work/tree" "$work/$(basename "${package/${old##*-}/${new##*-}}")" > /dev/null
  rm -rf "$work/tree"
done
rm "$directory"/*
mv "$work"/*.deb "$directory"
cd "$directory"
for package in *.deb; do
  dpkg-deb -f "$package"
  printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$package" "$(stat -c %s "$package")" "$(sha256sum "$package" | cut -d ' ' -f 1)"
done > Packages
tar --create --file "$2.partial" --owner=0 --group=0 --directory "$work" gpucluster
mv "$2.partial" "$2"
