#!/usr/bin/env bash
# Kills slurmctld and slurmdbd (SIGKILL) while one job runs on NODE and two jobs wait for it. Prints the states of the
# three jobs in the accounting. Slurm writes its state at intervals, so slurmctld is killed after it has written the
# start of the first job. Usage: kill_daemons.sh NODE PATIENCE (seconds that each wait may take)
set -euo pipefail
node=$1 patience=$2 state=/var/spool/slurmctld/job_state hold=/shared/hold
cd /tmp
submit() { sbatch --parsable --uid=alice --nodelist="$node" --output=/dev/null --chdir=/tmp --wrap "$1"; }
die() { systemctl kill --signal=KILL "$@"; }
await() { # WHAT COMMAND...
  for _ in $(seq "$patience"); do
    if "${@:2}"; then return 0; fi
    sleep 1
  done
  echo "waited for: $1; there is: $(scontrol ping 2>&1; systemctl is-active slurmdbd; squeue --jobs="$jobs" 2>&1)" >&2
  return 1
}
is_back() { scontrol ping 2> /dev/null | grep -q 'is UP' && systemctl --quiet is-active slurmdbd; }
runs() { [ "$(squeue --noheader --jobs="$first" --format=%T)" = RUNNING ]; }
is_written() { [ "$state" -nt /run/first-runs ]; }

touch "$hold"
first=$(submit "while [ -e $hold ]; do sleep 1; done") # work: it ends with the file
jobs=$first,$(submit true),$(submit true)
await 'the first job runs' runs
touch /run/first-runs
scontrol update JobId="$first" Comment=written # has the state written again
await "slurmctld writes $state" is_written
die slurmctld slurmdbd
await 'slurmctld and slurmdbd are back' is_back
(
  sleep 0.05 # fault: a moment in the reconfiguration, whichever it is
  die slurmctld
) &
scontrol reconfigure > /dev/null 2>&1 || true # the connection may break
wait
await 'slurmctld and slurmdbd are back' is_back
rm "$hold"
die slurmdbd # the end of the first job finds no slurmdbd
for _ in $(seq "$patience"); do
  states=$(sacct --allusers --allocations --noheader --parsable2 --jobs="$jobs" --format=State,Start,End 2> /dev/null || true)
  if [ "$(grep -c '^COMPLETED|2.*|2' <<< "$states")" = 3 ]; then break; fi
  sleep 1
done
cut -d '|' -f 1 <<< "$states"
