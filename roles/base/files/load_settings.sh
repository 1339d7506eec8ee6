#!/bin/sh
# Loads the kernel settings, and prints those with the names "$@" if one of them had another value.
before=$(sysctl --ignore "$@" 2> /dev/null)
sysctl --quiet --load /etc/sysctl.d/90-gpucluster.conf || exit
after=$(sysctl --ignore "$@" 2> /dev/null)
[ "$before" = "$after" ] || echo "$after"
