#!/bin/sh
# The check of a repaired node, which resumes it after a failed check. The health check that slurmd started before the repair may
# still run, so it is repeated for $1 seconds. A busy machine gets more time for a check than slurmd has.
end=$(($(date +%s) + $1))
while :; do
  gpucluster-check --quiet --forget gpu_xid --forget nvlink_errors --set fast --deadline 200 > /dev/null
  found=$(gpucluster-health --deadline 200) && exit
  [ "$(date +%s)" -lt "$end" ] || break
  sleep 5
done
echo "The node is not healthy after $1 s; gpucluster-health says: $found" >&2
exit 1
