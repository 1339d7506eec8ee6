#!/usr/bin/env bash
# Makes a repository for apt with a stand-in of the package apptainer.
set -euo pipefail
build=$(mktemp -d)
mkdir -p "$build/DEBIAN" "$build/usr/bin" /srv/repository
printf 'Package: apptainer\nVersion: 1.4.5\nArchitecture: all\nMaintainer: test <test@example.com>\nDescription: stand-in\n' > "$build/DEBIAN/control"
printf '#!/bin/sh\necho 1.4.5\n' > "$build/usr/bin/apptainer"
chmod 755 "$build" "$build/usr/bin/apptainer"
dpkg-deb --build --root-owner-group "$build" /srv/repository/apptainer.deb > /dev/null
cd /srv/repository
{
  dpkg-deb --field apptainer.deb
  printf 'Filename: ./apptainer.deb\nSize: %s\nSHA256: %s\n\n' "$(stat --format %s apptainer.deb)" "$(sha256sum apptainer.deb | cut -d ' ' -f 1)"
} > Packages
echo 'deb [trusted=yes] file:/srv/repository ./' > /etc/apt/sources.list.d/site.list
apt-get update -o Dir::Etc::sourcelist=sources.list.d/site.list -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0 > /dev/null
