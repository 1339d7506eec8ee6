#!/usr/bin/env bash
# Creates signed apt repositories in the given directory, with the layout of NVIDIA's repositories. libnvidia-container/
# has two releases of the container toolkit, and cuda/ has a driver. The packages have the names and dependencies of
# NVIDIA's packages. Their programs are stand-ins that record their arguments.
set -euo pipefail
target=$1
work=$(mktemp -d)
trap 'gpgconf --homedir "$work/gpg" --kill all; rm -r "$work"' EXIT
notes=/var/tmp/nvidia-calls

# Arguments: NAME VERSION DEPENDS DESTINATION. The files of the package are in $work/root.
pack() {
  mkdir -p "$work/root/DEBIAN" "$4"
  printf 'Package: %s\nVersion: %s\nArchitecture: amd64\nMaintainer: test\nDescription: stand-in\n' "$1" "$2" > "$work/root/DEBIAN/control"
  [ -z "$3" ] || echo "Depends: $3" >> "$work/root/DEBIAN/control"
  dpkg-deb --root-owner-group --build "$work/root" "$4/$1_$2_amd64.deb" > /dev/null
  rm -r "$work/root"
}

# Argument: PATH. The program is on standard input.
program() {
  mkdir -p "$(dirname "$work/root/$1")"
  { printf '#!/bin/sh\n' && cat; } > "$work/root/$1"
  chmod 0755 "$work/root/$1"
}

toolkit() {
  local version=$1 directory=$target/libnvidia-container/stable/deb/amd64
  mkdir "$work/root"
  pack libnvidia-container1 "$version" '' "$directory"
  # The hooks of enroot and of the runtime call nvidia-container-cli [OPTIONS] configure [OPTIONS] ROOT.
  program usr/bin/nvidia-container-cli << PROGRAM
[ "\$*" != --version ] || { echo 'cli-version: ${version%-*}'; exit; }
echo "nvidia-container-cli \$*" >> $notes
PROGRAM
  pack libnvidia-container-tools "$version" "libnvidia-container1 (>= $version)" "$directory"
  # A wrapper of runc. The real one adds its hook to containers that request GPUs.
  program usr/bin/nvidia-container-runtime << PROGRAM
echo "nvidia-container-runtime \$*" >> $notes
exec runc "\$@"
PROGRAM
  # The command from NVIDIA's installation guide for Docker.
  program usr/bin/nvidia-ctk << 'PROGRAM'
[ "$*" = 'runtime configure --runtime=docker --dry-run' ] || { echo "the stand-in does not know $*" >&2; exit 1; }
echo '{"runtimes": {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}}'
PROGRAM
  pack nvidia-container-toolkit-base "$version" '' "$directory"
  # With --gpus, Docker calls this before the program of the container starts. Standard input is the container's state.
  program usr/bin/nvidia-container-runtime-hook << PROGRAM
bundle=\$(sed -n 's/.*"bundle": *"\([^"]*\)".*/\1/p')
echo "nvidia-container-runtime-hook \$* \$(grep -o 'NVIDIA_VISIBLE_DEVICES=[^"]*' "\$bundle/config.json")" >> $notes
PROGRAM
  pack nvidia-container-toolkit "$version" \
    "nvidia-container-toolkit-base (= $version), libnvidia-container-tools (= $version), libnvidia-container-tools (<< 2.0.0)" "$directory"
}

driver() {
  local directory=$target/cuda
  # The scenario installs the simulation.
  program usr/bin/nvidia-smi << 'PROGRAM'
PYTHONPATH=/usr/local/lib/gpucluster-simulation exec python3 -m nvidia_simulation "$@"
PROGRAM
  pack nvidia-driver-cuda 580.159.04-1 '' "$directory"
  mkdir "$work/root"
  pack nvidia-open 580.159.04-1 'nvidia-driver-cuda (= 580.159.04-1)' "$directory"
}

# Arguments: DIRECTORY KEY. Writes the signed index files of a flat repository, and the key.
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
