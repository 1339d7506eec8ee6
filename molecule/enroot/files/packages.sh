#!/bin/sh
# Creates Debian packages for two releases of a stand-in for enroot in the given directory. The stand-in reads its
# configuration as enroot does.
set -eu
target=$1
for version in 4.2.1 4.2.2; do
    root=$(mktemp -d)
    mkdir -p "$root/DEBIAN" "$root/usr/bin" "$root/usr/share/enroot/hooks.d" "$root/etc/enroot/hooks.d"
    printf '# ENROOT_MOUNT_HOME no\n' > "$root/etc/enroot/enroot.conf"
    echo /etc/enroot/enroot.conf > "$root/DEBIAN/conffiles"
    for hook in 50-mig-config.sh 50-sharp.sh 50-slurm-pmi.sh 50-slurm-pytorch.sh; do
        printf '#!/bin/sh\necho %s\n' "$hook" > "$root/usr/share/enroot/hooks.d/$hook"
        chmod 755 "$root/usr/share/enroot/hooks.d/$hook"
    done
    for hook in 10-home.sh 98-nvidia.sh; do
        printf '#!/bin/sh\necho %s\n' "$hook" > "$root/etc/enroot/hooks.d/$hook"
        chmod 755 "$root/etc/enroot/hooks.d/$hook"
    done
    sed "s/@version@/$version/" "$(dirname "$0")/enroot" > "$root/usr/bin/enroot"
    printf '#!/bin/sh\nwhile [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"\n' > "$root/usr/bin/enroot-nsenter"
    chmod 755 "$root/usr/bin/enroot" "$root/usr/bin/enroot-nsenter"
    printf 'Package: enroot\nVersion: %s-1\nArchitecture: amd64\nMaintainer: test\nDepends: bash\nDescription: stand-in\n' "$version" \
        > "$root/DEBIAN/control"
    dpkg-deb --root-owner-group --build "$root" "$target/enroot_$version-1_amd64.deb"
    rm -r "$root"
    mkdir -p "$root/DEBIAN"
    printf 'Package: enroot+caps\nVersion: %s-1\nArchitecture: amd64\nMaintainer: test\nDepends: enroot (= %s-1)\nDescription: stand-in\n' \
        "$version" "$version" > "$root/DEBIAN/control"
    dpkg-deb --root-owner-group --build "$root" "$target/enroot+caps_$version-1_amd64.deb"
    rm -r "$root"
done
cd "$target"
sha256sum -- *.deb > SHA256SUMS
