#!/usr/bin/env bash
# Usage: restart_until_namespaces_keep.sh CONTAINER
# job_container/tmpfs keeps the mount namespace of each job as a file. Linux refuses that if the ID of this namespace is
# lower than the ID of the namespace of the process that keeps it. Since Linux 6.18, each processor assigns its own IDs.
# Therefore it depends on the ID of a container's namespace whether this works. The IDs of a processor only grow, so one
# namespace of each processor that the container uses shows whether it always works.
set -euo pipefail

keep='
  set -e
  folder=$(mktemp -d)
  mount --bind "$folder" "$folder"
  mount --make-private "$folder"
  trap "umount --lazy $folder; rm -r $folder" EXIT
  touch "$folder/namespace"
  for processor in $(python3 -c "import os; print(*os.sched_getaffinity(1))"); do
    taskset --cpu-list "$processor" unshare --mount="$folder/namespace" true
    umount "$folder/namespace"
  done
'

for attempt in {1..20}; do
  if podman exec "$1" sh -c "$keep"; then
    echo "restarts: $((attempt - 1))"
    exit 0
  fi
  podman restart --time 5 "$1" > /dev/null
done
echo "The kernel keeps no mount namespace of $1, so jobs cannot have a /tmp of their own here." >&2
exit 1
