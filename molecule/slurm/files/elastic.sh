#!/bin/bash
# On the controller: prints the seconds of each step. A step that does not end within ten minutes fails.
set -euo pipefail
cloud=/usr/local/sbin/lab-cloud
limit=600

ask() { echo "$2" | "$cloud" "$1"; }
nodes() { sinfo --noheader --Node --nodes="$1" --Format=statelong; }
idle() { [ "$(nodes "$1" | grep -c 'idle~')" = "$2" ]; }
no_machine() { idle 'cloud[1-3]' 3 && [ "$("$cloud" list < /dev/null)" = '{"machines": []}' ]; }
field() { scontrol show job "$job" | grep -o "$1=[^ ]*" | cut -d= -f2; }
submit() { job=$(su alice -s /bin/sh -c "sbatch --parsable --chdir=/ --output=/dev/null --nodelist=$1 --wrap '$2'"); }
static() { scontrol show node gpu1,gpu2 | grep -o -e 'NodeName=[^ ]*' -e 'State=[^ ]*' -e 'SlurmdStartTime=[^ ]*'; }

fail() {
  echo "$1"
  sinfo --Node --Format=nodelist,statelong,reason
  scontrol show job "${job:-}"
  "$cloud" list < /dev/null
  journalctl --no-pager --lines=40 --identifier=gpucluster-elastic
  exit 1
}

# Waits for a condition: NAME COMMAND...
await() {
  local name=$1 start=$EPOCHSECONDS
  shift
  until "$@"; do
    [ $((EPOCHSECONDS - start)) -lt "$limit" ] || fail "$name: not within $limit s"
    sleep 0.5
  done
  echo "$name: $((EPOCHSECONDS - start)) s"
}

# Kills the calls with a word until one was there.
kill_calls() {
  local start=$EPOCHSECONDS found=
  until [ -n "$found" ]; do
    [ $((EPOCHSECONDS - start)) -lt "$limit" ] || fail "no call to kill: $1"
    found=$(pgrep --full "gpucluster-elastic $1 ") || sleep 0.1
    kill -KILL $found 2> /dev/null || true
  done
  echo "killed: $1"
}

runs() { [ "$(field JobState)" = RUNNING ]; }
step_ran() { [ "$(sacct --noheader --parsable2 --jobs="$job.0" --format=state,nnodes)" = 'COMPLETED|2' ]; }
requeued() { [ "$(field Restarts)" = 1 ] && idle 'cloud[1-2]' 2; }

before=$(static)
await "no node has a machine" no_machine
ask stray '"stray9"' > /dev/null

submit 'cloud[1-2]' 'srun true && sleep 3000'
await "from no machine to a running job" runs
[ "$(field Restarts)" = 0 ] || fail "a new machine did not take the job"
await "both nodes ran a step" step_ran
scancel "$job"

submit cloud3 'sleep 3000'
kill_calls resume
kill_calls suspend
await "after a killed call, the job runs" runs
await "after a killed call, the machines are gone" idle 'cloud[1-2]' 2

scancel "$job"
ask room 0 > /dev/null
submit 'cloud[1-2]' 'sleep 1'
await "from a failed allocation to idle~ and a requeued job" requeued
scancel "$job"
ask room 1000 > /dev/null
await "no machine is left, also no stray one" no_machine
[ "$(static)" = "$before" ] || fail "nodes of the inventory changed: $before $(static)"
