#!/usr/bin/env bash
# Makes a container image from Debian packages. /etc/made-by contains its name.
# Usage: image.sh IMAGE SUITE PACKAGE,PACKAGE... [MIRROR]
set -euo pipefail
image=$1 suite=$2 packages=$3 mirror=${4:-}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

name=${image##*/}
echo "${name%%:*}" > "$work/made-by"
mmdebstrap --quiet --variant=minbase --include="$packages" \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  --customize-hook="upload $work/made-by /etc/made-by" \
  "$suite" "$work/root.tar" ${mirror:+"$mirror"}
podman import --quiet "$work/root.tar" "$image"
