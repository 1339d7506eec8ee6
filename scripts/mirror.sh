#!/usr/bin/env bash
# Lists the upstream files of a mirror with their checksums, checks a directory, or downloads what the directory lacks.
# Usage: scripts/mirror.sh list | check DIRECTORY | download DIRECTORY
set -euo pipefail

usage() {
  echo "Usage: scripts/mirror.sh list | check DIRECTORY | download DIRECTORY" >&2
  exit 2
}

case "${1:-} $#" in
  "list 1") options=() ;;
  "check 2" | "download 2")
    directory=$(realpath --canonicalize-missing -- "$2")
    if [ "$1" = check ] && [ ! -d "$directory" ]; then
      echo "$2 is not a directory." >&2
      exit 1
    fi
    options=(--extra-vars "{\"mirror_directory\": \"$directory\", \"mirror_download\": $([ "$1" = download ] && echo true || echo false)}")
    ;;
  *) usage ;;
esac

cd "$(dirname "$0")/.."
[ -x .venv/bin/ansible-playbook ] || scripts/setup.sh lab
exec .venv/bin/ansible-playbook --inventory localhost, playbooks/mirror.yml "${options[@]}"
