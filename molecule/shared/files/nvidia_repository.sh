#!/usr/bin/env bash
# Makes signed apt repositories below the directory given, laid out as NVIDIA lays out its own: libnvidia-container/ with two releases of the container
# toolkit, and cuda/ with a driver. The packages have upstream's names and dependencies; their programs are stand-ins that note how they are called.
set -euo pipefail
target=$1
work=$(mktemp -d)
trap 'gpgconf --homedir "$work/gpg" --kill all; rm -r "$work"' EXIT
notes=/tmp/nvidia-calls

# NAME VERSION DEPENDS DESTINATION, with the package's tree in $work/root
pack() {
  mkdir -p "$work/root/DEBIAN" "$4"
  printf 'Package: %s\nVersion: %s\nArchitecture: amd64\nMaintainer: test\nDescription: stand-in\n' "$1" "$2" > "$work/root/DEBIAN/control"
  [ -z "$3" ] || echo "Depends: $3" >> "$work/root/DEBIAN/control"
  dpkg-deb --root-owner-group --build "$work/root" "$4/$1_$2_amd64.deb" > /dev/null
  rm -r "$work/root"
}

# PATH, with the program's text on standard input
program() {
  mkdir -p "$(dirname "$work/root/$1")"
  { printf '#!/bin/sh\n' && cat; } > "$work/root/$1"
  chmod 0755 "$work/root/$1"
}

toolkit() {
  local version=$1 directory=$target/libnvidia-container/stable/deb/amd64
  mkdir "$work/root"
  pack libnvidia-container1 "$version" '' "$directory"
  # Called by enroot's hook and by the hook of the runtime: nvidia-container-cli [OPTIONS] configure [OPTIONS] ROOT.
  program usr/bin/nvidia-container-cli << PROGRAM
[ "\$*" != --version ] || { echo 'cli-version: ${version%-*}'; exit; }
echo "nvidia-container-cli \$*" >> $notes
PROGRAM
  pack libnvidia-container-tools "$version" "libnvidia-container1 (>= $version)" "$directory"
  # A shim in front of runc; the real one adds its hook to the containers that ask for GPUs.
  program usr/bin/nvidia-container-runtime << PROGRAM
echo "nvidia-container-runtime \$*" >> $notes
exec runc "\$@"
PROGRAM
  # What NVIDIA's installation guide shows for Docker.
  program usr/bin/nvidia-ctk << 'PROGRAM'
[ "$*" = 'runtime configure --runtime=docker --dry-run' ] || { echo "the stand-in does not know $*" >&2; exit 1; }
echo '{"runtimes": {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}}'
PROGRAM
  pack nvidia-container-toolkit-base "$version" '' "$directory"
  # Called by Docker for --gpus before the container's program starts, with the container's state on standard input.
  program usr/bin/nvidia-container-runtime-hook << PROGRAM
bundle=\$(sed -n 's/.*"bundle": *"\([^"]*\)".*/\1/p')
echo "nvidia-container-runtime-hook \$* \$(grep -o 'NVIDIA_VISIBLE_DEVICES=[^"]*' "\$bundle/config.json")" >> $notes
PROGRAM
  pack nvidia-container-toolkit "$version" \
    "nvidia-container-toolkit-base (= $version), libnvidia-container-tools (= $version), libnvidia-container-tools (<< 2.0.0)" "$directory"
}

driver() {
  local directory=$target/cuda
  # The scenario brings the simulation.
  program usr/bin/nvidia-smi << 'PROGRAM'
PYTHONPATH=/usr/local/lib/gpucluster-simulation exec python3 -m nvidia_simulation "$@"
PROGRAM
  pack nvidia-driver-cuda 580.159.04-1 '' "$directory"
  mkdir "$work/root"
  pack nvidia-open 580.159.04-1 'nvidia-driver-cuda (= 580.159.04-1)' "$directory"
}

# DIRECTORY KEY: the lists of a flat repository, signed, and the key
sign() {
  (
    cd "$1"
    apt-ftparchive packages . > Packages
    apt-ftparchive release . > "$work/Release"
    gpg --homedir "$work/gpg" --batch --yes --clearsign --output InRelease "$work/Release"
  )
  gpg --homedir "$work/gpg" --batch --armor --export > "$2"
}

mkdir -m 0700 "$work/gpg"
gpg --homedir "$work/gpg" --batch --quiet --passphrase '' --quick-generate-key test ed25519 sign never
toolkit 1.20.0-1
toolkit 1.20.1-1
driver
sign "$target/libnvidia-container/stable/deb/amd64" "$target/libnvidia-container/gpgkey"
sign "$target/cuda" "$target/cuda/3bf863cc.pub"
