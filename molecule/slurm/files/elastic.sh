#!/bin/bash
# On the controller: prints the seconds of each step, and fails if a step takes longer than its limit.
set -euo pipefail
cloud=http://$(ip route show default | awk '{print $3}'):8700

off() { [ "$(sinfo --noheader --Node --nodes='cloud[1-2]' --Format=statelong | grep -c 'idle~')" = 2 ]; }
room() { python3 -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1] + "/room", sys.argv[2].encode(), 20)' "$cloud" "$1"; }
field() { scontrol show job "$job" | grep -o "$1=[^ ]*" | cut -d= -f2; }
submit() { job=$(su alice -s /bin/sh -c "sbatch --parsable --constraint=cloud --nodes=2 --chdir=/ --output=/dev/null --wrap '$1'"); }
# Waits for a condition: NAME SECONDS COMMAND...
await() {
  local name=$1 limit=$2 start=$EPOCHSECONDS
  shift 2
  until "$@"; do
    if [ $((EPOCHSECONDS - start)) -ge "$limit" ]; then
      echo "$name: not within $limit s"
      sinfo --Node --Format=nodelist,statelong,reason
      scontrol show job "${job:-}"
      journalctl --no-pager --lines=20 --identifier=gpucluster-elastic
      exit 1
    fi
    sleep 0.5
  done
  echo "$name: $((EPOCHSECONDS - start)) s"
}
runs() { [ "$(field JobState)" = RUNNING ]; }
requeued() { [ "$(field Restarts)" = 1 ] && off; }

await "no node has a machine" 60 off
submit "sleep 1000"
await "from no machine to a running job" "${ELASTIC_START:-45}" runs
scancel "$job"
await "the machines are gone" 60 off
room 0
submit "sleep 1"
await "from a failed allocation to idle~ and a requeued job" 30 requeued
scancel "$job"
room 1000
