#!/bin/sh
# Sets kernel.perf_event_paranoid to $1 if it differs, and reports a driver that was loaded with another right than $2.
name=kernel.perf_event_paranoid
[ "$(sysctl -n $name)" = "$1" ] || { sysctl --quiet --write "$name=$1" && echo "changed $name"; } || exit
! grep -q "^RmProfilingAdminOnly: $2" /proc/driver/nvidia/params 2> /dev/null || echo "driver differs"
