#!/bin/sh
# Sends a signal to ranks of gpucluster-torchrun on this node, or lets them have a tenth of the time: rank.sh SIGNAL|slow LOCAL_RANK...
set -eu
what=$1
shift
pids=
for rank in "$@"; do
  pids="$pids $(sed 's/.*"pid": \([0-9]*\).*/\1/' /tmp/gpucluster-torchrun-*/rank-"$rank")"
done
if [ "$what" != slow ]; then
  # shellcheck disable=SC2086  # words
  exec kill "-$what" $pids
fi
# shellcheck disable=SC2086
while kill -STOP $pids; do
  sleep 0.045 # fault: nine tenths of the time
  kill -CONT $pids
  sleep 0.005 # fault: a tenth of the time
done
