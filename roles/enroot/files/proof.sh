#!/bin/sh
# Every container needs its directories ("$@") and user namespaces. fs.protected_symlinks must be on; in a container, the host
# decides it.
set -eu
for directory; do [ -d "$directory" ] || { echo "$directory does not exist" >&2; exit 1; }; done
links=/proc/sys/fs/protected_symlinks
systemd-detect-virt --quiet --container || [ "$(cat $links)" != 0 ] ||
  { echo "$links is 0; set fs.protected_symlinks in enroot_sysctl, or find the file that overrides it" >&2; exit 1; }
exec setpriv --reuid=65534 --regid=65534 --clear-groups enroot-nsenter --user --mount --remap-root true
