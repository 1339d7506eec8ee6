#!/usr/bin/env bash
# On the controller: prints the seconds of each step. A step that does not end within SECONDS fails. Usage: elastic.sh SECONDS
set -euo pipefail
cloud=/usr/local/sbin/lab-cloud
kill=/var/spool/slurmctld/kill
limit=$1

ask() { echo "$2" | "$cloud" "$1"; }
nodes() { sinfo --noheader --Node --nodes="$1" --Format=statelong; }
idle() { [ "$(nodes "$1" | grep -c 'idle~')" = "$2" ]; }
no_machine() { idle 'cloud[1-3]' 3 && [ "$("$cloud" list < /dev/null)" = '{"machines": []}' ]; }
field() { scontrol show job "$job" | grep -o "$1=[^ ]*" | cut -d= -f2; }
submit() { job=$(su alice -s /bin/sh -c "sbatch --parsable --chdir=/ --output=/dev/null --nodelist=$1 --wrap '$2'"); }
static() { [ "$(nodes 'gpu[1-2]' | xargs)" = 'idle idle' ]; }
started() { scontrol show node gpu1,gpu2 | grep -o 'SlurmdStartTime=[^ ]*'; }

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
    sleep 1 # the limit is the patience
  done
  echo "$name: $((EPOCHSECONDS - start)) s"
}

runs() { [ "$(field JobState)" = RUNNING ]; }
# Slurm starts a job again whose node did not start it.
step_ended() {
  step=$(sacct --noheader --parsable2 --jobs="$job.0" --format=state,nnodes)
  [[ $step =~ ^[CFNT] || $(field Restarts) == [1-9]* ]]
}
killed() { [ ! -e "$kill-start" ] && [ ! -e "$kill-stop" ]; }
requeued() { [[ $(field Restarts) == [1-9]* ]] && idle 'cloud[1-2]' 2; }

await "the nodes of the inventory are idle" static
before=$(started)
await "no node has a machine" no_machine
ask stray '"stray9"' > /dev/null

submit 'cloud[1-2]' 'srun true && sleep infinity'
await "from no machine to a running job" runs
await "the step on both nodes ended" step_ended
[ "$step" = 'COMPLETED|2' ] || fail "a new machine did not start the job: $step"
scancel "$job"

touch "$kill-start" "$kill-stop"
submit cloud3 'sleep infinity'
await "a call that starts and one that stops were killed" killed
await "after a killed call, the job runs" runs
await "after a killed call, the machines are gone" idle 'cloud[1-2]' 2

scancel "$job"
ask room 0 > /dev/null
submit 'cloud[1-2]' true
await "from a failed allocation to idle~ and a requeued job" requeued
scancel "$job"
ask room 1000 > /dev/null
await "no machine is left, also no stray one" no_machine
await "the nodes of the inventory are idle" static
[ "$(started)" = "$before" ] || fail "slurmd of a node of the inventory started again"
