#!/usr/bin/env bash
# Kills slurmctld and slurmdbd (SIGKILL) while one job runs on NODE and two jobs wait for it. Prints the states of the
# three jobs in the accounting. Slurm writes its state every five seconds, so no job starts or ends in the seconds
# before slurmctld is killed. Usage: kill_daemons.sh NODE
set -euo pipefail
node=$1
cd /tmp
submit() { sbatch --parsable --uid=alice --nodelist="$node" --output=/dev/null --chdir=/tmp --wrap "sleep $1"; }
die() { systemctl kill --signal=KILL "$@"; }
back() {
  for _ in {1..60}; do
    if scontrol ping 2> /dev/null | grep -q 'is UP' && systemctl --quiet is-active slurmdbd; then return 0; fi
    sleep 0.5
  done
  echo "slurmctld or slurmdbd is not back" >&2
  return 1
}

# The first job runs longer than the two kills and starts of slurmctld take on a busy machine.
jobs=$(submit 50),$(submit 1),$(submit 1)
sleep 6.5
die slurmctld slurmdbd
back
(
  sleep 0.05
  die slurmctld
) &
scontrol reconfigure > /dev/null 2>&1 || true # the connection may break
wait
back
sleep 1
die slurmdbd # the end of the first job finds no slurmdbd
for _ in {1..90}; do
  states=$(sacct --allusers --allocations --noheader --parsable2 --jobs="$jobs" --format=State,Start,End 2> /dev/null || true)
  if [ "$(grep -c '^COMPLETED|2.*|2' <<< "$states")" = 3 ]; then break; fi
  sleep 1
done
cut -d '|' -f 1 <<< "$states"
