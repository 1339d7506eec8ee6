#!/usr/bin/env bash
# Removes containers. On a busy machine, podman may need more than one attempt until their processes have ended.
# Usage: lab_remove.sh SECONDS CONTAINER...
set -u
seconds=$1
shift

until said=$(timeout --kill-after=5 60 podman rm --force --time=5 --ignore "$@" 2>&1); do
  if [ "$SECONDS" -ge "$seconds" ]; then
    echo "not removed after $seconds seconds: $said" >&2
    exit 1
  fi
  sleep 1
done
